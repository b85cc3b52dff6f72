"""What `poller status` prints: a table of several pollers, a screen of one, or JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from poller.admin.counts import number, rows
from poller.admin.status import rank
from poller.backfill.ranges import in_words
from poller.backfill.status import BackfillStatus
from poller.model.escape import cut
from poller.model.when import ago, moment, span, took
from poller_cli.output.many import MANY, total
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
from poller_cli.terminal.layout import (
    GAP,
    Column,
    cells,
    clipped,
    columns,
    distinct,
    fitted,
    padded,
    shortened,
    widths_of,
    wrapped,
)
from poller_cli.terminal.printing import coloured, copyable, of_poller, printable

if TYPE_CHECKING:
    from poller.admin.status import OperatorsCondition, PollerStatus
    from poller.backfill.status import BackfillStatus
    from poller.backfill.survey import Survey
    from poller_cli.output.models import StatusOutput
    from poller_cli.session import Session


def status_output(looked: Survey) -> StatusOutput:
    """As `--json` prints it."""
    from poller_cli.output.models import StatusOutput

    return StatusOutput(pollers=looked.pollers, backfills=looked.backfills, backfills_unread=looked.unread)


def complaints(looked: Survey) -> list[str]:
    """What could not be read, one line each."""
    named = [one for one in looked.backfills or [] if one.name in looked.named]
    lines = [of_poller(one.name, one.error) for one in looked.pollers if one.error]
    if looked.not_listed is not None and not any(one.error for one in looked.pollers):
        lines.append(f"Whether there are backfills is not known: {looked.not_listed}")
    lines += looked.unreadable
    lines += [of_poller(one.name, one.error) for one in named if one.error]
    if looked.unread:
        lines.append(
            f"Documents that may be of backfills and were not looked at: {looked.unread:,}; poller status NAME shows "
            "any of them."
        )
    return lines


def screens(looked: Survey, session: Session, *, verbose: bool = False) -> list[str]:
    """One poller or backfill as a block that says all of it; several as a table, the worst first, or as blocks where
    `verbose`. With many, a line that counts them."""
    backfills = looked.backfills or []
    beneath: dict[str, list[BackfillStatus]] = {}
    for one in backfills:
        if one.name not in looked.named:
            beneath.setdefault(one.poller, []).append(one)
    shown = [*looked.pollers, *(one for one in backfills if one.name in looked.named)]
    if verbose or len(shown) == 1:
        ordered = sorted(shown, key=rank)
        return [screen(one, beneath.get(one.name, ()), verbose=verbose) for one in ordered]
    blocks = ["\n".join(table(shown, beneath))]
    words = {one.name: state_word(one)[0] for one in shown}
    ends = [total(words)] if len(shown) > MANY else []
    worst = min(shown, key=rank, default=None)
    if worst is not None and worst.severity != "well":
        ends.append(f"What to do: {session.command('status', worst.name)}")
    return [*blocks, *([fitted("\n".join(ends), sys.stdout)] if ends else [])]


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


def _fitted(lines: _Lines) -> list[str]:
    """As lines of the terminal. What a row or an error holds must not steer it."""
    width = columns(sys.stdout)
    texts = [printable(f"{name:<9} {text}", indent="  ") for name, text in lines]
    return [part for text in texts for part in wrapped(text, width, hang=_HANG, statement="poller " in text)]


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


_TABLE = (
    Column("POLLER"),
    Column("STATE"),
    Column("LAG", right=True),
    Column("WAITING", right=True),
    Column("LAST COMMIT", right=True),
    Column("OWNER, OR WHY"),
)
_NOTHING = "-"
_ROOM = 14
"""With fewer columns than that for the last one, what it says has a line of its own."""
_LONGEST_NAME = 18
"""So many columns of a terminal, or a fifth, are a name's."""


def table(pollers: Sequence[PollerStatus], beneath: Mapping[str, Sequence[BackfillStatus]]) -> list[str]:
    """The lines. `beneath`: backfills that stand under the poller of that name."""
    shown = [one for poller in sorted(pollers, key=rank) for one in (poller, *beneath.get(poller.name, ()))]
    inner = {id(one) for group in beneath.values() for one in group}
    width = columns(sys.stdout)
    names = _names([one.name for one in shown], width)
    rows = [_row(one, "  " * (id(one) in inner) + name) for one, name in zip(shown, names, strict=True)]
    widths = widths_of(_TABLE[:-1], [row[:-1] for row in rows])
    used = sum(widths) + GAP * len(widths)
    if width is not None and used > width:
        return [line for one, row in zip(shown, rows, strict=True) for line in _stacked(one, row, width)]
    room = None if width is None else width - used
    lines = [padded(_TABLE, [*widths, 0], [column.head for column in _TABLE])]
    if room is not None and room < len(_TABLE[-1].head):
        lines = [padded(_TABLE[:-1], widths, [column.head for column in _TABLE[:-1]])]
    for one, row in zip(shown, rows, strict=True):
        lines += _lines(one, row, widths, room, width)
    return lines


def _names(names: Sequence[str], width: int | None) -> list[str]:
    """As long as there is room for them; different ones stay different."""
    if width is None:
        return list(names)
    return distinct(names, max(_LONGEST_NAME, width // 5)) or list(names)


def _row(status: PollerStatus, name: str) -> list[str]:
    word = state_word(status)[0]
    lag = span(status.lag_seconds) if status.pending and status.lag_seconds is not None else _NOTHING
    waiting = _NOTHING if status.pending is None else number(status.pending) + "+" * status.pending_capped
    return [name, word, lag, waiting, _last(status), _owner_or_why(status)]


def _last(status: PollerStatus) -> str:
    at, now = status.committed_at, status.seen_at
    return _NOTHING if at is None or now is None else ago(at, now)


def _owner_or_why(status: PollerStatus) -> str:
    """Who works on it; else what keeps it from being well."""
    owner = status.lease.owner_id
    if status.severity == "well" and at_work(status) and owner is not None:
        return printable(cut(owner).removeprefix(f"{status.app_name}/"))
    first = next(iter(status.conditions), None)
    return "" if first is None or first.name == "idle" else printable(first.sentence)


def _lines(
    status: PollerStatus, row: Sequence[str], widths: Sequence[int], room: int | None, width: int | None
) -> list[str]:
    """A poller's line, its state in colour; and if there is no room for the last column, what that says beneath."""
    last, aside = row[-1], list[str]()
    if room is not None and cells(last) > room:
        if room < _ROOM:
            last, aside = "", wrapped(f"    {last}", width, hang=4)
        elif " " in last:
            last = clipped(last, room)
        else:
            last = shortened(last, room)
    line = padded(_TABLE, [*widths, 0], [*row[:-1], last])
    at = widths[0] + GAP
    word, colour = row[1], state_word(status)[1]
    return [line[:at] + coloured(word, colour, sys.stdout) + line[at + len(word) :], *aside]


def _stacked(status: PollerStatus, row: Sequence[str], width: int) -> list[str]:
    """On a terminal that is too narrow for columns: a name, and what there is to say beneath it."""
    name, word, lag, waiting, last, owner = row
    facts = [f"lag {lag}" * (lag != _NOTHING), f"waiting {waiting}" * (waiting != _NOTHING)]
    facts += [f"last commit {last}" * (last != _NOTHING), owner]
    text = ", ".join(fact for fact in facts if fact)
    head = wrapped(f"{name}  {word}", width, hang=2)
    if head[-1].endswith(word):  # a state of several words may be on two lines
        head[-1] = head[-1].removesuffix(word) + coloured(word, state_word(status)[1], sys.stdout)
    return [*head, *(wrapped(f"  {text}", width, hang=2) if text else ())]
