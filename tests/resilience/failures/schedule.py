"""One schedule with rows that fail: trouble, then calm with the bad rows still bad, then rows put right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Self
from unittest import mock

from poller.config import PollerOptions
from poller.journal.quarantine import reader
from tests.resilience.failures.actors import FailingWorker
from tests.resilience.failures.laws import FailureLaws
from tests.resilience.failures.people import Person
from tests.resilience.failures.plan import FailurePlan
from tests.resilience.failures.table import ChangingTable
from tests.resilience.failures.truth import Settings, amiss
from tests.resilience.failures.versions import Kind, place
from tests.resilience.simulation.schedule import Report, Schedule, watching
from tests.resilience.simulation.world import Process

GOOD_ROWS = 4
"""So many rows come in the calm, one after the other: a row gets strikes only while others are delivered."""
LOOKS = 400
"""How often it is looked whether all has come right, before that is taken for never."""


class OneByOne:
    """In the place of threads, which no simulation can step through, where a person reads several records."""

    def __init__(self, max_workers: int) -> None:
        """How many there would be does not matter."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to wait for."""

    map = staticmethod(map)


class FailureSchedule(Schedule):
    """The stage of one plan."""

    deeds = ("pause", "pause", "reset", "reset", "break")

    def __init__(self, plan: FailurePlan, *, logged: bool = False) -> None:
        self.failures = plan
        self.down_until = 0.0
        super().__init__(plan, logged=logged)
        self.failure_laws.truth.skew = self.server._skew
        self.failure_laws.truth.rate = self.server._rate

    def make_table(self) -> ChangingTable:
        self.changing = ChangingTable(self.plan.keys, self.world)
        return self.changing

    def make_laws(self) -> FailureLaws:
        plan = self.failures
        limits = super().options(0).model_copy(update=self._options()).limits
        settings = Settings(plan.mode, limits, plan.batch_size)
        self.failure_laws = FailureLaws(self.world, self.changing, plan, settings, self.seen)
        return self.failure_laws

    def make_worker(self, number: int) -> FailingWorker:
        return FailingWorker(self, number)

    def options(self, number: int) -> PollerOptions:
        return super().options(number).model_copy(update=self._options())

    def _options(self) -> dict[str, object]:
        plan = self.failures
        return {
            "on_poison": plan.mode,
            "retry_backoff": timedelta(seconds=plan.first),
            "retry_backoff_max": timedelta(seconds=plan.most),
            "max_aside": plan.max_aside,
            "max_quarantined": plan.max_quarantined,
            "ordering_key": ("customer",) if plan.keys else (),
        }

    # --- the play --------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Play it to the end, or to the first broken law."""
        world, laws = self.world, self.failure_laws
        with watching(self.clients, laws), mock.patch.object(reader, "ThreadPoolExecutor", OneByOne):
            self._set_up()
            self._until(self.calm_at)
            if world.violation is None:
                self._calm_down()
                self._until(world.now + (GOOD_ROWS + 1) * self.failures.most)
                self._await(self._amiss)
            if world.violation is None:
                self._put_right()
            world.end()
        return Report(self.plan, world.violation, world.steps, world.now, self.seen, world.log or [])

    def _until(self, end: float) -> None:
        self.world.run(end, self.laws.after_step, lambda: False)

    def _await(self, amiss: Callable[[], str | None]) -> None:
        """Go on until nothing is amiss any more; a law is broken where something always is."""
        for _ in range(LOOKS):
            if self.world.violation is not None or amiss() is None:
                return
            self._until(self.world.now + self.failures.most)
        self.world.fail(f"{amiss()}: {self._standing()}")

    def _amiss(self) -> str | None:
        laws = self.failure_laws
        return amiss(laws.truth, laws.settings, laws.rules.covered(laws.truth.state))

    def _set_up(self) -> None:
        super()._set_up()
        plan, world = self.failures, self.world
        for what, times in (
            (self._change, plan.changes),
            (self._delete, plan.deletes),
            (self._heal, plan.heals),
            (self._goes_down, plan.downs),
        ):
            for _ in range(times):
                world.at(self.later(self.calm_at), what)
        for number in range(plan.people):
            person = Person(self, f"person{number}")
            self.operators.append(person)
            world.at(self.later(self.calm_at), person.begin)

    def _died(self, process: Process) -> None:
        super()._died(process)
        for operator in self.operators:
            operator.done = operator.done or (isinstance(operator, Person) and operator.dead)

    def _schedule_rows(self) -> None:
        for pk in range(1, self.failures.rows + 1):
            if self.rng.random() < 0.4:
                self._insert(pk)
            else:
                self.world.at(self.later(self.calm_at * 0.9), lambda pk=pk: self._insert(pk))  # type: ignore[misc]

    def _insert(self, pk: int) -> None:
        rng, kinds = self.rng, self.changing.versions.kinds
        fresh = [pk, pk + 100] if rng.random() < 0.3 else [pk]  # two rows with one stamp
        for one in fresh:
            kinds[one] = rng.choice(self.failures.kinds)
        self.changing.write(fresh)
        self.world.say("table", "writes %s", [(self.changing.versions.rows[one], kinds[one]) for one in fresh])

    def _change(self) -> None:
        versions, rng = self.changing.versions, self.rng
        if versions.rows:
            pk = rng.choice(sorted(versions.rows))
            if rng.random() < 0.5:
                versions.kinds[pk] = rng.choice(self.failures.kinds)
            self.changing.write([pk], moved=rng.randint(0, self.failures.keys) if self.failures.moves else 0)
            self.world.say("table", "writes %s again: %s", versions.rows[pk], versions.kinds[pk])

    def _delete(self) -> None:
        versions = self.changing.versions
        if versions.rows:
            pk = self.rng.choice(sorted(versions.rows))
            self.changing.delete(pk)
            self.world.say("table", "deletes %s", pk)

    def _heal(self) -> None:
        kinds = self.changing.versions.kinds
        bad = sorted(pk for pk, kind in kinds.items() if kind != "ok")
        if bad:
            kinds[self.rng.choice(bad)] = "ok"

    def _heal_all(self, kind: Kind | None = None) -> None:
        kinds = self.changing.versions.kinds
        for pk, found in kinds.items():
            kinds[pk] = "ok" if kind in (None, found) else found

    def _goes_down(self) -> None:
        self.down_until = self.world.now + self.rng.random() * 40.0
        self.world.say("world", "what the handler calls is down until %.3f", self.down_until)

    # --- calm ------------------------------------------------------------------------------------------------------

    def _calm_down(self) -> None:
        """Rows that are bad stay bad, and good ones keep coming."""
        super()._calm_down()
        self.down_until = 0.0
        self._heal_all("later")  # that is an outage, by the handler's own word
        for number in range(GOOD_ROWS):
            self.world.at(self.world.now + number * self.failures.most, lambda number=number: self._good(1000 + number))  # type: ignore[misc]

    def _good(self, pk: int) -> None:
        self.changing.versions.kinds[pk] = "ok"
        self.changing.write([pk])

    def _put_right(self) -> None:
        """Every row is good now. What waits for a person, and what follows it, waits on."""
        world, truth = self.world, self.failure_laws.truth
        world.say("world", "PUT RIGHT")
        self._heal_all()
        self._await(self._undone)
        state = truth.state
        left = truth.table.page(state.checkpoint.cursor, 1) or state.aside
        if not left and (state.delivery.window or state.delivery.failures):
            world.fail(f"all is delivered, and the document still says {state.delivery}")

    def _undone(self) -> str | None:
        """What is still to be done, and could be."""
        laws = self.failure_laws
        truth, rules = laws.truth, laws.rules
        state = truth.state
        found = self._amiss()
        if found is not None or state.control.halted or state.control.paused:
            return found or "nobody resumed it"
        waits = {row.id for row in (*state.aside, *state.quarantine)}
        keys = {row.key for row in state.quarantine}
        free = [row.id for row in state.aside if row.key not in keys and row.at is not None]
        if free:
            return f"{free} stay aside"
        if laws.settings.limits.max_quarantined <= len(waits) + 1:
            return None  # a person is asked for
        for row in truth.table.rows.values():
            known = (
                any((generation, row.id) in rules.done for generation in range(state.checkpoint.generation + 1))
                or row.id in rules.excused
                or row.id in {one.id for one in state.quarantine}
                or (row.id in waits and row.facts.key in keys)
            )
            if not known:
                return f"{row} of {place(row.facts.cursor)} was never delivered"
        return None


def play(plan: FailurePlan, *, logged: bool = False) -> Report:
    """Run one plan."""
    return FailureSchedule(plan, logged=logged).run()
