"""Two `poller run` of different configurations under one `app_name` notice each other."""

from __future__ import annotations

from poller import Poller
from poller.config import AppConfig
from poller.journal import Configurations
from poller.observability import PollerEvent
from poller.stores import MemoryStore
from poller.worker import Replicas, run
from tests.integration.runner.fakes import Table
from tests.integration.worker.clock import Clock
from tests.support.configurations import BOTH, ORDERS


def heard(*configs: AppConfig, minutes: float) -> list[PollerEvent]:
    """What processes of these configurations, each with one poller, say of each other in so long."""
    clock, events = Clock(), list[PollerEvent]()
    store, stop = MemoryStore(clock), clock.event()

    def process(of: AppConfig) -> None:
        poller = Poller(
            "orders", app_name="shop", source=Table(clock, []), store=store, runtime=clock, observers=[],
            schedule="0 * * * * *",
        )  # fmt: skip
        beside = Configurations(store, of, clock)
        replicas = Replicas(store, "shop", runtime=clock, configurations=beside, observers=[events.append])
        run([poller], "forever", stop, handler=lambda _: None, replicas=replicas)

    tasks = [clock.start(lambda of=of: process(of)) for of in configs]  # type: ignore[misc]
    clock.sleep(60 * minutes)
    stop.set()
    for task in tasks:
        task.join()
    return events


def test_workers_of_two_configurations_warn() -> None:
    assert [event.name for event in heard(ORDERS, BOTH, minutes=30)] == ["two_apps"] * 2


def test_workers_of_one_configuration_are_quiet() -> None:
    assert heard(ORDERS, ORDERS, minutes=60) == []
