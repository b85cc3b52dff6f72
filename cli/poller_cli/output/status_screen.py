"""The screen of one poller: is it working, is it behind, why, and what to do next; the rest where it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from poller.admin.counts import rows
from poller.backfill.ranges import in_words
from poller.backfill.status import BackfillStatus
from poller.model.escape import cut
from poller.model.transitions import times
from poller.model.when import moment, span, took
from poller_cli.output.event_words import BEFORE_RESUME
from poller_cli.output.failing_words import culprit, failures, next_command, waiting
from poller_cli.output.status_words import (
    at_work,
    clock_went_back,
    committed,
    cursor_text,
    lease_text,
    stalled,
    state_word,
    waits_above,
    why,
)
from poller_cli.terminal.layout import columns, wrapped
from poller_cli.terminal.printing import coloured, printable

if TYPE_CHECKING:
    from poller.admin.status import PollerStatus
    from poller_cli.session import Session

_HANG = 12
_Lines = list[tuple[str, str]]
"""What each line is about, and what it says."""


def screen(
    status: PollerStatus, session: Session, beneath: Sequence[BackfillStatus] = (), *, verbose: bool = False
) -> str:
    """The block of one poller or backfill. `beneath`: backfills that are shown in it. `verbose`: with its cursor,
    lease, bound and document."""
    word, colour = state_word(status)
    reason = why(status)
    head = f"{status.name}  {coloured(word, colour, sys.stdout)}" + (f": {printable(reason)}" if reason else "")
    lines = [
        *_about(status, verbose=verbose),
        *_behind(status),
        *_reasons(status, verbose=verbose),
        *_next(status, session),
    ]
    if verbose:
        lines += _details(status)
    bare = f"{status.name}  {word}" + (f": {printable(reason)}" if reason else "")
    first, *more = wrapped(bare, columns(sys.stdout), hang=_HANG)
    shown = [head if not more else first.replace(f"  {word}", f"  {coloured(word, colour, sys.stdout)}", 1), *more]
    return "\n".join([*shown, *_fitted(lines), *(line for one in beneath for line in _beneath(one))])


def _fitted(lines: _Lines, *, indent: str = "  ") -> list[str]:
    """As lines of the terminal. What a row or an error holds must not steer it."""
    width = columns(sys.stdout)
    texts = [printable(f"{name:<9} {text}", indent=indent) for name, text in lines]
    return [part for text in texts for part in wrapped(text, width, hang=len(indent) + 10, statement="poller " in text)]


def _about(status: PollerStatus, *, verbose: bool) -> _Lines:
    """Whose it is, or where it will start; and who works."""
    lines: _Lines = []
    if isinstance(status, BackfillStatus):
        lines.append(("backfill", f"of {status.poller}, {_range(status)}{_begun(status)}"))
    if status.exists is False and status.error is None and not verbose:
        lines.append(("cursor", cursor_text(status)))
    if status.lease.live:
        lines.append(("worker" if at_work(status) else "lease", _worker(status)))
    return lines


def _worker(status: PollerStatus) -> str:
    """Who holds the lease, for how long, and whether they are alive."""
    lease = status.lease
    if lease.kept_by is not None or lease.owner_id is None:
        return lease_text(status)
    parts = [cut(lease.owner_id)]
    if lease.acquired_at is not None and status.seen_at is not None:
        parts[0] += f" for {span((status.seen_at - lease.acquired_at).total_seconds())}"
    if lease.heartbeat_age_seconds is not None:
        parts.append(f"last heartbeat {span(lease.heartbeat_age_seconds)} ago")
    return ", ".join(parts)


def _behind(status: PollerStatus) -> _Lines:
    """How much waits, for how long, and when the last batch was committed."""
    backfill, done = isinstance(status, BackfillStatus), committed(status)
    said = "" if status.pending is not None or backfill else "how far is not known"
    if status.pending is not None:
        said = _left(status) if backfill else f"{_left(status)} pending"
        if status.above_bound:
            said = waits_above(status.pending, status.pending_capped, status.bound)
        old = status.lag_seconds is not None and (status.lag_seconds > 0 or not status.above_bound)
        said += f", the oldest {span(status.lag_seconds)} old" if status.pending and old else ""
    text = "; ".join(part for part in (said, done) if part)
    return [("left" if backfill else "behind", text)] if text else []


def _left(status: PollerStatus) -> str:
    return rows(status.pending or 0, status.pending_capped)


def _reasons(status: PollerStatus, *, verbose: bool) -> _Lines:
    """Why: what fails, what waits, and who stopped it."""
    control, lines = status.control, list[tuple[str, str]]()
    if (late := stalled(status)) is not None:
        lines.append(("late", late))
    if status.null_cursors:
        lines.append(("never", _never_read(status)))
    bound, found = status.bound, status.failing
    if not verbose and bound is not None and (bound.held_by or bound.below_checkpoint or clock_went_back(status)):
        lines.append(("bound", _bound(status)))
    lines += _attempts(status)
    lines += [one for one in (("failing", failures(status)), ("row", culprit(found)), *waiting(found)) if one[1]]
    if control.by or control.reason:
        lines.append(("cancelled" if control.cancelled else "paused" if status.paused else "stopped", _stopped(status)))
    if status.halted and status.paused:
        lines.append(("halted", _halted(status)))
    return lines


def _next(status: PollerStatus, session: Session) -> _Lines:
    """What a person does next, if anything."""
    lines = []
    stopped = status.halted or status.paused
    if stopped:
        first = BEFORE_RESUME["halted" if status.halted else "paused"]
        lines.append(f"{first}: {session.command('resume', status.name)}")
    following = next_command(status)
    if following is not None:
        lines.append(f"{following[0]}: {session.command(*following[1])}")
    if status.bound is not None and status.bound.below_checkpoint and not stopped:
        moves = session.command("reset-to-cursor", status.name)
        lines.append(f"Say where to go on: {moves} --value ..., or reset-to-beginning")
    if status.error is not None and not isinstance(status, BackfillStatus):
        lines.append(f"Find the cause: {session.command('check', status.name)}")
    elif not lines and stalled(status) is not None:
        lines.append(f"Find out why no worker ticks; by hand: {session.command('run', status.name, '--once')}")
    return [("next", line) for line in lines]


def _details(status: PollerStatus) -> _Lines:
    """What nobody needs who asks whether it works."""
    saved = f", saved {moment(status.checkpoint_updated_at)}" if status.checkpoint_updated_at else ""
    lines = [("cursor", f"{cursor_text(status)}{saved}"), ("lease", lease_text(status))]
    if status.bound is not None:
        lines.append(("bound", _bound(status)))
    return [*lines, ("state", status.document)]


def _attempts(status: PollerStatus) -> _Lines:
    """How often the pending batch was started, and the last error. None is counted while the row that fails is searched
    for."""
    error = status.last_error
    text = "" if error is None else f"{cut(error.type)}{': ' + cut(error.message) if error.message else ''}"
    counted = bool(status.failing.failures) or status.failing.searched_up_to is not None
    if status.attempts or (error is not None and not counted):
        last = f", last error {text}" if text else ""
        return [("attempts", f"{status.attempts or 0} on the pending batch{last}")]
    return [("error", text)] if text else []


def _stopped(status: PollerStatus) -> str:
    """Who paused it, else what halted it: of a halt under a pause only the pause is shown here."""
    control = status.control
    at = f" at {moment(control.at)}" if control.at else ""
    return f"by {cut(control.by or 'unknown')}{at}: {cut(control.reason or 'no reason given')}"


def _halted(status: PollerStatus) -> str:
    error = status.last_error
    if error is None:
        return f"its batch was started {times(status.attempts or 0)} and never finished"
    return f"because of {cut(error.type)}" + (f": {cut(error.message)}" if error.message else "")


def _range(status: BackfillStatus) -> str:
    return in_words(status.begins, status.begins_key, status.ends, status.ends_key)


def _begun(status: BackfillStatus) -> str:
    at = f" at {moment(status.begun_at)}" if status.begun_at else ""
    return f", begun by {status.begun_by}{at}" if status.begun_by else ""


def _beneath(status: BackfillStatus) -> list[str]:
    """A backfill in its poller's block: which, how far, who works on it."""
    word, colour = state_word(status)
    left = "" if status.pending is None else f", {_left(status)} left"
    lease, control = status.lease, status.control
    lines = [_range(status), f"at {status.cursor or 'its beginning'}{left}"]
    if at_work(status) and lease.owner_id is not None:
        since = f" since {moment(lease.acquired_at)}" if lease.acquired_at else ""
        lines.append(f"{cut(lease.owner_id)}{since}{_begun(status)}")
    elif status.begun_by:
        lines.append(_begun(status).removeprefix(", "))
    if control.by or control.reason:
        lines.append(f"{'paused' if status.paused else 'stopped'} {_stopped(status)}")
    if status.halted and status.paused:
        lines.append(f"halted: {_halted(status)}")
    lines += [f"{name}: {text}" for name, text in waiting(status.failing)]
    if status.error is not None:
        lines.append(status.error)
    head = printable(f"backfill  {status.name}", indent="  ")
    width = columns(sys.stdout)
    shown = [part for line in lines for part in wrapped(printable(line, indent=" " * _HANG), width, hang=_HANG + 2)]
    return [f"{head}  {coloured(word, colour, sys.stdout)}", *shown]


def _never_read(status: PollerStatus) -> str:
    count = rows(status.null_cursors or 0, status.null_cursors_capped)
    return f"{count} without a value in the cursor column (on_null_cursor)"


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
