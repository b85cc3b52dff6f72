"""One schedule from beginning to end: trouble first, then calm, in which everything must come right by itself."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from unittest import mock

from poller.config import PollerOptions
from poller.lease import Tenure
from poller.model import transitions
from poller.model.timing import Timing
from tests.resilience.simulation.actors import OperatorActor, Worker
from tests.resilience.simulation.laws import Laws
from tests.resilience.simulation.outsider import Outsider
from tests.resilience.simulation.plan import Plan
from tests.resilience.simulation.runtime import SimRuntime
from tests.resilience.simulation.source import Table, Trouble
from tests.resilience.simulation.store import Client, Network, Server
from tests.resilience.simulation.world import Process, World

STATE_NAME = "state/sim/orders.json"


@dataclass(frozen=True, slots=True)
class Report:
    """How a schedule went.

    Attributes:
        violation: the first law that was broken, None where all held.
        steps, seconds: how many steps, how much simulated time.
        seen: how often which event, outcome and fault occurred.
        log: line by line, where asked for.
    """

    plan: Plan
    violation: str | None
    steps: int
    seconds: float
    seen: Counter[str]
    log: list[str]


class Schedule:
    """The stage on which the actors of one plan meet."""

    deeds: tuple[str, ...] = ("pause", "pause", "reset", "reset", "break", "rebind")
    """What operators do."""

    def __init__(self, plan: Plan, *, logged: bool = False) -> None:
        self.plan = plan
        self.seen: Counter[str] = Counter()
        self.rng = random.Random(plan.seed)
        self.world = World(self.rng, logged=logged)
        self.table = self.make_table()
        self.laws = self.make_laws()
        self.trouble = Trouble()
        self.server = Server(
            self.world,
            self.laws,
            state_name=STATE_NAME,
            skew=self.rng.uniform(0, plan.skew),
            rate=1 + self.rng.uniform(-plan.drift, plan.drift),
            timed=plan.timed,
        )
        self.calm = False
        self.workers: list[Worker] = []
        self.operators: list[OperatorActor] = []
        self.clients: dict[int, tuple[Process, Client]] = {}
        self.calm_at = plan.trouble * plan.ttl
        self.outsider = Outsider(self)

    # --- what a schedule is made of --------------------------------------------------------------------------------

    def make_table(self) -> Table:
        """The table that is polled."""
        return Table(self.plan.keys)

    def make_laws(self) -> Laws:
        """What may never happen."""
        return Laws(self.world, self.table, self.plan)

    def make_worker(self, number: int) -> Worker:
        """One place where the poller runs."""
        return Worker(self, number)

    # --- what every actor needs ------------------------------------------------------------------------------------

    def process(self, name: str) -> Process:
        """A new process with wrong clocks of its own."""
        plan, rng = self.plan, self.rng
        return Process(
            name,
            offset=rng.uniform(0, 10_000),
            rate=1 + rng.uniform(-plan.drift, plan.drift),
            skew=rng.uniform(-plan.skew, plan.skew),
        )

    def timing(self, number: int) -> Timing:
        """The lease as the process of that number is configured."""
        ttl = self.plan.ttl * (0.5 if self.plan.other_ttl and number == 1 and self.plan.ttl > 3 else 1.0)
        return Timing(ttl=ttl, heartbeat=ttl / self.plan.beats)

    def operators_timing(self) -> Timing:
        """The lease as an operator's configuration has it, which may not be the workers'."""
        ttl = self.plan.ttl if self.rng.random() < 0.5 else max(3.0, self.plan.ttl * 0.3)
        return Timing(ttl=ttl, heartbeat=ttl / self.plan.beats)

    def options(self, number: int) -> PollerOptions:
        """The same with all the rest of a poller's options."""
        plan, timing = self.plan, self.timing(number)
        lanes: dict[str, Any] = {"concurrency": plan.lanes} if plan.lanes > 1 else {}
        if plan.uncommitted:
            lanes["max_uncommitted"] = max(plan.uncommitted, plan.lanes)
        if plan.keys:
            lanes["ordering_key"] = ("customer",)
        return PollerOptions(
            batch_size=plan.batch_size,
            max_batches_per_tick=plan.max_batches,
            read_ahead=plan.read_ahead,
            page_size=plan.page_size or None,
            **lanes,
            max_attempts=plan.max_attempts,
            tick_timeout=timedelta(seconds=plan.ttl * 3),
            handler_timeout=timedelta(seconds=plan.ttl * 1.5),
            lease_ttl=timedelta(seconds=timing.ttl),
            heartbeat_interval=timedelta(seconds=timing.heartbeat),
            error_text=False,
            on_poison="halt",
            retry_backoff=timedelta(seconds=plan.ttl * 0.1),
            retry_backoff_max=timedelta(seconds=plan.ttl),
        )

    def later(self, longest: float) -> float:
        """Some true time within so many seconds."""
        return self.world.now + self.rng.random() * longest

    # --- the play --------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Play it to the end, or to the first broken law."""
        week = timedelta(seconds=self.plan.week * self.plan.ttl) if self.plan.week else timedelta(days=7)
        with watching(self.clients, self.laws), mock.patch.object(transitions, "WEEK", week):
            self._set_up()
            world = self.world
            world.run(self.calm_at, self.laws.after_step, lambda: False)
            if world.violation is None:
                self._calm_down()
                if not world.run(self.calm_at + self._patience(), self.laws.after_step, self._done):
                    world.fail(f"wedged: {self._standing()}")
                self.laws.at_the_end()
            self.seen["rewritten"] += self.laws.rewrites
            world.end()
        return Report(self.plan, world.violation, world.steps, world.now, self.seen, world.log or [])

    def _set_up(self) -> None:
        plan, world, rng = self.plan, self.world, self.rng
        world.stall_rate, world.stall = plan.stalls, plan.ttl * 0.3
        self.trouble.rate, self.trouble.endless = plan.source_faults, plan.endless
        self.trouble.cold = plan.cold
        if plan.endless:
            self.trouble.slow = 0.001
        self.server.network = Network(
            rate=plan.faults,
            dribbles=plan.dribbles,
            latency=plan.latency * plan.ttl,
            lateness=plan.lateness * plan.ttl,
            denied=plan.denied,
            far=plan.far,
        )
        self.outsider.set_up()
        self.workers = [self.make_worker(number) for number in range(plan.processes)]
        world.on_death = self._died
        for worker in self.workers:
            worker.boot(after=0.0 if plan.aligned else rng.random() * plan.ttl)
        self._schedule_rows()
        for _ in range(plan.crashes):
            worker = rng.choice(self.workers)
            if plan.crash_at_step:
                worker.crash_steps.append(rng.randint(3, 150))
            else:
                world.at(self.later(self.calm_at), worker.crash)
        for _ in range(plan.stops):
            world.at(self.later(self.calm_at), rng.choice(self.workers).stop)
        for _ in range(plan.terminations):
            world.at(self.later(self.calm_at), rng.choice(self.workers).terminate)
        for _ in range(plan.outages):
            world.at(self.later(self.calm_at), self._outage)
        for number in range(plan.operators):
            operator = OperatorActor(self, f"op{number}")
            self.operators.append(operator)
            world.at(self.later(self.calm_at), operator.begin)

    def _schedule_rows(self) -> None:
        """Some rows are there from the start, the others arrive while things go wrong."""
        changed = 0

        def arrives() -> None:
            nonlocal changed
            changed += self.rng.randint(0, 2)
            self.table.grow(changed)

        for _ in range(self.plan.rows):
            if self.rng.random() < 0.4:
                arrives()
            else:
                self.world.at(self.later(self.calm_at * 0.9), arrives)

    def _outage(self) -> None:
        self.server.network.outage = self.world.now + self.rng.random() * 2 * self.plan.ttl
        self.world.say("server", "OUTAGE until %.3f", self.server.network.outage)

    def _died(self, process: Process) -> None:
        for worker in self.workers:
            if worker.process is process:
                worker.boot(after=self.rng.random() * self.plan.ttl)

    def _calm_down(self) -> None:
        """No new faults from here. What is under way may still land late."""
        self.world.say("world", "CALM")
        self.calm = True
        self.world.stall_rate = 0.0
        self.trouble.rate = 0.0
        network = self.server.network
        network.rate = network.dribbles = network.denied = network.outage = 0.0
        network.latency = min(network.latency, 0.05)
        for worker in self.workers:
            worker.crash_steps.clear()
            worker.process.dies_at_step = 0
        self._call(OperatorActor(self, "janitor"))
        if self.laws.meddled:
            self._call(OperatorActor(self, "rescuer"))

    def _call(self, operator: OperatorActor) -> None:
        self.operators.append(operator)
        operator.begin()

    def _patience(self) -> float:
        """How long it may take until all is well again: leases and holds run out, hung handlers come back."""
        plan = self.plan
        return 25 * (plan.ttl + 5) + 40 * plan.period * plan.ttl + plan.rows * plan.ttl

    def _done(self) -> bool:
        document = self.laws.document
        return (
            bool(document)
            and not self.trouble.endless
            and not self.busy_operators()
            and self.table.position(_cursor(document)) == len(self.table.rows)
        )

    def busy_operators(self) -> bool:
        """Whether somebody is not through with what they came for."""
        return any(not operator.done for operator in self.operators if operator.name != "janitor")

    def _standing(self) -> str:
        document = self.laws.document
        if not document:
            return "there is no document"
        return (
            f"row {self.table.position(_cursor(document))} of {len(self.table.rows)}, lease {document['lease']}, "
            f"control {document['control']}, delivery {document['delivery']}, "
            f"operators {[operator.status for operator in self.operators]}"
        )


def _cursor(document: dict[str, Any] | None) -> dict[str, Any] | None:
    assert document is not None
    cursor: dict[str, Any] | None = document["checkpoint"]["cursor"]
    return cursor


@contextmanager
def watching(clients: dict[int, tuple[Process, Client]], laws: Laws) -> Iterator[None]:
    """Show the laws every tenure that begins: what it believes is asked of the object itself. And no log lines."""
    begin = Tenure.__init__

    def watched(tenure: Tenure, *args: Any, **kwargs: Any) -> None:
        begin(tenure, *args, **kwargs)
        runtime = tenure._runtime
        assert isinstance(runtime, SimRuntime)
        process, client = clients[id(runtime.process)]
        laws.tenure_began(process, client, tenure)

    logger = logging.getLogger("poller")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with mock.patch.object(Tenure, "__init__", watched):
            yield
    finally:
        logger.setLevel(level)


def play(plan: Plan, *, logged: bool = False) -> Report:
    """Run one plan."""
    return Schedule(plan, logged=logged).run()
