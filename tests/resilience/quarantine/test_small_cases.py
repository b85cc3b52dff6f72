"""Every small case: up to three rows of each kind, with one event at each step; and how many calls find one bad row."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest

from poller.model.aside import Limits
from poller.model.backoff import Backoff
from poller.model.handover import Mode
from tests.resilience.quarantine.handler import Call, Died, Handler
from tests.resilience.quarantine.laws import Laws
from tests.resilience.quarantine.people import DEEDS, Deed
from tests.resilience.quarantine.plan import Plan
from tests.resilience.quarantine.schedule import Actor, Schedule
from tests.resilience.quarantine.tick import Settings, Tick
from tests.resilience.quarantine.world import Kind, World

KINDS: tuple[Kind, ...] = ("ok", "bad", "named", "crash")


class Small(Schedule):
    """Rows of given kinds that are all there at once, and one event before a given step."""

    def __init__(self, kinds: tuple[Kind, ...], event: str, step: int, *, mode: Mode, keys: int) -> None:
        bad: tuple[Kind, ...] = ("ok",)
        super().__init__(Plan(seed=1, mode=mode, rows=0, batch_size=3, processes=1, keys=keys, kinds=bad, trouble=40.0))
        self.laws.strict = mode == "quarantine" and event in ("", "kill", "change", "delete")
        self.steps = 0
        for pk, kind in enumerate(kinds):
            self.world.table.kinds[pk] = kind
        self.world.table.write(range(len(kinds)), self._key)
        self.event, self.step = event, step
        self.happened = False

    def _step(self, actor: Actor) -> None:
        self.steps += 1
        if self.steps == self.step:
            self.happened = True
            self._happens()
        super()._step(actor if actor in self.actors else self.actors[0])

    def _happens(self) -> None:
        if self.event == "kill":
            self._killed(self.actors[0])
        elif self.event == "stop":
            self.actors[0].wakes = self.world.now + 15
            self._boot("p1")
        elif self.event == "outage":
            self.world.outage = self.world.now + 10
        elif self.event == "change":
            self._change()
        elif self.event == "delete":
            self._delete()
        elif self.event in DEEDS:
            deed: Deed = next(deed for deed in DEEDS if deed == self.event)
            self._person(deed)


def cases(rows: int, event: str, *, mode: Mode, keys: int, first: int = 1, every: int = 1) -> int:
    """Play every case with this event; how many were played."""
    played = 0
    for kinds in itertools.product(KINDS, repeat=rows):
        for step in itertools.count(first, every):
            small = Small(kinds, event, step, mode=mode, keys=keys)
            world = small.run()
            played += 1
            assert world.violation is None, (
                f"{kinds} {event} before step {step}, {mode}, {keys} keys: {world.violation}"
            )
            if not small.happened or step > 40 or not event:
                break
    return played


@pytest.mark.soak
def test_one_and_two_rows_of_each_kind_with_a_kill_at_each_step() -> None:
    assert cases(1, "kill", mode="quarantine", keys=0) + cases(2, "kill", mode="quarantine", keys=1, every=3) > 200


def test_three_rows_of_each_kind_in_each_mode() -> None:
    modes: tuple[Mode, ...] = ("quarantine", "block", "halt")
    assert sum(cases(3, "", mode=mode, keys=1) for mode in modes) == 192


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("mode", "event"),
    [
        *(("quarantine", event) for event in ("kill", "stop", "outage", "change", "delete", *DEEDS)),
        *(("block", event) for event in ("kill", "outage")),
        *(("halt", event) for event in ("kill", "outage")),
    ],
)
def test_three_rows_of_each_kind_with_one_event_at_each_step(mode: Mode, event: str) -> None:
    assert cases(3, event, mode=mode, keys=1) > 500


class Counting(Handler):
    """A handler that counts its calls once halving began."""

    def __init__(self, world: World, laws: Laws, *, dies: Callable[[Call], bool]) -> None:
        super().__init__(world, laws)
        self.calls: list[int] = []
        self.dies = dies

    def _behaves(self, call: Call):  # type: ignore[no-untyped-def]
        if call.state.delivery.window is not None:
            self.calls.append(len(call.rows))
        if self.dies(call):
            raise Died
        return super()._behaves(call)


def _calls_to_find(size: int, bad: int, *, dies: bool, mode: Mode) -> int:
    world = World(1)
    settings = Settings(mode, Limits(1, 10, 100, Backoff(1.0, 4.0)), size)
    laws = Laws(world, settings)
    handler = Counting(world, laws, dies=lambda call: dies and any(row.pk == str(bad) for row in call.rows))
    for pk in range(size):
        world.table.kinds[pk] = "bad" if pk == bad and not dies else "ok"
    world.table.write(range(size), str)
    for _ in range(100):
        tick = Tick("p", world, laws, settings, handler, lost_answers=0.0)
        try:
            for seconds in tick.run():
                world.now += seconds
                blocks = world.state.delivery.window is not None and world.state.delivery.failures
                if world.state.aside or blocks:
                    assert world.violation is None
                    return len(handler.calls)
        except Died:
            pass
        world.now += 30
    raise AssertionError(f"row {bad} of {size} was not found in {handler.calls}")


@pytest.mark.parametrize("mode", ["quarantine", "block"])
@pytest.mark.parametrize("dies", [False, True], ids=["raises", "dies"])
def test_one_bad_row_is_found_in_few_calls(mode: Mode, dies: bool) -> None:
    for size in (1, 2, 3, 5, 8, 16, 33):
        for bad in range(size):
            found = _calls_to_find(size, bad, dies=dies, mode=mode)
            assert found <= 2 * math.log2(size) + 4, (size, bad, found)


def test_one_bad_row_of_five_hundred_is_found_in_few_calls() -> None:
    for bad in (0, 1, 249, 250, 498, 499):
        assert _calls_to_find(500, bad, dies=False, mode="quarantine") <= 2 * math.log2(500) + 4
