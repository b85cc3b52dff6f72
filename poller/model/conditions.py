"""One picture of a poller: what one look found becomes conditions, and these a view. Pure: no I/O, no clock.

Everything that people and programs learn about a poller is read off its `PollerView`: status, watch, health, HTTP, the
page, metrics, alerts and the finding `delivery` of `poller check`. `TABLE` lists the conditions in their order; its
words, and those of the sentences, are the ones of the documentation.

The severity of a view is the worst of its conditions, and its word the first of these. Nothing else decides. While a
person's pause is the worst there is, it is the word.

A `sentence` and a `next` step are public: they hold no row, key, cursor, place or text of an error. `detail` and `do`
are an operator's: the console and Python show them, HTTP and metrics never do.

A row waits since the first moment of the schedule after it could be read: no earlier than the document was created, or
the checkpoint moved. It is *stalled* since the first moment after the last progress too: a commit, a resume or a reset.
The end of the pause after a failed call is not a progress. Rows that an interrupted tick left (`unfinished`) wait for
no schedule: `poller run` and the dispatcher look for them within 5 minutes of the lease's end. All moments are the
store's clock; ages are seconds of the database's own clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from shlex import quote

from poller.model.redact import first_line
from poller.model.view import SEVERITIES, TABLE, Condition, PollerFacts, PollerLimits, PollerView, Severity
from poller.model.when import ago, moment, span

_UNUSABLE = "Its configuration cannot be used."
_LONGEST = 300
"""Characters of what others chose."""
SHORTLY = 60.0
"""Seconds, beside `lease_ttl`, that rows may wait before it is said: a wait that ticks alone do not explain."""
_PAUSES = frozenset({"cancelling", "pausing", "paused"})
_EXPLAINED = frozenset({"failing", "crashing", "hung", "blocked", "other_source", "capture_gap", "source_behind"})
"""Conditions that say why rows wait, so that it is not said again."""
_BESIDE = frozenset({"set_aside", "reserved", "moved"})
"""Conditions beside which it is said what the poller does."""


_CALLS = frozenset({"failing", "halted", "blocked"})
"""Conditions of a call that failed with an error."""
LONGEST_TYPE = 100
BETWEEN = timedelta(minutes=5)
"""The time after a lease's end in which `poller run` and the dispatcher find the rows that were left."""


def view(facts: PollerFacts, limits: PollerLimits, seen: Mapping[str, datetime] | None = None) -> PollerView:
    """What a poller is. `seen`: since when earlier looks saw what no document says: `waiting` and `above` of rows whose
    cursor is a number, `unborn` of a poller without a document; and when the last of them saw no row that may be read
    (`clear`)."""
    judge = _Judge(facts, limits, seen or {})
    found = sorted(judge.all(), key=_rank)
    severity = found[0].severity
    if severity == "warning":
        found.sort(key=lambda one: one.name not in _PAUSES)
    return PollerView(
        facts.name, found[0].name, severity, tuple(found), judge.wait.late, _error_type(facts.error_type, found)
    )


def conditions(
    facts: PollerFacts, limits: PollerLimits, seen: Mapping[str, datetime] | None = None
) -> tuple[Condition, ...]:
    """Everything that is so, in no order; at least one condition."""
    return tuple(_Judge(facts, limits, seen or {}).all())


def _error_type(name: str | None, found: list[Condition]) -> str | None:
    """What failed, if a call did: a class's name, which says nothing of a row. Documents may hold any text."""
    fails = any(one.name in _CALLS for one in found)
    is_name = name is not None and len(name) <= LONGEST_TYPE and all(map(str.isidentifier, name.split(".")))
    return name if fails and is_name else None


def worse(severity: Severity) -> int:
    """How bad a severity is: 0, 1 or 2."""
    return SEVERITIES.index(severity)


def _rank(one: Condition) -> tuple[int, int]:
    return -worse(one.severity), TABLE.index(one.name)


class _Judge:
    """What all rules share: what waits and since when, and what is true of the call."""

    def __init__(self, facts: PollerFacts, limits: PollerLimits, seen: Mapping[str, datetime]) -> None:
        # What others chose becomes part of public sentences.
        self.f = replace(
            facts,
            worker=_clean(facts.worker),
            kept_by=_clean(facts.kept_by),
            held_by=_clean(facts.held_by),
            by=_clean(facts.by),
            why=_clean(facts.why),
            moved_by=_clean(facts.moved_by),
        )
        self.o, self.seen = limits, seen
        self.names: set[str] = set()

    def all(self) -> Iterator[Condition]:
        """The rules, one after the other: later ones may ask what earlier ones said."""
        for rule in (self._unused, self._unread, self._stopped, self._source, self._calls, self._waits, self._people,
                     self._doing):  # fmt: skip
            for one in rule():
                self.names.add(one.name)
                yield one
            if self.names & {"store_away", "unreadable"}:
                return  # nothing else was read, so nothing else is judged

    # ---------------------------------------------------------------------------------------------- what they ask

    @cached_property
    def wait(self) -> Wait:
        """The wait of the rows of the table that may be read."""
        f = self.f
        if not f.readable:
            return Wait()
        since = self._readable_since()
        since = min(f.now, _latest(since, f.created_at, f.moved_at) or since)
        left = (f.left_until or f.now) if f.unfinished and not f.lease_live else None
        return waited(f.now, since, f.progress, self.o.following, left_until=left)

    def _readable_since(self) -> datetime:
        """When the oldest row that may be read became readable, as far as that can be known. A row is stamped no later
        than that; a row that was not there at an earlier look became readable since, and one that was still waits."""
        f, waiting, clear = self.f, self.seen.get("waiting"), self.seen.get("clear")
        if f.document == "none":  # since when there is a deployment is not known
            return waiting or f.now
        if f.age is None:
            return (None if f.first_look else waiting) or f.progress or f.now
        stamped = _before(f.now, max(0.0, f.age - f.distance))
        since = stamped if waiting is None else min(stamped, waiting)
        return since if clear is None else max(since, clear)

    @cached_property
    def fails(self) -> bool:
        """True if a call failed and is to be tried again, or the row that fails is sought."""
        return bool(self.f.failures or (self.f.error_type and self.f.retry_at) or self.f.searching)

    @property
    def _row_failed(self) -> bool:
        """True if it is more than a handler that asked to wait."""
        return bool(self.f.failures or self.f.row or self.f.searching)

    @cached_property
    def full(self) -> bool:
        """True if quarantine takes no further row."""
        return self.o.on_poison == "quarantine" and self.f.aside + self.f.quarantined >= self.o.max_quarantined

    @cached_property
    def call(self) -> float | None:
        """The time for which the worker has been in its call, or was between two."""
        f = self.f
        if f.worker is None or f.lease_since is None:
            return None
        return (f.now - max(f.lease_since, f.committed_at or f.lease_since)).total_seconds()

    @cached_property
    def in_time(self) -> bool:
        """True if a worker is in its first call, which may still take its time, or before it in those of rows set
        aside."""
        return self.call is not None and self.call <= self._call_limit and self.f.attempts <= 1

    @property
    def _call_limit(self) -> float:
        return self.o.handler_timeout * (1 + self.f.aside_due) + self.o.ttl

    @property
    def stopped(self) -> bool:
        """True if a person or a halt keeps workers away."""
        return self.f.paused or self.f.halted

    def too_long(self) -> bool:
        """True if rows wait for longer than they may."""
        if self.o.max_lag is not None:
            return (self.wait.late or 0.0) > self.o.max_lag
        return (self.wait.stalled or 0.0) > self.o.patience

    def grows(self) -> Severity:
        """A warning at first, unhealthy once rows have waited for too long."""
        return "unhealthy" if self.too_long() else "warning"

    @property
    def rows(self) -> str:
        """The number of rows that wait."""
        return _rows(self.f.pending, capped=self.f.capped)

    @property
    def error(self) -> str | None:
        """What failed and where, for an operator."""
        f = self.f
        said = f"{f.error_type}: {f.error_text}" if f.error_text else f.error_type
        return f"{said} at {f.row}" if said and f.row else said

    @property
    def head(self) -> str:
        """`3 rows wait`."""
        return f"{self.rows} {_verb(self.f.pending, 'wait', capped=self.f.capped)}"

    # ------------------------------------------------------------------------------------------------- the rules

    def _unused(self) -> Iterator[Condition]:
        f = self.f
        if f.config is not None:
            yield Condition("misconfigured", "unhealthy", _UNUSABLE, _check(f), detail=f.config, do=f.step)
        if f.store is not None:
            why = "refuses access" if f.store == "denied" else "cannot be reached"
            yield Condition(
                "store_away", "unhealthy", f"The state store {why}.", _check(f), detail=f.trouble, do=f.step
            )

    def _unread(self) -> Iterator[Condition]:
        f = self.f
        texts = {
            "unreadable": "Its state document cannot be read.",
            "newer": "Its state document is of a newer version of poller.",
            "gone": "Its state document is gone, but it ran before.",
        }
        if f.document in texts:
            back = f"see its backups: poller undo {f.name} --list; then: poller reset {f.name} --to BACKUP"
            step = "upgrade poller here" if f.document == "newer" else back
            yield Condition("unreadable", "unhealthy", texts[f.document], step, detail=f.trouble, do=f.step)

    def _stopped(self) -> Iterator[Condition]:
        f = self.f
        if f.halted:
            when = f" {ago(f.at, f.now)}" if f.at is not None and not f.paused else ""
            why = (
                "a row failed too often"
                if f.error_type
                else f"its batch was started {f.attempts} times and never ended"
            )
            yield Condition(
                "halted",
                "unhealthy",
                f"Halted{when}: {why}.",
                f"fix it, then: poller resume {f.name}",
                None if f.paused else f.at,
                detail=f.why if f.why and not f.paused else self.error,
            )

    def _source(self) -> Iterator[Condition]:
        f = self.f
        excused: Severity = "warning" if f.paused else "unhealthy"
        if f.source == "other":
            step = f"put the source back; if it is meant: poller rebind {f.name}"
            text = "Its checkpoint belongs to another source."
            yield Condition("other_source", "unhealthy", text, step, detail=f.differs, do=f.step)
        if f.source == "away":
            yield Condition(
                "source_away", excused, "Its database cannot be reached.", _check(f), detail=f.trouble, do=f.step
            )
        if f.source == "error":
            yield Condition(
                "source_unreadable", excused, "Its table cannot be read.", _check(f), detail=f.trouble, do=f.step
            )
        if f.source == "gap":
            yield Condition(
                "capture_gap",
                "unhealthy",
                "Changes of its table were missed, or may be; it stops before them.",
                _check(f),
                detail=f.trouble,
                do=f.step,
            )
        if f.below_checkpoint:
            yield Condition(
                "source_behind",
                "unhealthy",
                "The database has not come as far as the checkpoint; no row is read.",
                f"say where to go on: poller reset {f.name} --to VALUE --pk COLUMN=VALUE, or --to beginning",
            )
        if f.clock_back is not None:
            long = f.clock_back > self.o.patience
            yield Condition(
                "clock_behind",
                "unhealthy" if long else "warning",
                f"The database's clock is {span(f.clock_back)} behind what it was; rows wait until it has passed that.",
                f"correct the stamps; then: poller reset {f.name} --to VALUE --pk COLUMN=VALUE" if long else None,
            )

    def _calls(self) -> Iterator[Condition]:
        """The conditions of a batch that fails, or whose worker dies or hangs."""
        f, o = self.f, self.o
        failed = self.fails and self._row_failed
        if self.full:
            there = f"full ({f.aside + f.quarantined} of {o.max_quarantined})"
            step = f"poller quarantine list {f.name}"
            if failed:
                text = f"Blocked: a row failed, and quarantine is {there}."
                yield Condition("blocked", "unhealthy", text, step, self.wait.since, detail=self.error)
            else:
                text = f"Quarantine is {there}: the next row that fails blocks."
                yield Condition("quarantine_full", "unhealthy", text, step)
        if self.fails and not f.halted and not (self.full and failed):
            yield self._failing()
        elif f.attempts >= 2 and not f.halted and f.worker is None and f.readable and not self.fails:
            text = f"Its worker died {f.attempts} times in this batch."
            step = f"read the worker's log; poller history {f.name}"
            yield Condition("crashing", self.grows(), text, step, self.wait.since)
        if self.call is not None and self.call > self._call_limit:
            text = (
                f"{f.worker} has been in one call for {span(self.call)} (handler_timeout is {span(o.handler_timeout)})."
            )
            yield Condition("hung", self.grows(), text, f"poller cancel {f.name}", f.lease_since)
        if f.worker and f.heartbeat_age is not None and f.heartbeat_age > 2 * o.heartbeat + 1:
            text = f"{f.worker} has not renewed its lease for {span(f.heartbeat_age)}; another may start in"
            yield Condition("silent", "warning", f"{text} {span(f.expires_in)}.")

    def _failing(self) -> Condition:
        f, stalled = self.f, self.wait.stalled
        long = f" for {span(stalled)}" if stalled is not None and stalled >= SHORTLY else ""
        calls = f", {_counted(f.failures, 'call')} failed" if f.failures else ""
        left = 0.0 if f.retry_at is None else (f.retry_at - f.now).total_seconds()
        again = f"; next try {f'in {span(max(1.0, left))}' if left > 0 else 'with the next tick'}"
        again = "" if self.stopped else again
        text = f"Failing{long}{calls}{again}." if self._row_failed else f"Its handler asked to wait{again}."
        step = "if every row fails, wait; else fix the row or the handler"
        if not self._row_failed:
            step = "wait; if it takes too long, find out what the handler waits for"
        if f.paused:
            step = ""
        key = " ".join(f"--pk {quote(part)}" for part in f.row_key)
        passed = f"; to pass the row: poller quarantine add {f.name} {key}" if key else ""
        since = self.wait.since if stalled is not None else f.error_at
        severity = "warning" if f.paused else self.grows()
        do = step and step + passed
        return Condition("failing", severity, text, step or None, since, detail=self.error, do=do or None)

    def _waits(self) -> Iterator[Condition]:
        """Of rows that nothing else explains."""
        f, o = self.f, self.o
        if o.backfill:
            return
        if f.document == "none":
            yield from self._never_ran()
        elif not self.stopped and o.max_lag is not None and (self.wait.late or 0.0) > o.max_lag:
            if "failing" not in self.names:
                text = f"{self.head}, the oldest for {span(self.wait.late)}; max_lag is {span(o.max_lag)}."
                yield Condition("late", "unhealthy", text, f"poller status {f.name} -v", self.wait.since)
        elif self._is_late() and self.wait.stalled is not None:
            yield self._late(self.wait.stalled)
        yield from self._not_retried()
        yield from self._above()

    def _is_late(self) -> bool:
        explained = self.stopped or self.names & _EXPLAINED or self.in_time
        return not explained and (self.wait.stalled or 0.0) > SHORTLY + self.o.ttl

    def _never_ran(self) -> Iterator[Condition]:
        f, o = self.f, self.o
        late = self.wait.late
        if o.starts_now:
            unborn = self.seen.get("unborn")
            late = None if unborn is None else (f.now - o.following(unborn)).total_seconds()
        if late is not None and late > (o.patience if o.max_lag is None else o.max_lag):
            text = f"It never ran, and {self.head} for {span(late)}."
            if o.starts_now:
                text = f"It has not run for {span(late)}; rows that come before its first tick are never delivered."
            step = f"start a worker; by hand: poller run {f.name} --once"
            yield Condition("never_ran", "unhealthy", text, step, self.wait.since or self.seen.get("unborn"))

    def _late(self, stalled: float) -> Condition:
        f = self.f
        step = f"find out why no worker runs; by hand: poller run {f.name} --once"
        if f.first_look:
            last = (
                f"the last commit was {ago(f.committed_at, f.now)}" if f.committed_at else "nothing was committed yet"
            )
            text = f"{self.head}, and {last}; since when is known at the next look."
            return Condition("late", "warning", text, step)
        one = f.pending == 1 and not f.capped
        has, them = ("has", "it") if one else ("have", "them")
        text = f"{self.rows} {has} waited {span(stalled)}, and no worker took {them}."
        return Condition("late", self.grows(), text, step, self.wait.since)

    def _not_retried(self) -> Iterator[Condition]:
        f, o = self.f, self.o
        if not f.aside_due or f.aside_due_since is None or self.stopped or f.worker:
            return
        progress = _latest(f.aside_due_since, f.committed_at, f.changed_at) or f.aside_due_since
        found = waited(f.now, f.aside_due_since, progress, o.following)
        if found.stalled is not None and found.stalled > SHORTLY + o.ttl:
            severity: Severity = "unhealthy" if found.stalled > o.patience else "warning"
            text = f"{_rows(f.aside_due)} set aside could be tried again for {span(found.stalled)}, and no worker did."
            step = f"find out why no worker runs; by hand: poller run {f.name} --once"
            yield Condition("not_retried", severity, text, step, found.since)

    def _above(self) -> Iterator[Condition]:
        """The conditions of rows while none may be read yet."""
        f, o = self.f, self.o
        if not f.pending or f.readable or f.source or f.below_checkpoint or f.clock_back is not None:
            return
        held = f.age
        if held is None and "above" in self.seen:
            held = (f.now - self.seen["above"]).total_seconds()
        long = (held or 0.0) > SHORTLY
        over = o.max_bound_age is not None and (held or 0.0) > o.max_bound_age
        if not long and not over and f.held_by is None:
            yield Condition("settling", "well", f"{self.rows} can be read in a moment.")
            return
        severity: Severity = "unhealthy" if over else "warning" if long else "well"
        text = f"{self.head} for {f.held_by or 'an open transaction'}, the oldest for {span(held)}."
        rows = (f.held_by or "").startswith("rows ")  # with ids that the server has not handed out
        step = _check(f) if rows else "end that transaction"
        yield Condition("bound_held", severity, text, step if severity != "well" else None)

    def _people(self) -> Iterator[Condition]:
        """What a person said, and what waits for one."""
        f = self.f
        if f.paused:
            word = "paused" if f.worker is None else "cancelling" if f.cancelled else "pausing"
            said = "".join(
                (f" by {f.by}" * bool(f.by), f" {ago(f.at, f.now)}" if f.at else "", f": {f.why}" if f.why else "")
            )
            ends = f" {f.worker} {'stops its call' if f.cancelled else 'finishes its batch'}." if f.worker else ""
            step = None if f.halted else f"poller resume {f.name}"
            yield Condition(word, "warning", f"{word.capitalize()}{said}.{ends}", step, f.at)
        if f.kept_by:
            text = f"Reserved for {f.kept_by} for up to {span(f.expires_in)}; then a worker may start."
            yield Condition("reserved", "well", text)
        if f.quarantined and not self.full:
            text = f"{_rows(f.quarantined)} in quarantine {_verb(f.quarantined, 'wait')} for a person."
            yield Condition("quarantined", "warning", text, f"poller quarantine list {f.name}")
        if f.null_cursors:
            is_are = "is" if f.null_cursors == 1 else "are"
            text = f"{_rows(f.null_cursors)} without a value in the cursor column {is_are} never read."
            yield Condition("unread", "warning", text, _check(f))
        if f.two_apps:
            text = "Another configuration works under the name of its app."
            yield Condition("two_apps", "warning", text, "give one of them another app_name", detail=f.two_apps)

    def _doing(self) -> Iterator[Condition]:
        """What it does, if nothing else is to be said of that."""
        f, o = self.f, self.o
        if f.moved_at and (f.committed_at is None or f.committed_at < f.moved_at) and f.document == "there":
            who = f" ({f.moved_by})" if f.moved_by else ""
            text = f"Its checkpoint was moved {ago(f.moved_at, f.now)}{who}; nothing was committed since."
            yield Condition("moved", "well", text, f"if that was wrong: poller undo {f.name}", since=f.moved_at)
        if f.aside:
            yield Condition("set_aside", "well", f"{_rows(f.aside)} set aside, tried again automatically.")
        if o.backfill and f.finished:
            yield Condition("finished", "well", "Every row of the range was delivered.")
        elif f.worker and not f.paused and not self.names & {"hung", "silent"}:
            left = f", {self.rows} left" if f.pending else ""
            yield Condition("working", "well", f"{f.worker} is at work{left}.")
        elif o.backfill and not self.stopped:
            step = "run the poller backfill command again that began it"
            yield Condition("not_running", "warning", "No worker runs it.", step, do=f.goes_on)
        elif f.document == "none" and "never_ran" not in self.names:
            some = f" {self.head}." if f.pending and f.readable else ""
            yield Condition("new", "well", f"It never ran; its first tick starts it.{some}")
        elif not self.names - _BESIDE:
            yield self._waiting()

    def _waiting(self) -> Condition:
        due = self.wait.due
        if self.f.readable and due is not None and (due - self.f.now).total_seconds() > SHORTLY:
            return Condition("scheduled", "well", f"{self.head} for {moment(due)}, its next scheduled time.")
        if self.f.readable:
            return Condition("behind", "well", f"{self.head} for the next tick.")
        return Condition("idle", "well", "Nothing waits.")


def _clean(text: str | None) -> str | None:
    """Redacted, escaped and cut."""
    return None if text is None else first_line(text, _LONGEST)


def _check(f: PollerFacts) -> str:
    return f"poller check {f.name}"


def _before(now: datetime, seconds: float) -> datetime:
    """So many seconds earlier; the first moment there is, if that lies beyond."""
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=now.tzinfo)


def _latest(*moments: datetime | None) -> datetime | None:
    return max((one for one in moments if one is not None), default=None)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _rows(count: int, *, capped: bool = False) -> str:
    """`1 row`, `3 rows`, `10,000 or more rows`."""
    return f"{count:,} or more rows" if capped else _counted(count, "row")


def _verb(count: int, verb: str, *, capped: bool = False) -> str:
    return verb if capped or count != 1 else f"{verb}s"


@dataclass(frozen=True, slots=True)
class Wait:
    """The time that something has waited.

    Attributes:
        since: the first moment of the schedule from which on a tick should have delivered it; None if nothing waits.
        late: seconds since then; None if that moment is to come, or nothing waits.
        stalled: the same, and nothing made progress since.
        due: that moment, if it is to come.
    """

    since: datetime | None = None
    late: float | None = None
    stalled: float | None = None
    due: datetime | None = None


def waited(
    now: datetime,
    since: datetime,
    progress: datetime | None,
    following: Callable[[datetime], datetime],
    *,
    left_until: datetime | None = None,
) -> Wait:
    """The time that what could be delivered `since` has waited.

    Args:
        progress: when the poller last made some. following: the schedule's first moment after one. left_until: when the
            lease of an interrupted tick ended or ends, if it left rows.
    """

    def moment(after: datetime) -> datetime:
        found = following(after)
        return found if left_until is None else min(found, max(after, min(left_until, now)) + BETWEEN)

    first, next_one = moment(since), moment(max(since, progress or since))
    return Wait(
        since=first,
        late=_passed(now, first),
        stalled=_passed(now, next_one),
        due=next_one if next_one > now else None,
    )


def _passed(now: datetime, moment: datetime) -> float | None:
    return None if moment > now else (now - moment).total_seconds()
