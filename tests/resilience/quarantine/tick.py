"""One tick as a reference: the order of reads, records, PUTs and calls around the rules of `poller.model`.

Every `yield` is a step: there a process may be killed, held up past its lease, or overtaken; what it yields is how many
seconds pass. Of the lease protocol only as much stands here as the rules need.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from poller.model import applied, aside, backoff, handover, judging, transitions
from poller.model.aside import Limits, RowFacts
from poller.model.document import DeliveryError, State, WaitingRow
from poller.model.handover import Mode, Plan
from poller.model.put import Landing, Put, written
from poller.model.verdict import Report, opens
from tests.resilience.quarantine.handler import Call, Cancelled, Handler
from tests.resilience.quarantine.laws import Laws
from tests.resilience.quarantine.world import TTL, Version, World, place

Steps: TypeAlias = Generator[float, None, None]
Change: TypeAlias = Callable[[State, datetime], State]
GRACE = 0.5
FAILED = DeliveryError(type="ValueError")


class Lost(Exception):
    """The tenure is over."""


@dataclass(frozen=True)
class Settings:
    """How a process is configured."""

    mode: Mode
    limits: Limits
    batch_size: int
    max_batches: int = 0


class Writer:
    """One holder of the lease: it writes the document by compare-and-swap."""

    older = False
    """Whether it is of a version that knows none of these rules."""

    def __init__(self, name: str, world: World, laws: Laws, settings: Settings, *, lost_answers: float) -> None:
        self.name = name
        self.world = world
        self.laws = laws
        self.settings = settings
        self.lost_answers = lost_answers
        self.state = world.state
        self.tag = world.tag
        self.deadline = 0.0
        self.token = 0

    def acquire(self, change: Change, *, starts_batch: bool = True) -> Generator[float, None, bool]:
        """Take the free lease that was read; whether it was taken."""
        world, base = self.world, self.state
        self.token = base.lease.fencing_token + 1
        self.deadline = world.now + TTL - GRACE

        def taken(state: State, now: datetime) -> State:
            owner = f"{self.name}/{self.token}"
            state = transitions.acquire(state, owner_id=owner, ttl=TTL, now=now, starts_batch=starts_batch)
            return change(state, now)

        try:
            yield from self.put(taken, "acquire", redo=False)
        except Lost:
            return False
        world.say(self.name, f"takes the lease, token {self.token}")
        return True

    def put(self, change: Change, what: str, call: Call | None = None, *, redo: bool = True) -> Steps:
        """Write; after a lost answer look whether it landed; beside a pause or resume, again. Raises: Lost."""
        world = self.world
        base, tag, write_id = self.state, self.tag, f"{self.name}-{world.rng.random()}"
        while True:
            yield 0.05
            if world.now >= self.deadline and what != "acquire":
                raise Lost
            sent = world.now
            if world.rng.random() < 0.02:
                yield 1.0  # on its way
            new = change(base, world.moment()).with_write_id(write_id)
            landed = world.swap(tag, new)
            if landed:
                self.laws.landed(self, base, new, what, call)
                if world.rng.random() < self.lost_answers:
                    world.seen["answer lost"] += 1
                    yield 0.5
                    found = world.state
                    if write_id not in found.write_ids or not transitions.still_held(new, found):
                        raise Lost
                self.state, self.tag = new, tag + 1
                self.deadline = sent + TTL - GRACE
                return
            found = world.state
            if not redo or not transitions.still_held(base, found):
                world.seen["conflict"] += 1
                raise Lost
            world.seen["redone"] += 1
            base, tag = found, world.tag

    def give_up_cancelled(self) -> Steps:
        """The handler has ended: the lease is given back, and nothing else is written."""
        world = self.world
        world.seen["cancelled"] += 1
        yield 0.05
        found, tag = world.state, world.tag
        if found.lease.fencing_token == self.token and found.lease.owner_id is not None:
            new = transitions.release(found, give_back=False, now=world.moment())
            if world.swap(tag, new):
                self.laws.landed(self, found, new, "cancelled", None)

    def open_record(self, row: RowFacts) -> Steps:
        """Write a record before the PUT that lists its row; one that exists is reopened."""
        while True:
            yield 0.02
            found = self.world.records.get(row.id)
            if self.world.write_record(row.id, "aside", self.token, None if found is None else found.tag):
                return

    def tag_of(self, id_: str) -> int | None:
        found = self.world.records.get(id_)
        return None if found is None else found.tag

    def settle_record(self, id_: str, status: str, tag: int | None) -> Steps:
        """Write what became of a row, if nobody wrote its record since it was read."""
        yield 20.0 if self.world.rng.random() < self.world.stalls else 0.02  # past its lease
        if tag is not None and self.world.write_record(id_, status, self.token, tag):
            self.laws.records_changed()


class Tick(Writer):
    """One tick of the version that knows these rules."""

    def __init__(
        self, name: str, world: World, laws: Laws, settings: Settings, handler: Handler, *, lost_answers: float
    ) -> None:
        super().__init__(name, world, laws, settings, lost_answers=lost_answers)
        self.handler = handler
        self.batches = 0
        self.superseded: list[tuple[str, int | None]] = []

    def run(self) -> Steps:
        """Enter, and drain."""
        world, state = self.world, self.state
        if state.control.paused or state.control.halted or not world.free():
            return
        if backoff.waits_until(state, world.moment(), self.settings.limits.backoff):
            world.seen["backing off"] += 1
            return
        jitter = world.rng.random()
        seen = aside.after_reset(
            aside.count_interrupted_try(state, limits=self.settings.limits, jitter=jitter, now=world.moment())
        )
        rows = self._page()
        chosen = self._plan(seen, rows, entering=True)
        batch_first = chosen.killed or (state.retrying is not None and bool(chosen.passes))
        tries = aside.due(seen, world.moment(), limits=self.settings.limits, batch_first=batch_first)
        if not chosen.passes and tries is None and state.retrying is None:
            world.seen["blocked" if chosen.blocked else "idle"] += 1
            return
        self._note_drops(chosen, tries)
        limits = self.settings.limits

        def enter(taken: State, now: datetime) -> State:
            taken = aside.count_interrupted_try(taken, limits=limits, jitter=jitter, now=now)
            return handover.entered(taken, chosen, tries)

        if not (yield from self.acquire(enter, starts_batch=bool(chosen.rows))):
            return
        if state.retrying is not None:
            world.seen["killed try"] += 1
        try:
            yield from self._settle_dropped()
            yield from self._drain(rows, chosen, tries, batch_first=batch_first)
        except Lost:
            world.say(self.name, "lost its lease")
            world.seen["lost"] += 1
        except Cancelled:
            yield from self.give_up_cancelled()

    def _drain(self, rows: Sequence[Version], chosen: Plan, tries: WaitingRow | None, *, batch_first: bool) -> Steps:
        world, entered = self.world, True
        while True:
            if tries is not None:
                yield from self._try(tries, named=entered)
                entered = False
            elif entered and chosen.passes:
                if (yield from self._hand_over(chosen, begun=True)):
                    return
                batch_first = batch_first and (not chosen.rows or chosen.killed)
                entered = False
            else:
                rows = self._page() if world.rng.random() < 0.7 else self._rest(rows)
                chosen = self._plan(self.state, rows)
                if not chosen.passes:
                    break
                if (yield from self._hand_over(chosen, begun=False)):
                    return
                batch_first = batch_first and not chosen.rows
            if self._enough() or world.rng.random() < 0.05:
                break
            if world.rng.random() < 0.05:
                yield from self._clean_up()
            tries = aside.due(self.state, world.moment(), limits=self.settings.limits, batch_first=batch_first)
        yield from self.put(lambda state, now: handover.released(state, now=now), "release")

    def _enough(self) -> bool:
        most = self.settings.max_batches
        return self.state.control.paused or (most > 0 and self.batches >= most)

    # --- a batch -----------------------------------------------------------------------------------------------------

    def _page(self) -> list[Version]:
        return self.world.table.page(self.state.checkpoint.cursor, self.settings.batch_size)

    def _rest(self, rows: Sequence[Version]) -> list[Version]:
        """What is left of the page that was read, where nothing is; else a new one."""
        behind = place(self.state.checkpoint.cursor)
        return [row for row in rows if row.place > behind] or self._page()

    def _plan(self, state: State, rows: Sequence[Version], *, entering: bool = False) -> Plan:
        facts, places = [row.facts for row in rows], [row.place for row in rows]
        return handover.plan(
            state,
            facts,
            {
                cursor.place: sum(1 for one in places if one <= place(cursor))
                for cursor in handover.concerned(state, facts)
            },
            mode=self.settings.mode,
            limits=self.settings.limits,
            entering=entering,
        )

    def _note_drops(self, chosen: Plan, tries: WaitingRow | None) -> None:
        self.superseded = [(id_, self.tag_of(id_)) for id_ in chosen.drops] if tries is None else []

    def _settle_dropped(self) -> Steps:
        """After the PUT that dropped older versions."""
        for id_, tag in self.superseded:
            self.world.seen["superseded"] += 1
            yield from self.settle_record(id_, "superseded", tag)
        self.superseded = []

    def _hand_over(self, chosen: Plan, *, begun: bool) -> Generator[float, None, bool]:
        """Hand over, rule, write; whether the lease was given back."""
        world, settings = self.world, self.settings
        self.batches += 1
        if not begun and handover.begun(self.state, chosen) != self.state:
            self._note_drops(chosen, None)
            yield from self.put(lambda state, now: handover.begun(state, chosen), "begin")
            yield from self._settle_dropped()
        call = Call(chosen.rows, self.state, applied.through(self.state, len(chosen.places(len(chosen.passes)))))
        if chosen.killed:
            world.seen["killed alone"] += 1
            call.report = Report("raised")
        elif chosen.rows:
            yield from self.handler.run(self, call)
        verdict = judging.judge(
            self.state, chosen, call.report, mode=settings.mode, limits=settings.limits, jitter=world.rng.random()
        )
        opened = opens(chosen, verdict)
        for row in opened:
            yield from self.open_record(row)
        world.say(self.name, f"{call.report.end}: passes {verdict.passes}, opens {[row.id for row in opened]}")
        put = Put([Landing(chosen, verdict, "b", FAILED if verdict.failed else None)])

        def end(state: State, now: datetime) -> State:
            return written(state, put, limits=settings.limits, columns=(), now=now)

        yield from self.put(end, "ended", call)
        return verdict.releases or verdict.halts

    # --- a row aside -------------------------------------------------------------------------------------------------

    def _try(self, row: WaitingRow, *, named: bool) -> Steps:
        """Hand over a row aside by itself."""
        world, limits = self.world, self.settings.limits
        if not named:
            yield from self.put(lambda state, now: aside.trying(state, row.id), "name")
        tag = self.tag_of(row.id)
        facts = RowFacts(row.id, row.pk, row.key, row.cursor)
        call = Call((facts,), self.state, applied.through(self.state, 0), retries=row)
        yield from self.handler.run(self, call)
        report, jitter = call.report, world.rng.random()
        world.say(self.name, f"tried {row.id}: {report.end} {report.failed or ''}{report.rejected or ''}")

        def end(state: State, now: datetime) -> State:
            if report.end == "later":
                return aside.put_off(state, row.id, seconds=report.seconds, now=now)
            if report.rejected:
                return aside.rejected_again(state, row.id)
            if report.end == "raised" or report.failed:
                return aside.failed_again(state, row.id, limits=limits, jitter=jitter, now=now)
            return aside.remove(state, row.id)

        yield from self.put(end, "tried", call)
        ids = {one.id for one in self.state.quarantine}
        if row.id in ids:
            world.seen["quarantined"] += 1
            yield from self.settle_record(row.id, "pending", tag)
        elif row.id not in {one.id for one in self.state.aside}:
            world.seen["delivered later"] += 1
            yield from self.settle_record(row.id, "delivered", tag)

    def _clean_up(self) -> Steps:
        """Settled records are removed, unless somebody wrote them since."""
        for id_, record in list(self.world.records.items()):
            if record.status not in ("aside", "pending"):
                tag = record.tag
                yield 0.02
                found = self.world.records.get(id_)
                if found is not None and found.tag == tag:
                    del self.world.records[id_]
                    self.laws.records_changed()
