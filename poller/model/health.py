"""Whether a poller is healthy: the rule, from what one look found and what earlier looks remember (scale.md).

An idle tick writes nothing. So a poller is not judged by signs of life but by what it leaves undone, which is in the
database for everybody to see: rows that may be read, that its schedule has passed by, and that nobody delivered.

*Late* is how long ago the first moment of the schedule was after the oldest such row became readable. A poller is
unhealthy when it is late by more than 5 minutes and `lease_ttl` (until a killed worker's lease has ended, nobody else
can start) and made no progress for as long. So a first load of years of rows is healthy while it commits, a nightly
poller all day, and one of business hours at night. An explicit `max_lag` is absolute: it counts lateness alone.

**When a row became readable** is written nowhere. A row shows at most when it was stamped.

- A time as cursor: the row became readable no earlier than it was stamped, and than the bound's usual distance after
  that. That moment is taken. But a row that was stamped before an earlier look, at which none was readable, committed
  late (its transaction was open until then, or it was stamped in the past): then the first look that saw one is taken.
  Rows older than the document, of a first load, or than its last reset, were readable when it was made, or reset.
- A number (integer, rowversion, xid) says nothing. With earlier looks: the first that saw rows, since one that saw none
  or since the last progress. At the first look ever: the last progress, which is the last commit, reset, or the making
  of the document. So the very first look at a poller that nobody asked about before may call it late, until its next
  tick, although its row came a moment ago.
- Without a document nobody ever ticked: the first tick makes one, also where there is no row. Since when there is a
  deployment is not known: the first look that saw rows is taken, and with `start_from = "now"`, for which no row
  counts before that tick, the first look. So a deployment whose timers never fire is found by whoever asks twice.

**Progress**: a commit, a change by an operator (a resume, a reset), and the end of the pause after a failed call; the
schedule is asked for the first moment after the later of progress and the row. One worker more is given time: one that
holds a live lease, in its first call since the last commit, for as long as `handler_timeout` allows such a call. A
worker that crashes each time, or fails, is not.

**Rows set aside** are past the checkpoint, so no page shows them. One that may be tried again waits since that moment,
as a row does since it became readable.

**What is unhealthy besides**: a halt; a full quarantine; a document, a database, or a configuration that cannot be
read; a checkpoint of another source, or one that the server has not reached. **What is only reported**: a pause, the
pause after a failed call, rows above the bound with whoever holds it (unhealthy beyond `max_bound_age`). A person's
pause excuses a database that is away, not a halt, nor a checkpoint of another source.

**Clocks.** All moments are the store's clock. What the database's clock knows, the age of a row and of the bound, comes
as a number of seconds. The asker's clock counts nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from poller.model.schedule import Schedule
from poller.model.stamps import Stamp

PATIENCE = 300.0
"""Seconds, beside `lease_ttl`, that a row may be late while nothing is committed."""
SLACK = 60.0
"""Seconds: what is stamped farther ahead of the store's clock is of a clock that was wrong, and counts for nothing."""
CLOSE = 60.0
"""Seconds: two looks so close to each other, and to a quarter of how late a row may be, say when a row became readable
that only the second one saw."""

Kind: TypeAlias = Literal[
    "trouble",
    "halted",
    "full",
    "below_checkpoint",
    "never_ran",
    "late",
    "max_lag",
    "not_retried",
    "bound",
    "paused",
    "backing_off",
    "working",
    "above_bound",
    "scheduled",
    "due",
    "idle",
]
"""Why a poller is what it is. Unhealthy are those up to `bound`; a healthy one waits for what the others name."""

UNHEALTHY: frozenset[Kind] = frozenset(
    {"trouble", "halted", "full", "below_checkpoint", "never_ran", "late", "max_lag", "not_retried", "bound"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The options by which a poller is judged; times in seconds.

    Attributes:
        starts_now: `start_from = "now"`: before the first tick no row counts.
    """

    schedule: Schedule
    ttl: float = 60.0
    handler_limit: float = 270.0
    max_lag: float | None = None
    max_bound_age: float | None = None
    starts_now: bool = False

    @property
    def patience(self) -> float:
        """How late a row may be while nothing is committed."""
        return PATIENCE + self.ttl

    @property
    def allowed(self) -> float:
        """How late a row may be, by the rule that applies."""
        return self.patience if self.max_lag is None else self.max_lag


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a look found in the database.

    Attributes:
        readable: whether a row below the bound waits. above: whether rows wait, and all of them above the bound.
        age: of the oldest row that waits, by the database's clock; None where the cursor is not a time.
        bound_age: how far the bound lies behind the database's clock. held: whether somebody holds it back.
        below_checkpoint: the server has not come as far as the checkpoint.
    """

    readable: bool
    above: bool = False
    age: float | None = None
    bound_age: float | None = None
    held: bool = False
    below_checkpoint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one look found.

    Attributes:
        now: the store's clock. exists: whether there is a document.
        blocked: the quarantine is full. trouble: the document could not be read, or is of another source.
        committed_at: when the checkpoint moved last, was made or reset. generation: of the checkpoint.
        began: nothing was committed since the document was made or reset, so `committed_at` is when that was.
        changed_at: an operator's last change. retry_at: when the next call may be made after one that failed; it may
            have passed.
        aside_due_at: since when a row that is set aside may be tried again; None where none may. aside_due: how many
            may.
        at_work_since: since when a worker has held the live lease, in the first try of a batch; None where nobody does.
        rows: None where the database was not asked, or did not answer.
    """

    now: datetime
    exists: bool = True
    paused: bool = False
    halted: bool = False
    blocked: bool = False
    trouble: bool = False
    committed_at: datetime | None = None
    generation: int = 0
    began: bool = False
    changed_at: datetime | None = None
    retry_at: datetime | None = None
    aside_due_at: datetime | None = None
    aside_due: int = 0
    at_work_since: datetime | None = None
    rows: Rows | None = None

    @property
    def progress(self) -> datetime | None:
        """The last thing that counts as progress; the end of a pause after a failure may lie ahead."""
        known = [at for at in (self.committed_at, self.changed_at, self.retry_at) if at is not None]
        return max(known, default=None)


class Seen(BaseModel):
    """What looks remember of a poller for later ones; moments by the store's clock.

    Attributes:
        clear_at: the last look at which no row was readable. waiting_since: since when rows were, in an unbroken run of
            looks. above_since: since when rows waited and none was readable.
        unborn_since: the first look at which there was no document. began_at: when it was made or reset, in this
            `generation`.
    """

    model_config = ConfigDict(frozen=True)

    clear_at: Stamp | None = None
    waiting_since: Stamp | None = None
    above_since: Stamp | None = None
    unborn_since: Stamp | None = None
    began_at: Stamp | None = None
    generation: int = 0

    def until(self, now: datetime) -> Seen:
        """Without what would lie ahead: it was written by a clock that was wrong."""
        fields = ("clear_at", "waiting_since", "above_since", "unborn_since", "began_at")
        ahead = [name for name in fields if (at := getattr(self, name)) is not None and is_ahead(at, now)]
        return self.model_copy(update=dict.fromkeys(ahead)) if ahead else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the rule says.

    Attributes:
        late: seconds since the first moment of the schedule after the oldest row became readable; None where no row
            waits, or where that moment is still to come.
        stalled: the same, and nothing made progress since: what is compared with the patience.
        due: when the next moment is, where the schedule has not come to it yet.
        held: how many seconds rows have waited above the bound at least; None where none does.
    """

    kind: Kind
    late: float | None = None
    stalled: float | None = None
    due: datetime | None = None
    held: float | None = None

    @property
    def healthy(self) -> bool:
        """Whether nobody needs to do anything."""
        return self.kind not in UNHEALTHY


def is_ahead(at: datetime, now: datetime) -> bool:
    """Whether a moment that should have been lies so far ahead that its clock was wrong."""
    return (at - now).total_seconds() > SLACK


def remembered(before: Seen | None, facts: Facts) -> Seen:
    """What to remember after a look. A database that did not answer changes nothing of it."""
    seen, now = (before or Seen()).until(facts.now), facts.now
    if facts.trouble:
        return seen
    learned: dict[str, datetime | int | None] = {"unborn_since": None if facts.exists else seen.unborn_since or now}
    if facts.exists and (facts.began or seen.generation != facts.generation):
        learned |= {"began_at": facts.committed_at if facts.began else None, "generation": facts.generation}
    if facts.rows is not None and facts.rows.readable:
        learned |= {"above_since": None, "waiting_since": _waiting_since(seen, facts)}
    elif facts.rows is not None:
        above_since = (seen.above_since or now) if facts.rows.above else None
        learned |= {"clear_at": now, "waiting_since": None, "above_since": above_since}
    return seen.model_copy(update=learned)


def _waiting_since(seen: Seen, facts: Facts) -> datetime:
    """The first look that saw a row that may be read, since the last that saw none and since the last commit."""
    since, committed_at = seen.waiting_since, facts.committed_at
    if since is not None:
        return facts.now if committed_at is not None and committed_at > since else since
    is_first = seen.clear_at is None and facts.exists
    tells_nothing = facts.rows is None or facts.rows.age is None
    return committed_at or facts.now if is_first and tells_nothing else facts.now


def judge(facts: Facts, rule: Rule, seen: Seen) -> Verdict:
    """Judge one poller. `seen`: what is remembered after this look (`remembered`)."""
    if facts.trouble:
        return Verdict(kind="trouble")
    measured = _measured(facts, rule, seen)
    if facts.halted:
        return replace(measured, kind="halted")
    if facts.paused:
        return replace(measured, kind="paused")
    if facts.blocked:
        return replace(measured, kind="full")
    if facts.rows is None:
        return replace(measured, kind="trouble")
    if facts.rows.below_checkpoint:
        return replace(measured, kind="below_checkpoint")
    return measured


def _measured(facts: Facts, rule: Rule, seen: Seen) -> Verdict:
    rows = facts.rows
    if rows is None:
        return Verdict(kind="idle")
    if not facts.exists:
        return _never_ran(facts, rule, seen, rows)
    of_rows = _of_rows(facts, rule, seen, rows)
    again = None if facts.aside_due_at is None else _waiting(facts, rule, facts.aside_due_at)
    if again is None or not of_rows.healthy:
        return of_rows
    if not again.healthy:
        return replace(again, kind="not_retried", held=of_rows.held)
    return of_rows if rows.readable or rows.above else again


def _of_rows(facts: Facts, rule: Rule, seen: Seen, rows: Rows) -> Verdict:
    """Of those that the checkpoint has not passed."""
    if not rows.readable:
        return _above(facts, rule, seen, rows)
    return _waiting(facts, rule, _readable_at(facts, rows, seen, rule))


def _waiting(facts: Facts, rule: Rule, since: datetime) -> Verdict:
    """Of what could have been handed over since then."""
    late, _ = _overdue(facts.now, since, rule)
    stalled, due = _overdue(facts.now, max(since, facts.progress or since), rule)
    found = Verdict(kind="due", late=late, stalled=stalled, due=due)
    if rule.max_lag is not None:
        if late is not None and late > rule.max_lag:
            return replace(found, kind="max_lag")
    elif stalled is not None and stalled > rule.patience and not _at_work(facts, rule):
        return replace(found, kind="late")
    return replace(found, kind=_waits_for(facts, rule, found))


def _waits_for(facts: Facts, rule: Rule, found: Verdict) -> Kind:
    if facts.retry_at is not None and facts.retry_at > facts.now:
        return "backing_off"
    if _at_work(facts, rule):
        return "working"
    return "due" if found.due is None else "scheduled"


def _above(facts: Facts, rule: Rule, seen: Seen, rows: Rows) -> Verdict:
    """No row may be read: nothing waits, or all that waits is above the bound."""
    if not rows.above:
        return Verdict(kind="idle")
    held = rows.age
    if held is None and seen.above_since is not None:
        held = (facts.now - seen.above_since).total_seconds()
    over = rule.max_bound_age is not None and held is not None and held > rule.max_bound_age
    return Verdict(kind="bound" if over else "above_bound", held=held)


def _never_ran(facts: Facts, rule: Rule, seen: Seen, rows: Rows) -> Verdict:
    """Nobody ever ticked: the first tick makes a document."""
    if rule.starts_now:
        since = seen.unborn_since or facts.now
    elif rows.readable:
        since = _since(facts, seen, rule)
    else:
        return _above(facts, rule, seen, rows)
    late, due = _overdue(facts.now, since, rule)
    found = Verdict(kind="due" if due is None else "scheduled", late=late, stalled=late, due=due)
    return replace(found, kind="never_ran") if late is not None and late > rule.allowed else found


def _since(facts: Facts, seen: Seen, rule: Rule) -> datetime:
    """Since when rows wait, where they do not say: the first look that saw them, or the look before that, which saw
    none, or the commit before that, where that was just before: they came between the two."""
    first = seen.waiting_since or facts.now
    before = [at for at in (seen.clear_at, facts.committed_at) if at is not None and at <= first]
    last = max(before, default=first)
    return last if (first - last).total_seconds() <= min(CLOSE, rule.allowed / 4) else first


def _readable_at(facts: Facts, rows: Rows, seen: Seen, rule: Rule) -> datetime:
    """When the oldest row that may be read became readable, as far as that can be known: see above."""
    since = _since(facts, seen, rule)
    if rows.age is None:
        return min(facts.now, max(since, facts.committed_at or since))
    delay = 0.0 if rows.held else rows.bound_age or 0.0
    at = _before(facts.now, max(0.0, rows.age - delay))
    committed_late = seen.clear_at is not None and at < seen.clear_at
    changed_since = seen.waiting_since is not None and at > seen.waiting_since  # a row waited then, and none was passed
    if committed_late or changed_since:
        at = since
    if seen.began_at is not None:
        at = max(at, seen.began_at)
    return min(at, facts.now)


def _at_work(facts: Facts, rule: Rule) -> bool:
    """Whether a worker is in a call that may still take its time, or, before it, in those of rows set aside."""
    if facts.at_work_since is None:
        return False
    since = max(facts.at_work_since, facts.committed_at or facts.at_work_since)
    return (facts.now - since).total_seconds() <= rule.handler_limit * (1 + facts.aside_due) + rule.ttl


def _overdue(now: datetime, since: datetime, rule: Rule) -> tuple[float | None, datetime | None]:
    """How many seconds ago the first moment of the schedule after `since` was, or when it will be."""
    due = rule.schedule.next_after(since)
    return (None, due) if due > now else ((now - due).total_seconds(), None)


def _before(now: datetime, seconds: float) -> datetime:
    """So many seconds before now; the first moment there is, where that lies beyond."""
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=now.tzinfo)
