"""One tick: read the document, read rows, take the lease, deliver and commit batch by batch, give the lease back.

The order matters. Nothing is written until there are rows: an idle tick is one conditional GET. The lease is taken
after the rows were read, since the compare-and-swap that takes it proves that the checkpoint they were read from still
stands (protocol 4 and 5). The last batch's commit also gives the lease back, since one row more than the batch was read
(protocol 7). Rows that were set aside are tried between the batches (failures 5).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poller.errors import CommitError, LeaseLost, SourceError
from poller.handler.call import Handler
from poller.lease.sending import OutcomeUnknown
from poller.lease.state_file import Conflict, Copy
from poller.model import aside, backoff, handover, lanes, transitions, window
from poller.model.cursor import Cursor
from poller.model.document import State, WaitingRow
from poller.model.handover import Plan
from poller.model.when import moment
from poller.observability import FactsTaken, PollerHalted, TableReplaced, TieRepeated
from poller.ports import Event, Page, PatientStop
from poller.tick import idle_writes, retries
from poller.tick.calls import Calls
from poller.tick.committer import Committer
from poller.tick.context import Context
from poller.tick.leased import POLL, LeasedDelivery
from poller.tick.preflight import refusal_of, stopped_by
from poller.tick.progress import Progress
from poller.tick.reader import KEPT_FOR, Reader
from poller.tick.recorder import Recorder
from poller.tick.result import Outcome, TickResult
from poller.tick.retries import Retries
from poller.tick.round import may_be_wide
from poller.tick.rounds import Rounds
from poller.tick.rows import PageRows
from poller.tick.slots import Slots
from poller.tick.under_lease import UnderLease

TAKEN = "another owner took the lease first"


@dataclass(frozen=True)
class _Turn:
    """What a tick does first: decided before the lease is taken, from the document and the page that were read.

    Attributes:
        seen: the document as the acquire's PUT leaves it, but for the lease. before: as it was read.
        chosen: of the rows behind the checkpoint. tries: the row aside that is tried before them.
        batch_first: a killed try was found, so a batch comes before the next; or it is the batch's turn: where a tick
            has time for no more than one slow try, or may make one call, rows would never be handed over.
    """

    before: State
    rows: PageRows
    chosen: Plan
    tries: WaitingRow | None
    batch_first: bool
    jitter: float

    @property
    def is_idle(self) -> bool:
        """True if there is nothing to do under the lease."""
        return not self.chosen.passes and self.tries is None and self.before.retrying is None


class Tick:
    """One tick while it runs. Raises what `Poller.tick` says."""

    def __init__(self, context: Context, handler: Handler, stop: Event) -> None:
        self.context = context
        self.runtime = context.runtime
        self.options = context.options
        self.file = context.file
        self.reader = Reader(context)
        self.handler = handler
        self.stop = stop
        self.patient = stop if isinstance(stop, PatientStop) else None
        self.began = self.runtime.monotonic()
        self.asked_at = self.runtime.utcnow()
        self.emptied = False
        self.ends = self.began + context.options.tick_timeout.total_seconds()
        self.progress = Progress()
        self.state: State | None = None
        self.creates = False
        """True if the lease was taken by creating the document."""
        if self.patient is not None:
            self.patient.watch(self._seconds_in_handler)

    def run(self) -> TickResult:
        """Enter, and where there is something to do, drain."""
        try:
            entered = self._enter()
            if isinstance(entered, TickResult):
                result = entered
            else:
                delivery, turn = entered
                with delivery:
                    result = self._drained(delivery, turn)
        finally:
            self.reader.rest()
        if self.emptied:
            idle_writes.looked(self.context, self.asked_at, result)
        return result

    # --- before the lease ------------------------------------------------------------------------------------------

    def _enter(self) -> TickResult | tuple[LeasedDelivery, _Turn]:
        """Read document and rows, and take the lease; tried once more where the document changed under us."""
        copy = self.file.read()
        for last in (False, True):
            copy = copy or self.file.read_unless_deleted()
            if copy is not None:
                self.context.audit.first_look(copy.state, by=self.context.process)
            refusal = self._refusal(copy) if copy is not None else None
            if refusal is not None:
                return refusal
            if self.stop.is_set():
                return self._result("idle", lag=False)
            self.progress.cursor = self.progress.reached = start = self.reader.start(copy)
            turn = self._turn(copy, start)
            try:
                if turn.is_idle:
                    return self._idle(copy, start, turn)
                delivery = self._acquired(copy, start, turn)
            except Conflict as lost:
                if last:
                    break
                copy = lost.found
            except LeaseLost as lost:
                return self._result("lease_lost", error=lost.message)
            else:
                self.creates = copy is None
                self.progress.token = delivery.tenure.fencing_token
                return delivery, turn
        return self._result("held_elsewhere", error=TAKEN)

    def _refusal(self, copy: Copy) -> TickResult | None:
        """Why this tick may not start, if it may not."""
        self.state = state = copy.state
        self.progress.cursor, self.progress.token = state.checkpoint.cursor, state.lease.fencing_token
        refusal = refusal_of(self.context, copy)
        if refusal is not None:
            idle_writes.rewrite(self.context, copy)
            return self._result(refusal.outcome, error=refusal.error)
        until = self._waits_until(state)
        if until is None:
            return None
        idle_writes.rewrite(self.context, copy)
        return self._result("backing_off", error=_backs_off(state, until))

    def _turn(self, copy: Copy | None, start: Cursor | None) -> _Turn:
        """Read a page, and choose what to do first."""
        now, known = self.file.clock.now(), None if copy is None else copy.state
        state = known or State(poller_name=self.context.name)
        jitter = self.runtime.jitter(0.0, 1.0)
        seen = self._as_taken(state, jitter, now)
        several = self.options.concurrency > 1
        wide = several and may_be_wide(self.context, seen) and not seen.delivery.attempts
        try:
            rows = self.reader.first(start, known, wide=wide or seen.delivery.lanes is not None)
        except SourceError:
            if copy is not None:  # a database may be away for weeks
                idle_writes.rewrite(self.context, copy)
            raise
        if rows.page.again is not None:
            self.progress.reached, seen = rows.after, self._as_taken(_resting(state, rows.page), jitter, now)
        rows, chosen = self._chosen(rows, seen, wide=wide, entering=True)
        tries = self._due(seen)
        turns = tries is not None and (tries.failures > 1 or self._calls_are_limited)
        turn = turns and state.lease.fencing_token % 2 == 1 and bool(chosen.passes)
        # A row that was killed alone is ruled over at once: after a try, the release would forget that failure.
        batch_first = turn or chosen.killed or (state.retrying is not None and bool(chosen.passes))
        tries = None if batch_first else tries
        return _Turn(state, rows, chosen, tries, batch_first, jitter)

    def _as_taken(self, state: State, jitter: float, now: datetime) -> State:
        """The document after acquire: interrupted tries counted, leftovers of earlier generations
        dropped."""
        options = self.options
        killed = aside.count_interrupted_try(state, limits=options.limits, jitter=jitter, now=now)
        return lanes.usable(aside.after_reset(killed), options.ordering_key)

    def _chosen(self, rows: PageRows, state: State, *, wide: bool, entering: bool = False) -> tuple[PageRows, Plan]:
        """What is done next with these rows: with all of them, or with those of one batch."""
        mode, limits = self.options.on_poison, self.options.limits
        if wide:
            chosen = rows.plan(state, mode, limits, entering=entering, several=self.options.concurrency)
            if chosen.is_for_lanes and (self.options.concurrency > 1 or chosen.is_plain):
                return rows, chosen
        if rows.is_wide:
            rows = self.reader.narrowed(rows.after)
        return rows, rows.plan(state, mode, limits, entering=entering)

    def _idle(self, copy: Copy | None, start: Cursor | None, turn: _Turn) -> TickResult:
        """Nothing to do, or nothing that can be done. Raises: Conflict."""
        if turn.chosen.blocked:
            if copy is not None:
                idle_writes.rewrite(self.context, copy)
            return self._result("blocked", error=self._no_room(turn.before, turn.chosen))
        bound = turn.rows.page.bound
        if copy is None:
            state = idle_writes.create(self.context, start).state
            self.progress.token = state.lease.fencing_token
            idle_writes.began(self.context, state)
        elif not idle_writes.remember(self.context, copy, bound):
            idle_writes.rewrite(self.context, copy)
        self.emptied = not (bound.cold or bound.below_checkpoint)
        return self._result("idle")

    def _acquired(self, copy: Copy | None, start: Cursor | None, turn: _Turn) -> LeasedDelivery:
        """Take the lease. Raises: as `LeasedDelivery.acquire`."""

        def begins(state: State, now: datetime) -> State:
            state = _resting(state, turn.rows.page)
            return handover.entered(self._as_taken(state, turn.jitter, now), turn.chosen, turn.tries)

        delivery = LeasedDelivery.acquire(
            self.context,
            self.handler,
            copy,
            POLL,
            start=start,
            starts_batch=bool(turn.chosen.rows),
            begins=lambda state, now: transitions.begun(begins(state, now)),
        )
        if copy is not None:
            self._say_what_it_rests_on(copy.state, turn.rows.page)
        return delivery

    def _say_what_it_rests_on(self, before: State, page: Page) -> None:
        """Say what the acquire's PUT changed of that."""
        common: dict[str, Any] = {"poller": self.context.name, "at": self.runtime.utcnow()}
        if page.again is not None:
            self.progress.cursor = page.again.cursor
            event = TableReplaced if page.again.replaced else TieRepeated
            self.context.emit(event(**common, cursor=str(page.again.cursor), reason=page.again.why))
        elif before.facts is None and page.facts is not None and _is_of_a_batch(before):
            self.context.emit(FactsTaken(**common))

    # --- under the lease -------------------------------------------------------------------------------------------

    def _drained(self, delivery: LeasedDelivery, turn: _Turn) -> TickResult:
        """Drain, and say how it went."""
        recorder = Recorder(self.context, delivery.tenure)
        try:
            with Committer(self.context, delivery.tenure, self.progress) as committer:
                calls = Calls(self.context, delivery, self.progress)
                under = UnderLease(self.context, delivery, calls, recorder, committer, self.progress, self.reader)
                with Slots(self.runtime, f"poller-lane-{self.context.name}", self.options.concurrency) as slots:
                    drained = self._drain(under, slots, turn)
            if not delivery.tenure.released and not self.progress.unwritten:
                if recorder.may_prune() and delivery.tenure.remaining() > 0:
                    delivery.begin_writes()
                    recorder.prune()
                if delivery.tenure.remaining() == 0:
                    return self._lost(delivery, "the lease was lost between two batches")
                delivery.give_back(drained=drained)
        except LeaseLost as lost:
            return self._lost(delivery, lost.message)
        except CommitError as unknown:
            return self._result("commit_unknown", error=unknown.message)
        except OutcomeUnknown as unknown:
            delivery.give_back()
            return self._result("commit_unknown", error=unknown.message)
        except BaseException:
            delivery.give_back()
            raise
        self.state = delivery.tenure.state
        self.context.audit.turned(turn.before, self.state, by=delivery.tenure.owner_id)
        self.emptied = delivery.tenure.released and not self.state.unfinished and self.progress.failed is None
        return self._done()

    def _drain(self, under: UnderLease, slots: Slots, turn: _Turn) -> bool:
        """Batch after batch, and rows aside that are due between them, until nothing is left, the time is over, or
        the caller wants us to stop. A batch comes after an attempt that failed: else rows with slow tries, one always
        being due, would hold up all others. While calls are limited it comes after each try: else rows aside would use
        up the calls. A row is tried again only after a batch: else one whose pause is shorter than its call would be
        tried until the time is over. Whether nothing is left; it counts while the lease is held."""
        delivery, tenure, recorder, progress = under.delivery, under.tenure, under.recorder, self.progress
        tried, rounds = Retries(under), Rounds(under, slots, lambda: self._may_go_on(delivery))
        rows, chosen, tries, batch_first = turn.rows, turn.chosen, turn.tries, turn.batch_first
        entered, since_batch = True, set[str]()
        if self.creates:
            idle_writes.began(self.context, tenure.state)
        retries.killed(recorder, turn.before)
        if tries is None:
            recorder.superseded(chosen.drops)
        while tries is not None or chosen.passes:
            if not self._may_go_on(delivery):  # the page took long, say
                break
            made = progress.calls
            if tries is not None:
                under.committer.settle()
                since_batch.add(tries.id)
                began = tried.hand_over(tries, named=entered)
            else:
                since_batch.clear()
                began = rounds.hand_over(chosen, rows, begun=entered)
            if not began or tenure.released:
                break
            batch_first = batch_first and (tries is not None or progress.calls == made)
            entered = False
            failed = tries is not None and any(row.id == tries.id for row in tenure.state.aside)
            batch_next = failed or (tries is not None and self._calls_are_limited)
            tries = self._due(tenure.state, without=since_batch, batch_first=batch_first or batch_next)
            if tries is None:
                rows, chosen = self._next(rows, delivery)
                if batch_next and not chosen.passes:
                    tries = self._due(tenure.state, without=since_batch, batch_first=batch_first)
        drained = self._is_drained(chosen, tenure.state)
        return tries is None and drained

    def _is_drained(self, chosen: Plan, state: State) -> bool:
        """True if the plan has no row left, nor one that has no room, which a person hears of, and no tie begins
        again."""
        if chosen.blocked:
            self.progress.blocked = self.progress.blocked or self._no_room(state, chosen)
        self.progress.left = self.progress.left or self.reader.interrupted
        return not chosen.passes and not chosen.blocked and not self.reader.interrupted

    def _next(self, rows: PageRows, delivery: LeasedDelivery) -> tuple[PageRows, Plan]:
        """The rows behind the checkpoint, those that were read where it did not move, and what is done with them. The
        piece that the document names was not handed over, as its rows were too old."""
        cursor, state = self.progress.reached, window.not_begun(delivery.tenure.state)
        wide = may_be_wide(self.context, state)
        delivery.begin_page()
        is_old = self.runtime.monotonic() - rows.read_at > KEPT_FOR
        if rows.after is not cursor or rows.was_cut or rows.is_wide or is_old:
            rows = self.reader.rows(cursor, state, batches=self._calls_left, wide=wide)
        return self._chosen(rows, state, wide=wide and rows.is_wide)

    @property
    def _calls_are_limited(self) -> bool:
        """True if a tick may make only so many calls: then batches and tries of rows aside take turns."""
        return self.options.max_batches_per_tick > 0

    @property
    def _calls_left(self) -> int | None:
        """The number of calls that may still be made; None: no limit."""
        return self.progress.calls_left(self.options.max_batches_per_tick)

    def _may_go_on(self, delivery: LeasedDelivery) -> bool:
        """True if another call may be made. If not, something is left."""
        goes_on = self._calls_left != 0 and self._wanted(delivery)
        self.progress.left = not goes_on
        return goes_on

    def _wanted(self, delivery: LeasedDelivery) -> bool:
        """True if a batch may start now: the caller does not want us to stop, and it may be finished in time, judged by
        the longest so far (design, `tick_timeout`). The first batch starts even when the time is over already: entering
        took so long, and if it always does, a poller that starts none would be wedged for ever."""
        in_time = self.runtime.monotonic() + self.progress.longest < self.ends
        tenure = delivery.tenure
        if self.progress.calls and self.patient is not None:
            self.patient.progressed()
        return in_time and not self.stop.is_set() and not tenure.paused and not tenure.lost.is_set()

    def _seconds_in_handler(self) -> float:
        """For any thread: since when this tick waits for its handler, and for no page."""
        since = self.progress.calling
        return 0.0 if since is None or self.reader.is_reading else self.runtime.monotonic() - since

    # --- how it went -----------------------------------------------------------------------------------------------

    def _done(self) -> TickResult:
        progress = self.progress
        if progress.failed is not None:
            if self.state is not None and self.state.control.halted:
                return self._halted(self.state.control.reason or progress.error or "")
            return self._result("handler_failed", error=progress.error)
        if progress.blocked is not None and not progress.rows:
            return self._result("blocked", error=progress.blocked)
        return self._result("delivered" if progress.batches or progress.rows else "idle")

    def _halted(self, reason: str) -> TickResult:
        self.context.emit(PollerHalted(poller=self.context.name, at=self.runtime.utcnow(), reason=reason))
        self.context.audit.add("halt", by="poller", reason=reason, before=None, after={"halted": True})
        return self._result("halted", error=reason)

    def _lost(self, delivery: LeasedDelivery, reason: str) -> TickResult:
        delivery.record_loss(reason)
        cancelled = delivery.tenure.cancelled
        if cancelled is not None:
            return self._result("paused", error=stopped_by("cancelled", cancelled))
        return self._result("lease_lost", error=reason)

    def _no_room(self, state: State, chosen: Plan) -> str:
        """Why nothing more can be passed."""
        waiting, most = len(state.aside) + len(state.quarantine), self.options.max_quarantined
        if chosen.alone:
            return (
                f"the table was emptied, or a snapshot begins or ends, and {waiting} earlier rows wait, which must not "
                f"be delivered after that. Settle them: poller quarantine list {self.context.name}. If a snapshot "
                "begins, discard them: it reads their rows again."
            )
        full = "their cursors leave no space in the state document" if waiting < most else f"max_quarantined is {most}"
        return (
            f"{waiting} rows wait, and {full}: the next row that has to "
            f"wait blocks. Settle some: poller quarantine list {self.context.name}"
        )

    def _result(self, outcome: Outcome, *, error: str | None = None, lag: bool = True) -> TickResult:
        progress, failed = self.progress, self.progress.failed
        self.reader.rest()
        in_time = self.runtime.monotonic() < self.ends  # past `functionTimeout` the host ends all pollers in it
        fresh, said = outcome in ("idle", "delivered"), self.reader.lag(progress.cursor)
        known = self.context.lag(progress.cursor, fresh, said) if lag and in_time else None
        shown, state = outcome in ("handler_failed", "halted"), self.state
        waits = state is not None and outcome in ("handler_failed", "backing_off")
        return TickResult(
            outcome=outcome,
            rows=progress.rows,
            batches=progress.batches,
            cursor=progress.cursor,
            fencing_token=progress.token,
            duration_seconds=self.runtime.monotonic() - self.began,
            lag_seconds=known.seconds if known else None,
            pending=known.pending if known else None,
            bound=self.reader.bound,
            error=error,
            retry_at=self._waits_until(state) if waits and state is not None else None,
            aside=None if state is None else len(state.aside),
            quarantined=None if state is None else len(state.quarantine),
            failing_row=progress.culprit.key if shown and progress.culprit is not None else None,
            next_command=self._next_command() if shown else (),
            left=progress.left and outcome == "delivered",
            exception=progress.exception if shown else None,
            trace=failed.trace if shown and failed is not None else None,
        )

    def _waits_until(self, state: State) -> datetime | None:
        return backoff.waits_until(state, self.file.clock.now(), self.options.limits.backoff)

    def _due(self, state: State, *, without: Collection[str] = (), batch_first: bool = False) -> WaitingRow | None:
        limits = self.options.limits
        return aside.due(state, self.file.clock.now(), limits=limits, without=without, batch_first=batch_first)

    def _next_command(self) -> tuple[str, ...]:
        """What a person can do about the row that failed, beside fixing it or the handler."""
        row, state, name = self.progress.culprit, self.state, self.context.name
        if state is None:
            return ()
        waiting = {one.id for one in (*state.aside, *state.quarantine)}
        if row is not None and (row.id in waiting or (waiting and self.options.on_poison == "quarantine")):
            return "quarantine", "list", name
        halted = window.alone(state) if row is None and state.control.halted else None
        halted = None if halted is None or halted.read is not None else halted
        pk = row.pk if row is not None else (halted.tiebreaker or {}) if halted is not None else {}
        if self.options.on_poison == "quarantine" or not pk:
            return ()
        return "quarantine", "add", name, *(part for key in pk.items() for part in ("--pk", "{}={}".format(*key)))


def _is_of_a_batch(state: State) -> bool:
    """True if the checkpoint stands where a batch left it, so that it rests on the table as it was then; a person who
    sets it means the table as it is."""
    return state.checkpoint.last_successful_batch_id is not None and state.checkpoint.generation == 0


def _resting(state: State, page: Page) -> State:
    """The document as the page leaves it: a checkpoint without known facts rests on the page's; one whose tie begins
    again moves there."""
    if page.again is not None:
        return transitions.tie_begun(state, page.again.cursor, page.facts)
    if state.facts is not None or page.facts is None:
        return state
    return state.model_copy(update={"facts": dict(page.facts)})


def _backs_off(state: State, until: datetime) -> str:
    """Why no call is made now."""
    failures, error = backoff.failures_of(state), state.delivery.last_error
    what = "" if error is None else f"{error.type}: {error.message}" if error.message else error.type
    often = f"failed {failures} times in a row" if failures > 1 else "failed"
    return f"the last call {often} with {what}; the next is made at {moment(until)}"
