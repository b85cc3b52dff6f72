"""A worker that stands still past its lease, and wakes: by SIGSTOP, or in a C call that keeps the interpreter's lock.

Neither its handler nor its heartbeat runs meanwhile, so nothing in it can notice in time. What it does when it wakes
must come to nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from tests.resilience.kills.fleet import Fleet, Worker
from tests.support.services import wait_until

OPTIONS = 'lease_ttl = "3s"\nheartbeat_interval = "750ms"\nbatch_size = 10'


def _outlived(fleet: Fleet, rows: int) -> tuple[Worker, Worker]:
    """The first stands still in its first batch until the second has taken over and delivered everything."""
    second = fleet.start(name="second")
    taken = second.await_event("lease_taken_over")
    assert (taken["previous_fencing_token"], taken["fencing_token"]) == (1, 2)
    wait_until(lambda: len(fleet.handled()) == rows, "the second worker delivers all rows")
    second.await_event("tick", where=lambda event: bool(event["rows"] == rows))
    return fleet.workers[0], second


def _moment(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["at"])


def _came_to_nothing(fleet: Fleet, first: Worker, rows: int) -> None:
    """The woken one said so, committed nothing under its old token, and goes on as an ordinary replica."""
    refused = first.await_event("stale_commit_refused")
    assert refused["fencing_token"] == 1
    assert first.await_event("tick", where=lambda event: event["outcome"] == "lease_lost")["rows"] == 0
    assert not first.emitted("batch_committed")
    fleet.insert(rows + 1, rows + 10)
    wait_until(lambda: len(fleet.handled()) == rows + 10, "the rows that came later")
    assert fleet.stop() == [0, 0]
    assert {token for _, token, _ in fleet.repeated()} <= {1}, "only the batch that was in its hand came twice"
    assert not fleet.interleaved()
    committed = [event["fencing_token"] for worker in fleet.workers for event in worker.emitted("batch_committed")]
    assert min(committed) == 2


@pytest.mark.soak  # `tests.resilience.race` stops a process in the ordinary suite
def test_a_worker_stopped_past_its_lease_commits_nothing(fleets: Callable[..., Fleet]) -> None:
    fleet = fleets(options=OPTIONS)
    fleet.insert(1, 30)
    fleet.hold("first")
    first = fleet.start(name="first")
    fleet.await_inside("first")
    first.signal(signal.SIGSTOP)
    _outlived(fleet, 30)
    fleet.let_go("first")
    first.signal(signal.SIGCONT)
    _came_to_nothing(fleet, first, 30)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a FIFO to block a C call on")
def test_a_worker_stuck_in_c_past_its_lease_commits_nothing(
    fleets: Callable[..., Fleet],
) -> None:
    fleet = fleets(options=OPTIONS)
    fleet.insert(1, 30)
    os.mkfifo(fleet.folder / "fifo")
    fleet.hold("first", "gil")
    first = fleet.start(name="first")
    fleet.await_inside("first")
    _, second = _outlived(fleet, 30)
    [taken] = second.emitted("lease_taken_over")
    assert all(_moment(beat) < _moment(taken) for beat in first.emitted("lease_renewed")), (
        "its heartbeat stood still too"
    )
    fleet.let_go("first")
    with (fleet.folder / "fifo").open("wb"):
        pass
    _came_to_nothing(fleet, first, 30)
