"""People who do something about rows that fail, with the operator's functions: cancel, discard, add, replay."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from poller import Handler
from poller.admin import ChangeOptions, WaitingRows
from poller.admin.pausing import cancel
from poller.config import PollerOptions
from poller.errors import LeaseHeld, PollerError, StoreError, WriteConflict
from poller.model import aside
from poller.tick import Replay
from poller.tick.context import Context
from poller.tick.ordering import order_by
from poller.tick.runner import Runner
from tests.resilience.failures.actors import FailingWorker
from tests.resilience.failures.table import ConsoleSource
from tests.resilience.simulation.actors import OperatorActor
from tests.resilience.simulation.runtime import SimRuntime
from tests.resilience.simulation.store import Client
from tests.resilience.simulation.world import Process

if TYPE_CHECKING:
    from tests.resilience.failures.schedule import FailureSchedule

Deed: TypeAlias = Literal["cancel", "discard", "add", "replay"]
DEEDS: tuple[Deed, ...] = get_args(Deed)
LOOKS = 10
"""How often a person looks for a row to do something about."""


@dataclass
class Console:
    """The poller as the operator's functions see it; `hands`: the store as a replay sees it, which takes the lease."""

    source: ConsoleSource
    store: Client
    hands: Client
    options: PollerOptions
    runtime: SimRuntime
    name: str = "orders"
    app_name: str = "sim"

    def alone(self) -> nullcontext[None]:
        return nullcontext()

    def replay(self, wanted: Replay, handler: Handler | None = None, *, by: str, reason: str | None = None) -> None:
        assert handler is not None
        self.hands.begin()
        context = Context(
            self.name,
            app_name=self.app_name,
            source=self.source,
            store=self.hands,
            options=self.options,
            observers=(),
            runtime=self.runtime,
        )
        Runner(context).replay(wanted, handler, by=by, reason=reason)


class Replayer(FailingWorker):
    """The handler in the process of a person."""

    def take(self, process: Process, runtime: SimRuntime) -> Handler:
        self.process, self._runtime = process, runtime
        return self._handle


class Person(OperatorActor):
    """A person with one deed in mind, who looks for a row to do it to."""

    def __init__(self, schedule: FailureSchedule, name: str) -> None:
        super().__init__(schedule, name)
        self._stage = schedule

    @property
    def dead(self) -> bool:
        """True if a row that was replayed ended its process."""
        return hasattr(self, "_process") and self._process.dead

    def _work(self) -> None:
        deed = self._rng.choice(DEEDS)
        self._insist(deed)
        if deed == "cancel":
            self._runtime.sleep(self._rng.random() * 20)
            self._insist("resume")
        self.done = True

    def _try(self, kind: str) -> None:
        deed = next((deed for deed in DEEDS if deed == kind), None)
        if deed is None:
            super()._try(kind)
            return
        console = self._console()
        for _ in range(LOOKS):
            try:
                if self._does(deed, console):
                    self._count(f"person {deed}")
                    return
            except (LeaseHeld, WriteConflict, StoreError):
                raise
            except PollerError as error:
                self._count(f"person {deed} refused")
                self._world.say(self.name, "%s: %s", deed, error)
            self._runtime.sleep(self._rng.random() * self._ttl)

    def _console(self) -> Console:
        stage, process = self._stage, self._process
        source = ConsoleSource(stage.changing, stage.trouble, self._world, process, lambda *_: None)
        hands = Client(stage.server, process, "worker")
        stage.clients[id(process)] = (process, hands)
        options = stage.options(0)
        order_by(source, options.ordering_key)
        return Console(source, self._client, hands, options, self._runtime)

    def _does(self, deed: Deed, console: Console) -> bool:
        """Whether there was anything to do."""
        state, rng, waiting = self._stage.failure_laws.truth.state, self._rng, WaitingRows(console)
        if deed == "cancel":
            return state.lease.owner_id is not None and cancel(console, ChangeOptions(by=self.name)).changed
        if deed == "add":
            ahead = self._stage.changing.versions.page(state.checkpoint.cursor, 3)
            return bool(ahead) and waiting.add({"id": rng.choice(ahead).pk}, by=self.name).changed
        stale = [row.id for row in (*state.quarantine, *state.aside) if row.generation < state.checkpoint.generation]
        heads = [*(row.id for row in aside.heads(state).values()), *stale]  # the oldest of each key, and older ones
        if not heads:
            return False
        if deed == "discard":
            return waiting.discard(rng.choice(heads), by=self.name).changed
        handler = Replayer(self._stage, 0).take(self._process, self._runtime)
        return waiting.replay(rng.choice(heads), handler=handler, by=self.name).replayed > 0
