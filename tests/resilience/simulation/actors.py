"""Who acts in a schedule: workers that tick and crash, and operators that interfere."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from greenlet import GreenletExit

from poller import Batch
from poller.admin import Operator
from poller.admin.recovery import Recovery
from poller.errors import (
    LeaseHeld,
    SourceUnavailable,
    StateCorrupt,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    WriteConflict,
)
from poller.lease import YIELD_WITHIN
from poller.model.changes import to_rebind
from poller.model.checkpoint_file import begin, read_origin, restore
from poller.model.cursor import Cursor
from poller.model.document import OperatorChange, State
from poller.observability import PollerEvent
from poller.tick.context import Context
from poller.tick.ordering import order_by
from poller.tick.runner import Runner
from tests.resilience.simulation.runtime import SimRuntime
from tests.resilience.simulation.source import DESCRIPTION, AskedSource, SimSource
from tests.resilience.simulation.store import Client
from tests.resilience.simulation.world import Process, SimEvent
from tests.support.operators import pause, reset, resume

if TYPE_CHECKING:
    from tests.resilience.simulation.schedule import Schedule


class HandlerError(Exception):
    """What a simulated handler raises."""


class Worker:
    """One place where a poller runs. A process that dies or ends is followed by a fresh one without its memory."""

    def __init__(self, schedule: Schedule, number: int) -> None:
        self._schedule = schedule
        self._world = schedule.world
        self._rng = schedule.rng
        self._plan = schedule.plan
        self._number = number
        self._lives = 0
        self.crash_steps: list[int] = []
        self.process: Process
        self._client: Client
        self._runtime: SimRuntime
        self._stop: SimEvent

    def boot(self, *, after: float) -> None:
        """A fresh process, so many seconds from now."""
        self._lives += 1
        process = self._schedule.process(f"p{self._number}.{self._lives}")
        process.stopped_until = self._world.now + after
        if self.crash_steps:
            process.dies_at_step = self.crash_steps.pop()
        self.process = process
        self._runtime = SimRuntime(self._world, process)
        self._client = Client(self._schedule.server, process, "worker")
        self._schedule.clients[id(process)] = (process, self._client)
        self._stop = SimEvent(self._world, process)
        self._world.start(process, self._main, "main")

    # --- what befalls it -------------------------------------------------------------------------------------------

    def crash(self) -> None:
        self._count("crash")
        self._world.kill(self.process)

    def stop(self) -> None:
        """SIGSTOP, often for longer than the lease lasts."""
        self._count("stop")
        self._world.stop(self.process, self._rng.uniform(0.1, 3.0) * self._plan.ttl)

    def terminate(self) -> None:
        """SIGTERM: the batch in hand is finished."""
        self._count("terminate")
        self._world.say(self.process.name, "TERMINATED")
        self._stop.fire()

    def make_source(self) -> SimSource:
        """The table as this process reads it."""
        return AskedSource(self._schedule.table, self._schedule.trouble, self._world, self.process)

    # --- what it does ----------------------------------------------------------------------------------------------

    def _main(self) -> None:
        schedule, world, plan = self._schedule, self._world, self._plan
        process, client, runtime, stop = self.process, self._client, self._runtime, self._stop
        source, options = self.make_source(), schedule.options(self._number)
        order_by(source, options.ordering_key)
        runner = Runner(
            Context(
                "orders",
                app_name="sim",
                source=source,
                store=client,
                options=options,
                observers=(self._observe,),
                runtime=runtime,
            )
        )
        period = plan.period * plan.ttl
        while not stop.is_set():
            client.begin()
            source.begin_tick()
            try:
                outcome: str = runner.tick(self._handle, stop=stop).outcome
            except (StoreUnavailable, StoreDenied, SourceUnavailable) as error:
                outcome = type(error).__name__
            except StateCorrupt as error:
                outcome = "StateCorrupt"
                if not schedule.laws.meddled:
                    world.fail(f"{process.name} finds the document corrupt: {error}")
            world.say(process.name, "tick: %s", outcome)
            self._count(outcome)
            held_up = plan.stalls or plan.gil or plan.stops  # right before it, for longer than it is tried
            if client.unbelieved is not None and not held_up:
                world.fail(f"{process.name} leaves a release behind that nobody believes")
            if source.idle:
                schedule.laws.idle(client, client.writes - client.exceptions)
            if plan.aligned:
                world.wait(period - world.now % period)
            else:
                runtime.sleep(self._rng.uniform(0.8, 1.2) * period)
        world.kill(process)

    def _observe(self, event: PollerEvent) -> None:
        if self.process.dead:
            return
        self._count(event.name)
        self._schedule.laws.observe(self.process, event)

    def _handle(self, batch: Batch) -> None:
        """One of the many ways to handle a batch."""
        schedule, rng, ttl, plan = self._schedule, self._rng, self._plan.ttl, self._plan
        process, runtime, laws, world = self.process, self._runtime, self._schedule.laws, self._world
        tenure = batch._lease
        owner: str = getattr(tenure, "owner_id")  # noqa: B009 - the laws know tenures by their owner
        rows = [int(row["id"]) for row in batch]
        lane = f" in lane {batch.standing.lane}" if batch.standing.lanes > 1 else ""
        self._count("a lane's batch" if lane else "a batch alone")
        world.say(process.name, "handles rows %s%s, attempt %s", rows, lane, batch.attempt)
        laws.delivering(owner, batch, rows)
        polite = rng.random() < 0.5
        if not schedule.calm:
            chance = rng.random()
            if chance < plan.gil:
                self._count("gil")
                world.stop(process, rng.uniform(0.5, 3.0) * ttl)
            elif chance < plan.gil + plan.overstays:
                self._count("overstay")
                runtime.sleep(rng.uniform(1.0, 3.0) * ttl)
                polite = False
            elif chance < plan.gil + plan.overstays + plan.handler_fails:
                runtime.sleep(rng.random() * plan.work * ttl)
                laws.failed(owner, batch.batch_id, rows)
                raise HandlerError("simulated")
        for _ in rows:
            runtime.sleep(rng.random() * plan.work * ttl)
            if polite:
                batch.check()
        if process.dead:
            raise GreenletExit
        laws.succeeded(owner, rows)

    def _count(self, what: str) -> None:
        self._schedule.seen[what] += 1


class OperatorActor:
    """A person with something to do to the poller, who tries again until it is done.

    In the calm the `janitor` resumes whatever is paused or halted, and the `rescuer` puts back what somebody meddled
    with, as the errors ask for.
    """

    def __init__(self, schedule: Schedule, name: str) -> None:
        self._schedule = schedule
        self._world = schedule.world
        self._rng = schedule.rng
        self._ttl = schedule.plan.ttl
        self.name = name
        self.done = False
        self.status = "not begun"

    def begin(self) -> None:
        """Sit down at a console."""
        schedule = self._schedule
        self._process = schedule.process(self.name)
        self._runtime = SimRuntime(self._world, self._process)
        self._client = Client(schedule.server, self._process, "operator")
        self._timing = schedule.operators_timing()
        plays = {"janitor": self._clean, "rescuer": self._rescue}
        self._world.start(self._process, plays.get(self.name, self._work), "main")

    def _rescue(self) -> None:
        self._insist("rescue")
        self.done = True

    def _work(self) -> None:
        rng = self._rng
        kinds = ("pause", "break") if self._schedule.plan.endless else self._schedule.deeds
        kind = "break" if self._schedule.plan.breaks else rng.choice(kinds)
        if kind == "pause":
            self._insist("pause")
            self._runtime.sleep(rng.random() * 2 * self._ttl)
            self._insist("resume")
        else:
            self._insist(kind)
        self.done = True
        if not self._schedule.busy_operators():
            self._schedule.trouble.endless = False

    def _insist(self, kind: str) -> None:
        """Until it is done. Who finds the lease held waits, or breaks it."""
        schedule = self._schedule
        while True:
            self._client.begin()
            began_in_calm = schedule.calm
            began = self._world.now
            self.status = kind
            try:
                self._try(kind)
            except LeaseHeld:
                outcome = "held"
                if self._rng.random() < 0.3:
                    kind = "break"
            except WriteConflict:
                outcome = "kept out"
                if began_in_calm or schedule.plan.endless:
                    self._world.fail(f"{self.name} was kept out for {self._world.now - began:.1f} s")
            except StoreError as error:
                outcome = type(error).__name__
            else:
                self._count(f"operator {kind}")
                if schedule.trouble.endless:
                    self._judge_patience(self._world.now - began)
                self._world.say(self.name, "%s done", kind)
                return
            self._world.say(self.name, "%s: %s", kind, outcome)
            self._runtime.sleep(self._rng.random() * self._ttl)

    def _judge_patience(self, seconds: float) -> None:
        """Against a worker that never stops, a yield request gets an operator through (protocol 11). There is one
        request: each of several operators may have to wait for the turns of the others first."""
        one_turn = self._timing.heartbeat + YIELD_WITHIN + 1.0
        if seconds > one_turn * self._schedule.plan.operators:
            self._world.fail(f"{self.name} was kept out for {seconds:.1f} s by a worker that never stops")

    def _try(self, kind: str) -> None:
        operator = Operator(
            self._client,
            app_name="sim",
            poller_name="orders",
            runtime=self._runtime,
            timing=self._timing,
            by=self.name,
        )
        if kind == "pause":
            pause(operator)
        elif kind == "resume":
            resume(operator)
        elif kind == "rebind":
            operator.fenced("rebind", to_rebind(DESCRIPTION), break_lease=False)
        elif kind == "rescue":
            self._restore(operator)
        else:
            reset(operator, self._target(), break_lease=kind == "break")

    def _restore(self, operator: Operator) -> None:
        """`reset-to-checkpoint FILE --token-at-least N --break-lease`: the file is the newest version that anybody saw,
        and N is what the workers' errors name."""
        known = [document for document in self._schedule.laws.versions.values() if document]
        best = max(known, key=lambda d: (d["checkpoint"]["generation"], d["lease"]["fencing_token"]))
        token = max(document["lease"]["fencing_token"] for document in known) + 1
        now = self._runtime.utcnow()
        origin = read_origin(json.dumps(best).encode(), location="backup", app="sim", now=now)

        def restored(state: State, change: OperatorChange, now: datetime) -> State:
            return restore(state, origin, source=DESCRIPTION, token_at_least=token, change=change, now=now)

        try:
            gone = operator.file.read() is None
        except StateCorrupt:
            gone = True
        if not gone:
            operator.fenced("reset-to-checkpoint", restored, break_lease=True)
        else:
            start = begin("orders", DESCRIPTION, origin, now=now)
            Recovery(operator).apply("reset-to-checkpoint", start, restored)

    def _target(self) -> Cursor | None:
        """Backward or forward, to a row or to right before one."""
        cursors = self._schedule.table.cursors
        if not cursors or self._rng.random() < 0.2:
            return None
        chosen = self._rng.choice(cursors)
        return chosen if self._rng.random() < 0.7 else chosen.model_copy(update={"tiebreaker": None})

    def _clean(self) -> None:
        while True:
            self._runtime.sleep(self._ttl)
            document = self._schedule.laws.document
            if not document or self._schedule.busy_operators():
                continue
            if document["control"]["paused"] or document["control"]["halted"]:
                self._insist("resume")

    def _count(self, what: str) -> None:
        self._schedule.seen[what] += 1
