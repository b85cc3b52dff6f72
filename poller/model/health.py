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
  late (its transaction was open until then, or it was stamped in the past): then the first look that saw one is taken;
  since the last progress, unless the bound of an earlier one had passed the row already. And no row was readable at a
  look whose bound somebody held back below it.
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
from datetime import datetime
from typing import Literal, TypeAlias

from poller.model.health_memory import Facts, Rows, Seen, ago, covers, was_held_back
from poller.model.schedule import Schedule

PATIENCE = 300.0
"""Seconds, beside `lease_ttl`, that a row may be late while nothing is committed."""
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
    return _shortly_before(seen.waiting_since or facts.now, facts, seen, rule)


def _shortly_before(first: datetime, facts: Facts, seen: Seen, rule: Rule) -> datetime:
    before = [at for at in (seen.clear_at, facts.committed_at) if at is not None and at <= first]
    last = max(before, default=first)
    return last if (first - last).total_seconds() <= min(CLOSE, rule.allowed / 4) else first


def _readable_at(facts: Facts, rows: Rows, seen: Seen, rule: Rule) -> datetime:
    """When the oldest row that may be read became readable, as far as that can be known: see above."""
    since = _since(facts, seen, rule)
    if rows.age is None:
        return min(facts.now, max(since, facts.committed_at or since))
    delay = min(seen.distance or 0.0, rows.bound_age or 0.0) if rows.held else rows.bound_age or 0.0
    at = ago(facts.now, max(0.0, rows.age - delay))
    committed_late = seen.clear_at is not None and at < seen.clear_at
    changed_since = seen.waiting_since is not None and at > seen.waiting_since  # a row waited then, and none was passed
    if committed_late and seen.run_since is not None and covers(seen, ago(facts.now, rows.age)):
        at = _shortly_before(seen.run_since, facts, seen, rule)
    elif committed_late or changed_since:
        at = since
    if seen.held_at is not None and was_held_back(seen, ago(facts.now, rows.age)):
        at = max(at, seen.held_at)
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
