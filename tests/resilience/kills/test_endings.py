"""`poller run` that is asked to end: once in order, twice at once; and replicas that are replaced one by one."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from poller.ports import Found
from poller.stores import BlobStore
from tests.resilience.faults.bench import NAME
from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.kills.fleet import Fleet, Worker
from tests.support.services import wait_until

# So long that whoever would wait for it to run out fails the test.
OPTIONS = 'lease_ttl = "300s"\nheartbeat_interval = "60s"\nbatch_size = 10'


def _state(proxy: FaultProxy, container: str) -> dict[str, Any]:
    found = BlobStore.from_connection_string(proxy.connection_string, container).read(NAME)
    assert isinstance(found, Found)
    state: dict[str, Any] = json.loads(found.body)
    return state


def _stopping(worker: Worker) -> None:
    wait_until(lambda: "stopping after the batch in hand" in worker.log.read_text(), "it has heard the signal")


def _insist(worker: Worker) -> None:
    """Signal until it ends: what comes right after the first signal is taken for one with it."""

    def ended() -> bool:
        worker.signal(signal.SIGTERM)
        return worker.process.poll() is not None

    wait_until(ended, "it leaves at once")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)])
def test_one_signal_commits_the_batch_and_releases_by_one_write(
    fleets: Callable[..., Fleet], proxy: FaultProxy, container: str, number: signal.Signals
) -> None:
    fleet = fleets(connection=proxy.connection_string, options=OPTIONS)
    fleet.insert(1, 30)
    fleet.hold("first")
    first = fleet.start(name="first")
    fleet.await_inside("first")
    before = proxy.count("PUT", NAME)
    first.signal(number)
    _stopping(first)
    assert proxy.count("PUT", NAME) == before, "nothing is released while it works"
    fleet.let_go("first")
    assert first.end() == 0
    assert proxy.count("PUT", NAME) - before == 1
    state = _state(proxy, container)
    assert state["checkpoint"]["cursor"]["tiebreaker"] == {"id": 10}
    assert state["lease"]["owner_id"] is None
    assert state["delivery"]["attempts"] == 0
    assert fleet.handled() == list(range(1, 11)), "no other batch was begun"


def test_a_second_signal_abandons_the_batch_and_releases_nothing(
    fleets: Callable[..., Fleet], proxy: FaultProxy, container: str
) -> None:
    fleet = fleets(connection=proxy.connection_string, options=OPTIONS)
    fleet.insert(1, 30)
    fleet.hold("first")
    first = fleet.start(name="first")
    fleet.await_inside("first")
    before = proxy.count("PUT", NAME)
    first.signal(signal.SIGTERM)
    _stopping(first)
    _insist(first)
    assert first.end() == 1
    assert "abandoned" in first.log.read_text()
    assert proxy.count("PUT", NAME) == before
    state = _state(proxy, container)
    assert state["checkpoint"]["cursor"] is None
    assert state["lease"]["fencing_token"] == 1
    assert state["lease"]["owner_id"] is not None


def test_rolling_restarts_hand_over_at_the_next_scheduled_tick(fleets: Callable[..., Fleet]) -> None:
    """A backlog that lasts until all have started, and whoever works on it is replaced, twice: under a lease of five
    minutes nobody waits for it."""
    fleet = fleets(options=OPTIONS, pace=1.0)
    fleet.insert(1, 600)
    leaves = fleet.start(name="first")
    leaves.await_event("batch_committed")
    waiting = [fleet.start(name="second"), fleet.start(name="third")]
    for worker in waiting:
        worker.await_event("tick", where=lambda event: event["outcome"] == "held_elsewhere")
    while waiting:
        leaves.signal(signal.SIGTERM)
        assert leaves.end() == 0
        released = leaves.emitted("lease_released")[-1]
        wait_until(lambda: any(worker.tenure for worker in waiting), "somebody goes on")
        [follows] = [worker for worker in waiting if worker.tenure]
        [acquired] = follows.emitted("lease_acquired")
        assert acquired["fencing_token"] == released["fencing_token"] + 1
        assert not follows.emitted("lease_taken_over")
        # A tick that began before the release may still have found it held; the one after finds it free.
        refused = [
            event for event in follows.emitted("tick") if _after(event, released) and not _after(event, acquired)
        ]
        assert [event["outcome"] for event in refused] in ([], ["held_elsewhere"])
        waiting.remove(follows)
        leaves = follows
        leaves.await_event("batch_committed")  # stopped before its first batch, it would have nothing to hand over
    (fleet.folder / "fast").touch()
    wait_until(lambda: len(fleet.handled()) == 600, "every row is handled")
    assert fleet.stop() == [0]
    assert fleet.repeated() == [], "a handover repeats nothing"
    assert fleet.tokens() == [1, 2, 3]


def _after(event: dict[str, Any], released: dict[str, Any]) -> bool:
    return datetime.fromisoformat(event["at"]) > datetime.fromisoformat(released["at"])
