"""What `poller status` shows people, and the words for a status that `poller watch` and `poller peek` share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from poller.admin.counts import rows
from poller.admin.health_words import waited
from poller.backfill.ranges import in_words
from poller.backfill.status import BackfillStatus
from poller.model.escape import cut
from poller.model.transitions import times
from poller.model.when import moment, span
from poller_cli.output.event_words import BEFORE_RESUME
from poller_cli.output.failing_words import culprit, failures, next_command, waiting
from poller_cli.output.many import MANY, total
from poller_cli.terminal.printing import coloured, folded, of_poller, printable

if TYPE_CHECKING:
    from poller.admin.status import PollerStatus
    from poller.backfill.survey import Survey
    from poller.delivery.result import BoundOutput
    from poller_cli.output.models import StatusOutput
    from poller_cli.session import Session

STALLED = 60.0
"""For so many seconds rows may wait for a tick before it is said."""

_HALTED = {False: "halted", True: "halted, and paused"}


def status_output(looked: Survey) -> StatusOutput:
    """As `--json` prints it."""
    from poller_cli.output.models import StatusOutput

    return StatusOutput(pollers=looked.pollers, backfills=looked.backfills, backfills_unread=looked.unread)


def complaints(looked: Survey) -> list[str]:
    """What could not be read, one line each."""
    named = [one for one in looked.backfills or [] if one.name in looked.named]
    lines = [of_poller(one.name, one.error) for one in looked.pollers if one.error]
    if looked.not_listed is not None and not lines:  # where the store is away, each status says so
        lines.append(f"Whether there are backfills is not known: {looked.not_listed}")
    lines += looked.unreadable
    lines += [of_poller(one.name, one.error) for one in named if one.error]
    if looked.unread:
        lines.append(
            f"{looked.unread:,} documents more may be of backfills and were not looked at; poller status NAME shows "
            "any of them."
        )
    return lines


def screens(looked: Survey, session: Session) -> list[str]:
    """A block for each poller, with its backfills in it, and one for each backfill that was named; with many, a line
    that counts them."""
    backfills = looked.backfills or []
    beneath: dict[str, list[BackfillStatus]] = {}
    for one in backfills:
        if one.name not in looked.named:
            beneath.setdefault(one.poller, []).append(one)
    shown = ["\n".join([_screen(one, session), *map(_beneath, beneath.get(one.name, []))]) for one in looked.pollers]
    shown += [_screen(one, session) for one in backfills if one.name in looked.named]
    if len(looked.pollers) > MANY:
        shown.append(total({one.name: state_word(one)[0] for one in looked.pollers}))
    return shown


def _screen(status: PollerStatus, session: Session) -> str:
    word, colour = state_word(status)
    lines = [f"{status.name}  {coloured(word, colour, sys.stdout)}"]
    backfill = status if isinstance(status, BackfillStatus) else None
    if backfill is not None:
        lines.append(f"  backfill  of {backfill.poller}, {_range(backfill)}{_begun(backfill)}")
    saved = f", saved {moment(status.checkpoint_updated_at)}" if status.checkpoint_updated_at else ""
    lines.append(f"  cursor    {cursor_text(status)}{saved}")
    if status.pending is not None:
        count = _rows(status) if backfill is not None else f"{_rows(status)} pending"
        if status.above_bound:
            count = waits_above(status.pending, status.pending_capped, status.bound)
        old = status.lag_seconds is not None and (status.lag_seconds > 0 or not status.above_bound)
        age = f", the oldest {span(status.lag_seconds)} old" if status.pending and old else ""
        lines.append(f"  {'behind' if backfill is None else 'left  '}    {count}{age}")
    if (late := stalled(status)) is not None:
        lines.append(f"  late      {late}")
    if status.null_cursors:
        lines.append(f"  never     {_never_read(status)}")
    lines.append(f"  lease     {lease_text(status)}")
    if status.bound is not None:
        lines.append(f"  bound     {_bound(status)}")
    lines += _attempts(status)
    lines += _failing(status)
    if status.control.by or status.control.reason:
        how = "cancelled" if status.control.cancelled else "paused" if status.paused else "stopped"
        lines.append(f"  {how:<9} {_stopped(status)}")
    if status.halted and status.paused:
        lines.append(f"  halted    {_halted(status)}")
    if status.halted or status.paused:
        first = BEFORE_RESUME["halted" if status.halted else "paused"]
        lines.append(f"  next      {first}: {session.command('resume', status.name)}")
    following = next_command(status)
    if following is not None:
        lines.append(f"  next      {following[0]}: {session.command(*following[1])}")
    if status.bound is not None and status.bound.below_checkpoint and not (status.halted or status.paused):
        moves = session.command("reset-to-cursor", status.name)
        lines.append(f"  next      Say where to go on: {moves} --value ..., or reset-to-beginning")
    lines.append(f"  state     {status.document}")
    # What a row or an error holds must not steer the terminal.
    shown = (folded(printable(line, indent="  "), hang=12, stream=sys.stdout) for line in lines[1:])
    return "\n".join([lines[0], *shown])


def _attempts(status: PollerStatus) -> list[str]:
    """How often the pending batch was started, and the last error. None is counted while the row that fails is searched
    for."""
    error = status.last_error
    text = "" if error is None else f"{cut(error.type)}{': ' + cut(error.message) if error.message else ''}"
    counted = bool(status.failing.failures) or status.failing.searched_up_to is not None
    if status.attempts or (error is not None and not counted):
        last = f", last error {text}" if text else ""
        return [f"  attempts  {status.attempts or 0} on the pending batch{last}"]
    return [f"  error     {text}"] if text else []


def _failing(status: PollerStatus) -> list[str]:
    """Lines about failing rows, and about those that wait."""
    lines = [("failing", failures(status)), ("row", culprit(status.failing)), *waiting(status.failing)]
    return [f"  {name:<10}{text}" for name, text in lines if text]


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


def _rows(status: PollerStatus) -> str:
    return rows(status.pending or 0, status.pending_capped)


def waits_above(pending: int, capped: bool, bound: BoundOutput | None) -> str:
    """That rows are there, and that none of them may be read yet."""
    value = "" if bound is None or bound.value is None else f" {bound.value}"
    return f"{rows(pending, capped)} wait{'s' * (pending == 1)} above the bound{value} (poller check says why)"


def stalled(status: PollerStatus) -> str | None:
    """That nobody delivers what waits, where that has been so for longer than ticks take."""
    seconds = status.stalled_seconds
    if seconds is None or seconds < STALLED or not status.pending:
        return None
    return f"{waited(seconds)} (poller health)"


def _begun(status: BackfillStatus) -> str:
    at = f" at {moment(status.begun_at)}" if status.begun_at else ""
    return f", begun by {status.begun_by}{at}" if status.begun_by else ""


def _beneath(status: BackfillStatus) -> str:
    """A backfill in its poller's block: which, how far, who works on it."""
    word, colour = state_word(status)
    left = "" if status.pending is None else f", {_rows(status)} left"
    lease, control = status.lease, status.control
    lines = [_range(status), f"at {status.cursor or 'its beginning'}{left}"]
    if _at_work(status) and lease.owner_id is not None:
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
    shown = (folded(printable(line, indent=" " * 12), hang=14, stream=sys.stdout) for line in lines)
    return "\n".join([f"{head}  {coloured(word, colour, sys.stdout)}", *shown])


def _at_work(status: PollerStatus) -> bool:
    return bool(status.lease.live) and status.lease.kept_by is None


def _word_of_backfill(status: BackfillStatus) -> tuple[str, str]:
    """By its document, whatever the database or the configuration says."""
    words = (
        (status.finished, "finished", "green"),
        (bool(status.halted), _HALTED[bool(status.paused)], "red"),
        (bool(status.paused), _word_of_pause(status), "yellow"),
        (_at_work(status), "working", "green"),
        (bool(status.lease.live), "waiting", "yellow"),
        (_is_failing(status), "failing", "red"),
    )
    return next(((word, colour) for so, word, colour in words if so), ("not running", "yellow"))


def _word_of_pause(status: PollerStatus) -> str:
    """A pause lets the batch in hand be finished and committed; a cancel does not."""
    if not _at_work(status):
        return "paused"
    return "cancelling" if status.control.cancelled else "pausing"


def _is_failing(status: PollerStatus) -> bool:
    found = status.failing
    searches = found.searched_up_to is not None or found.row is not None
    return status.last_error is not None and bool(status.attempts or found.failures or searches)


def state_word(status: PollerStatus) -> tuple[str, str]:
    """One word for the whole, and its colour."""
    if isinstance(status, BackfillStatus):
        return _word_of_backfill(status)
    if status.error is not None:
        return "not known in full" if status.exists else "not known", "red"
    if status.halted:
        return _HALTED[bool(status.paused)], "red"
    if status.paused:
        return _word_of_pause(status), "yellow"
    if not status.exists:
        return "never ran", "dim"
    if status.bound is not None and status.bound.below_checkpoint:
        return "held", "red"
    if status.lease.live:
        return ("working", "green") if _at_work(status) else ("waiting", "yellow")
    if status.failing.blocked and (status.pending or status.failing.failures):
        return "blocked", "red"
    if _is_failing(status):
        return "failing", "red"
    if status.above_bound:
        return "waiting", "yellow"
    return ("behind", "yellow") if status.pending else ("idle", "green")


def cursor_text(status: PollerStatus) -> str:
    """Where it stands; of a poller that never ran, where it will start."""
    if status.lease.fencing_token is None or (not status.exists and status.error is not None):
        return "not known"
    place = cut(str(status.cursor or "the beginning"))
    return place if status.exists else f"will start at {place}"


def _never_read(status: PollerStatus) -> str:
    count = rows(status.null_cursors or 0, status.null_cursors_capped)
    return f"{count} without a value in the cursor column (on_null_cursor)"


def lease_text(status: PollerStatus) -> str:
    """Who holds the lease, since when, and how long still."""
    lease = status.lease
    if lease.fencing_token is None:
        return "not known"
    if lease.owner_id is None:
        return f"free, fencing token {lease.fencing_token}"
    if not lease.live:
        return f"expired, last held by {cut(lease.owner_id)}, fencing token {lease.fencing_token}"
    if lease.kept_by is not None:
        left = "" if lease.expires_in_seconds is None else f" for {span(lease.expires_in_seconds)}"
        return f"kept for {lease.kept_by}, no worker starts{left}, fencing token {lease.fencing_token}"
    parts = [cut(lease.owner_id), f"fencing token {lease.fencing_token}"]
    if lease.acquired_at is not None:
        parts.append(f"since {moment(lease.acquired_at)}")
    if lease.heartbeat_age_seconds is not None:
        parts.append(f"last heartbeat {span(lease.heartbeat_age_seconds)} ago")
    if lease.expires_in_seconds is not None:
        parts.append(f"expires in {span(lease.expires_in_seconds)}")
    return ", ".join(parts)


def _bound(status: PollerStatus) -> str:
    bound = status.bound
    if bound is None:
        return ""
    parts = [bound.kind]
    if bound.age_seconds is not None:
        parts.append(f"{span(bound.age_seconds)} behind the database's clock")
    if bound.held_by:
        parts.append(f"held by {bound.held_by}")
    if bound.reason:
        parts.append(bound.reason)
    return ", ".join(parts)
