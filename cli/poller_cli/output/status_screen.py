"""The screen of one poller: is it working, is it behind, why, and what to do next; the rest if it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from poller.admin.counts import rows
from poller.backfill.ranges import in_words
from poller.backfill.status import BackfillStatus
from poller.model.escape import cut
from poller.model.when import moment, span, took
from poller_cli.output.status_words import (
    at_work,
    beside,
    committed,
    cursor_text,
    lease_text,
    next_steps,
    state_word,
    waits_above,
)
from poller_cli.terminal.layout import cells, columns, wrapped
from poller_cli.terminal.printing import coloured, copyable, printable

if TYPE_CHECKING:
    from poller.admin.status import OperatorsCondition, PollerStatus

_HANG = 12
_SAID = frozenset({"idle", "working"})
"""Words whose sentence the lines below them say."""
_PAGE = 80
"""Columns at whose end the severity stands."""
_Lines = list[tuple[str, str]]
"""What each line is about, and what it says."""


def screen(status: PollerStatus, inner: Sequence[BackfillStatus] = (), *, verbose: bool = False) -> str:
    """The block of one poller or backfill. `inner`: backfills that are shown in it. `verbose`: with its cursor, lease,
    bound and document."""
    lines = [*_why(status), *_about(status, verbose=verbose), *_behind(status)]
    lines += [("next" if not number else "or", copyable(step)) for number, step in enumerate(next_steps(status))]
    if verbose:
        lines += _details(status)
    return "\n".join([_head(status), *_fitted(lines), *(line for one in inner for line in _beneath(one))])


def _head(status: PollerStatus) -> str:
    """Name and word, and at the end of the line whether a person has to do something."""
    word, colour = state_word(status)
    left = f"{status.name}  {word}"
    mark = "" if status.severity == "well" else status.severity
    gap = " " * max(2, min(_PAGE, columns(sys.stdout) or _PAGE) - cells(left) - cells(mark)) if mark else ""
    return (
        f"{status.name}  {coloured(word, colour, sys.stdout)}{gap}{coloured(mark, colour, sys.stdout) if mark else ''}"
    )


def _fitted(lines: _Lines, *, indent: str = "  ") -> list[str]:
    """As lines of the terminal. What a row or an error holds must not steer it."""
    width = columns(sys.stdout)
    texts = [printable(f"{name:<9} {text}", indent=indent) for name, text in lines]
    return [part for text in texts for part in wrapped(text, width, hang=len(indent) + 10, statement="poller " in text)]


def _why(status: PollerStatus) -> _Lines:
    """What the worst is, and what is so beside it."""
    lines: _Lines = []
    for first, one in [*((True, one) for one in status.conditions[:1]), *((False, one) for one in beside(status))]:
        if not (first and one.name in _SAID):
            lines.append(("why" if first else "also", one.sentence))
        if one.detail and not _is_complaint(status, one):
            lines.append(("detail", cut(one.detail, 1_000)))
    found = status.failing
    if found.searched_up_to is not None:
        text = f"searching for the one that fails among the rows up to {cut(str(found.searched_up_to))}"
        lines.append(("row", text))
    return lines


def _is_complaint(status: PollerStatus, one: OperatorsCondition) -> bool:
    """True if stderr says it: what ended the look."""
    return status.error is not None and one.detail is not None and one.detail in status.error


def _about(status: PollerStatus, *, verbose: bool) -> _Lines:
    """Whose it is, or where it will start; and who works."""
    lines: _Lines = []
    if isinstance(status, BackfillStatus):
        lines.append(("backfill", f"of {status.poller}, {_range(status)}{_begun(status)}"))
    if status.exists is False and status.error is None and not verbose:
        lines.append(("cursor", cursor_text(status)))
    if at_work(status):
        lines.append(("worker", _worker(status)))
    return lines


def _worker(status: PollerStatus) -> str:
    """Who holds the lease, for how long, and when it was last renewed."""
    lease = status.lease
    parts = [cut(lease.owner_id or "unknown")]
    if lease.acquired_at is not None and status.seen_at is not None:
        parts[0] += f" for {span((status.seen_at - lease.acquired_at).total_seconds())}"
    if lease.heartbeat_age_seconds is not None:
        parts.append(f"last heartbeat {span(lease.heartbeat_age_seconds)} ago")
    return ", ".join(parts)


def _behind(status: PollerStatus) -> _Lines:
    """How much waits, for how long, and when the last batch was committed."""
    backfill = isinstance(status, BackfillStatus)
    said = "" if status.pending is not None or backfill else "how far is not known"
    if status.pending is not None:
        said = _left(status) if backfill else f"{_left(status)} waiting"
        if status.above_bound:
            said = waits_above(status.pending, status.pending_capped, status.bound)
        old = status.lag_seconds is not None and (status.lag_seconds > 0 or not status.above_bound)
        said += f", the oldest {span(status.lag_seconds)} old" if status.pending and old else ""
    text = "; ".join(part for part in (said, committed(status)) if part)
    return [("left" if backfill else "behind", text)] if text else []


def _left(status: PollerStatus) -> str:
    return rows(status.pending or 0, status.pending_capped)


def _details(status: PollerStatus) -> _Lines:
    """What a person does not need who asks whether it works."""
    saved = f", saved {moment(status.checkpoint_updated_at)}" if status.checkpoint_updated_at else ""
    lines = [("cursor", f"{cursor_text(status)}{saved}"), ("lease", lease_text(status))]
    if status.bound is not None:
        lines.append(("bound", _bound(status)))
    return [*lines, ("state", status.document)]


def _range(status: BackfillStatus) -> str:
    return in_words(status.begins, status.begins_key, status.ends, status.ends_key)


def _begun(status: BackfillStatus) -> str:
    at = f" at {moment(status.begun_at)}" if status.begun_at else ""
    return f", begun by {status.begun_by}{at}" if status.begun_by else ""


def _beneath(status: BackfillStatus) -> list[str]:
    """A backfill in its poller's block: which, how far, who works on it."""
    word, colour = state_word(status)
    left = "" if status.pending is None else f", {_left(status)} left"
    lines = [_range(status), f"at {status.cursor or 'its beginning'}{left}"]
    if at_work(status):
        lines.append(f"{_worker(status)}{_begun(status)}")
    elif status.begun_by:
        lines.append(_begun(status).removeprefix(", "))
    lines += [
        f"{one.sentence} {one.detail}" if one.detail else one.sentence
        for one in status.conditions
        if one.severity != "well" and one.name != "not_running"
    ]
    head = printable(f"backfill  {status.name}", indent="  ")
    width = columns(sys.stdout)
    shown = [part for line in lines for part in wrapped(printable(line, indent=" " * _HANG), width, hang=_HANG + 2)]
    return [f"{head}  {coloured(word, colour, sys.stdout)}", *shown]


def _bound(status: PollerStatus) -> str:
    bound = status.bound
    if bound is None:
        return ""
    parts = [bound.kind]
    if bound.age_seconds is not None:
        parts.append(f"{took(bound.age_seconds)} behind the database's clock")
    if bound.held_by:
        parts.append(f"held by {bound.held_by}")
    if bound.reason:
        parts.append(bound.reason)
    return ", ".join(parts)
