"""One schedule: trouble, then calm with the bad rows still bad, then rows put right; after each part what must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from poller.model.aside import Limits
from poller.model.backoff import Backoff
from tests.resilience.quarantine.handler import Cancelled, Died, Handler
from tests.resilience.quarantine.laws import Laws
from tests.resilience.quarantine.older import OlderTick
from tests.resilience.quarantine.people import Deed, Person
from tests.resilience.quarantine.plan import Plan, draw
from tests.resilience.quarantine.tick import Settings, Steps, Tick
from tests.resilience.quarantine.truth import amiss
from tests.resilience.quarantine.world import Kind, World, place

CALM = 70.0
"""Seconds in which rows keep coming after the trouble; thirty times as long may it take until all is well: many times
the longest delay and the lease."""


@dataclass
class Actor:
    """Something that takes steps."""

    name: str
    begin: Callable[[], Steps]
    steps: Steps | None = None
    wakes: float = 0.0
    again: bool = True
    older: bool = False
    booted: int = 0


class Schedule:
    """The stage of one plan."""

    def __init__(self, plan: Plan, *, logged: bool = False) -> None:
        self.plan = plan
        self.world = World(plan.seed, logged=logged)
        self.world.stalls = plan.stalls
        limits = Limits(plan.max_attempts, plan.max_aside, plan.max_quarantined, Backoff(1.0, 4.0))
        self.settings = Settings(plan.mode, limits, plan.batch_size, plan.max_batches)
        self.laws = Laws(self.world, self.settings)
        if plan.deeds or plan.older:
            self.laws.strict = False
        self.handler = Handler(self.world, self.laws, outage=plan.outage, overstays=plan.overstays)
        self.actors: list[Actor] = []
        self.events: list[tuple[float, int, Callable[[], None]]] = []

    # --- the play ----------------------------------------------------------------------------------------------------

    def run(self) -> World:
        """Play it to the end, or to the first broken law."""
        world, plan = self.world, self.plan
        self._set_up()
        self._until(plan.trouble)
        if world.violation is None:
            self._calm_down()
            self._until(world.now + CALM)
            self._until(world.now + 30 * CALM, lambda: amiss(world, self.settings) is None)
        if world.violation is None:
            found = amiss(world, self.settings)
            if found is not None:
                world.fail(found)
        if world.violation is None:
            self._put_right()
        return world

    def _set_up(self) -> None:
        plan, rng = self.plan, self.world.rng
        for number in range(plan.processes):
            self._boot(f"p{number}", older=number < plan.older)
        later = [rng.random() * plan.trouble * 0.9 for _ in range(plan.rows)]
        for pk, when in enumerate(later):
            self._at(0.0 if rng.random() < 0.5 else when, lambda pk=pk: self._insert(pk))  # type: ignore[misc]
        for _ in range(plan.changes):
            self._at(rng.random() * plan.trouble, self._change)
        for _ in range(plan.deletes):
            self._at(rng.random() * plan.trouble, self._delete)
        for _ in range(plan.heals):
            self._at(rng.random() * plan.trouble, self._heal)
        for _ in range(plan.kills):
            self._at(rng.random() * plan.trouble, self._kill)
        for _ in range(plan.stops):
            self._at(rng.random() * plan.trouble, self._stop)
        for _ in range(plan.outages):
            self._at(rng.random() * plan.trouble, self._outage)
        for deed in plan.deeds:
            self._at(rng.random() * plan.trouble, lambda deed=deed: self._person(deed))  # type: ignore[misc]

    def _boot(self, name: str, *, older: bool = False) -> None:
        plan, world = self.plan, self.world
        settings = replace(self.settings, batch_size=max(1, plan.batch_size // 2)) if older else self.settings

        def ticks() -> Steps:
            while True:
                kind = OlderTick if older else Tick
                tick = kind(name, world, self.laws, settings, self.handler, lost_answers=plan.lost_answers)
                yield from tick.run()
                yield 0.5 + world.rng.random() * 2

        self.actors.append(Actor(name, ticks, older=older, wakes=world.now + world.rng.random()))

    def _at(self, when: float, what: Callable[[], None]) -> None:
        self.events.append((when, len(self.events), what))
        self.events.sort(reverse=True)

    def _until(self, end: float, done: Callable[[], bool] = lambda: False) -> None:
        world, rng = self.world, self.world.rng
        while world.violation is None and not done():
            due = min((actor.wakes for actor in self.actors), default=end)
            if self.events and self.events[-1][0] <= max(due, world.now):
                when, _, what = self.events.pop()
                world.now = max(world.now, when)
                what()
                continue
            if due >= end:
                world.now = max(world.now, end)
                return
            world.now = max(world.now, due)
            ready = [actor for actor in self.actors if actor.wakes <= world.now]
            self._step(rng.choice(ready))

    def _step(self, actor: Actor) -> None:
        world = self.world
        if actor.steps is None:
            actor.steps = actor.begin()
        try:
            actor.wakes = world.now + next(actor.steps) * (0.5 + world.rng.random()) + 0.001
        except StopIteration:
            self.actors.remove(actor)
        except Died:
            world.seen["died"] += 1
            self._killed(actor)
        except Cancelled:
            self.actors.remove(actor)

    def _killed(self, actor: Actor) -> None:
        self.world.say(actor.name, "is killed")
        if actor.steps is not None:
            actor.steps.close()
        actor.steps = None
        if actor.again:
            actor.wakes = self.world.now + self.world.rng.random() * 5
        else:
            self.actors.remove(actor)

    # --- what happens ------------------------------------------------------------------------------------------------

    def _key(self, pk: int) -> str:
        return f"k{pk % self.plan.keys}" if self.plan.keys else f"r{pk}"

    def _insert(self, pk: int) -> None:
        table, rng = self.world.table, self.world.rng
        table.kinds[pk] = rng.choice(self.plan.kinds)
        fresh = [pk]
        if pk + 100 not in table.rows and rng.random() < 0.3:  # two rows with one stamp
            fresh.append(pk + 100)
            table.kinds[pk + 100] = rng.choice(self.plan.kinds)
        table.write(fresh, self._key)
        self.world.say("table", f"writes {fresh}: {[table.kinds[pk] for pk in fresh]}")

    def _change(self) -> None:
        table, rng = self.world.table, self.world.rng
        if table.rows:
            pk = rng.choice(sorted(table.rows))
            if rng.random() < 0.5:
                table.kinds[pk] = rng.choice(self.plan.kinds)
            table.write([pk], self._key)
            self.world.say("table", f"writes {pk} again: {table.kinds[pk]}")

    def _delete(self) -> None:
        table = self.world.table
        if table.rows:
            pk = self.world.rng.choice(sorted(table.rows))
            table.delete(pk)
            self.world.say("table", f"deletes {pk}")

    def _heal(self) -> None:
        table = self.world.table
        bad = sorted(pk for pk, kind in table.kinds.items() if kind != "ok")
        if bad:
            table.kinds[self.world.rng.choice(bad)] = "ok"

    def _heal_all(self, kind: Kind | None = None) -> None:
        kinds = self.world.table.kinds
        for pk, found in kinds.items():
            kinds[pk] = "ok" if kind in (None, found) else found

    def _kill(self) -> None:
        self.world.seen["kill"] += 1
        self._killed(self.world.rng.choice(self.actors))

    def _stop(self) -> None:
        self.world.seen["stop"] += 1
        actor = self.world.rng.choice(self.actors)
        actor.wakes = self.world.now + 5 + self.world.rng.random() * 25
        self.world.say(actor.name, "stops for a while")

    def _outage(self) -> None:
        self.world.outage = self.world.now + self.world.rng.random() * 30

    def _person(self, deed: Deed) -> None:
        self._act(lambda: Person(self.world, self.laws, self.settings, self.handler).does(deed))

    def _act(self, begin: Callable[[], Generator[float, None, object]]) -> Actor:
        def steps() -> Steps:
            yield from begin()

        actor = Actor("person", steps, again=False, wakes=self.world.now)
        self.actors.append(actor)
        return actor

    # --- calm --------------------------------------------------------------------------------------------------------

    def _calm_down(self) -> None:
        """No outage, no kill, no stop; rows that are bad stay bad, and good ones keep coming."""
        world = self.world
        world.say("world", "CALM")
        world.outage = 0.0
        self.handler.overstays = 0.0
        self._heal_all("later")  # that is an outage, by the handler's own word
        self.events.clear()
        for actor in list(self.actors):
            actor.wakes = min(actor.wakes, world.now + 15)
            if actor.older:
                self.actors.remove(actor)
                self._boot(actor.name + "n")
        self._person("resume")
        for number in range(6):
            self._at(world.now + number * 10, lambda number=number: self._good(1000 + number))  # type: ignore[misc]

    def _good(self, pk: int) -> None:
        self.world.table.kinds[pk] = "ok"
        self.world.table.write([pk], lambda pk: f"r{pk}")

    def _put_right(self) -> None:
        """Every row is good now, and a person works off what waits."""
        world = self.world
        world.say("world", "PUT RIGHT")
        self._heal_all()
        person = Person(world, self.laws, self.settings, self.handler)
        for _ in range(200):
            if self._all_done() or world.violation is not None:
                break
            state = world.state
            if state.control.halted or state.control.paused:
                self._act(lambda: person.does("resume"))
            elif state.quarantine:
                oldest = sorted(state.quarantine, key=lambda row: (row.generation, row.at or 0))
                row = world.rng.choice(oldest)
                self._act(lambda row=row: person.replay_or_discard(row))  # type: ignore[misc]
            self._until(world.now + 5)
        if world.violation is None:
            self._judge_end()

    def _all_done(self) -> bool:
        state = self.world.state
        return (
            not (state.aside or state.quarantine or state.retrying)
            and not self.world.table.page(state.checkpoint.cursor, 1)
            and self.world.free()
        )

    def _judge_end(self) -> None:
        world, state = self.world, self.world.state
        if not self._all_done():
            waits = [row.id for row in (*state.aside, *state.quarantine)]
            world.fail(f"wedged at {place(state.checkpoint.cursor)}: {waits}, {state.delivery}, {state.control}")
            return
        generation = state.checkpoint.generation
        for row in world.table.rows.values():
            done = any((each, row.id) in self.laws.done for each in range(generation + 1))
            if not done and row.id not in self.laws.excused:
                world.fail(f"{row.id} was never delivered")
            held = world.target.rows.get(row.pk)
            if done and not self.laws.overtaken and (held is None or held[1] < row.place):
                world.fail(f"the target holds {held} of {row.id}")
        if state.delivery.window is not None or state.delivery.failures:
            world.fail(f"all is delivered, and the document still says {state.delivery}")


def play(plan: Plan, *, logged: bool = False) -> World:
    """Run one plan."""
    return Schedule(plan, logged=logged).run()


def many(first: int, last: int) -> tuple[list[tuple[int, str]], Counter[str]]:
    """Run the plans of these seeds: those that broke a law, and what happened how often."""
    broken: list[tuple[int, str]] = []
    seen: Counter[str] = Counter()
    for seed in range(first, last):
        world = play(draw(seed))
        seen += world.seen
        if world.violation is not None:
            broken.append((seed, world.violation))
    return broken, seen
