"""People who interfere: pause, cancel, resets by this and an older version, replay, discard, add."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import datetime
from typing import Literal, TypeAlias

from poller.model import applied, aside, transitions
from poller.model.aside import RowFacts
from poller.model.cursor import Cursor
from poller.model.document import OperatorChange, State, WaitingRow
from tests.resilience.quarantine.handler import Call, Handler
from tests.resilience.quarantine.laws import Laws
from tests.resilience.quarantine.older import older
from tests.resilience.quarantine.tick import Lost, Settings, Steps, Writer
from tests.resilience.quarantine.world import TTL, World, place

Deed: TypeAlias = Literal["pause", "cancel", "resume", "reset", "older reset", "break", "replay", "discard", "add"]
DEEDS: tuple[Deed, ...] = ("pause", "cancel", "reset", "older reset", "break", "replay", "discard", "add")


class Person:
    """Somebody with the console; what they do is guarded as every change is."""

    def __init__(self, world: World, laws: Laws, settings: Settings, handler: Handler) -> None:
        self.world = world
        self.laws = laws
        self.settings = settings
        self.handler = handler

    def does(self, deed: Deed) -> Steps:
        """One deed; what is refused is left."""
        self.world.seen[f"person {deed}"] += 1
        if deed in ("pause", "cancel"):
            yield from self._stops(deed)
        elif deed in ("reset", "older reset", "break"):
            yield from self._resets(deed)
        elif deed == "resume":
            yield from self._writes("resume", _resume)
        else:
            waiting = [*self.world.state.quarantine, *self.world.state.aside]
            if deed == "add":
                yield from self._adds()
            elif waiting:
                row = self.world.rng.choice(waiting)
                yield from self._replays(row) if deed == "replay" else self._discards(row)

    def replay_or_discard(self, row: WaitingRow) -> Steps:
        """At the end: a version that the table still has is replayed, others are discarded."""
        current = self.world.table.rows.get(int(row.pk))
        if current is None or current.id != row.id:
            yield from self._discards(row)
        else:
            yield from self._replays(row)

    # --- switches ----------------------------------------------------------------------------------------------------

    def _stops(self, deed: Deed) -> Steps:
        change = transitions.pause if deed == "pause" else transitions.cancel
        yield from self._writes(
            deed, lambda state, now: change(state, by="ann", reason=None, change=_change(deed), now=now)
        )
        yield self.world.rng.random() * 20
        yield from self._writes("resume", _resume)

    def _resets(self, deed: Deed) -> Steps:
        world = self.world
        if deed != "break" and not world.free():
            return
        target = self._somewhere()
        world.say("person", f"{deed} to {place(target)}")

        def reset(state: State, now: datetime) -> State:
            return transitions.reset(state, cursor=target, change=_change("reset"), now=now)

        def broken(state: State, now: datetime) -> State:
            return transitions.hold(reset(state, now), owner_id="operator", ttl=TTL, now=now)

        yield from self._writes(
            deed, broken if deed == "break" else older(reset) if deed == "older reset" else reset, once=True
        )

    def _somewhere(self) -> Cursor | None:
        """A place in the table, mostly behind the checkpoint."""
        here = place(self.world.state.checkpoint.cursor)
        rows = sorted(self.world.table.rows.values(), key=lambda row: row.place)
        back = [row for row in rows if row.place <= here]
        if self.world.rng.random() < 0.3 or not back:
            return None if self.world.rng.random() < 0.5 or not rows else self.world.rng.choice(rows).facts.cursor
        return self.world.rng.choice(back).facts.cursor

    # --- rows that wait ----------------------------------------------------------------------------------------------

    def _discards(self, row: WaitingRow) -> Steps:
        if not self.world.free() or not _passed(self.world.state, row):
            return
        tag = self.world.records[row.id].tag if row.id in self.world.records else None
        landed = yield from self._writes(
            "discard",
            lambda state, now: transitions.freed(aside.without(state, [row.id]), now=now),
            (row.id,),
            once=True,
        )
        if landed and tag is not None:
            self.world.write_record(row.id, "discarded", 0, tag)

    def _adds(self) -> Steps:
        """A row that was not passed yet is set aside: a way past one that blocks."""
        world = self.world
        ahead = world.table.page(world.state.checkpoint.cursor, 3)
        if not world.free() or not ahead:
            return
        row = world.rng.choice(ahead).facts
        if row.id in aside.listed(world.state):
            return
        world.say("person", f"sets {row.id} aside")
        found = world.records.get(row.id)
        before = world.state
        yield 0.02
        if not world.write_record(row.id, "aside", 0, None if found is None else found.tag) or world.state != before:
            return
        yield from self._writes(
            "add",
            lambda state, now: transitions.freed(aside.add(state, row, now=now), now=now),
            (row.id,),
            once=True,
        )

    def _replays(self, row: WaitingRow) -> Steps:
        """The handler is called for a row that waits, under the lease; oldest first within its key."""
        world = self.world
        state = world.state
        stale = row.generation != state.checkpoint.generation
        if not world.free() or not (stale or aside.heads(state).get(row.key) is row):
            return
        writer = Writer("person", world, self.laws, self.settings, lost_answers=0.0)

        def enter(state: State, now: datetime) -> State:
            return aside.count_interrupted_try(state, limits=self.settings.limits, jitter=1.0, now=now)

        if not (yield from writer.acquire(enter, starts_batch=False)):
            return
        if row.id not in {one.id for one in (*writer.state.aside, *writer.state.quarantine)}:
            return
        tag = writer.tag_of(row.id)
        facts = RowFacts(row.id, row.pk, row.key, row.cursor)
        call = Call((facts,), writer.state, applied.through(writer.state, 0), retries=row, replays=True)
        try:
            yield from self.handler.run(writer, call)
            done = row.id in call.done

            def end(state: State, now: datetime) -> State:
                return transitions.release(aside.remove(state, row.id) if done else state, give_back=False, now=now)

            yield from writer.put(end, "replayed", call)
            if done:
                yield from writer.settle_record(row.id, "replayed", tag)
        except Lost:
            return

    # --- writing -----------------------------------------------------------------------------------------------------

    def _writes(
        self,
        what: str,
        change: Callable[[State, datetime], State],
        ids: tuple[str, ...] = (),
        *,
        once: bool = False,
    ) -> Generator[float, None, bool]:
        world = self.world
        for _ in range(1 if once else 5):
            before, tag = world.state, world.tag
            new = change(before, world.moment()).with_write_id(f"person-{world.rng.random()}")
            yield 0.02
            if world.swap(tag, new):
                world.say("person", what)
                self.laws.person(what, before, new, ids)
                return True
        return False


def _passed(state: State, row: WaitingRow) -> bool:
    """One that is ahead would only be read again."""
    return row.at is not None or row.generation != state.checkpoint.generation


def _change(kind: str) -> OperatorChange:
    return OperatorChange(id=kind, kind=kind, by="ann")


def _resume(state: State, now: datetime) -> State:
    return transitions.resume(state, change=_change("resume"), now=now)
