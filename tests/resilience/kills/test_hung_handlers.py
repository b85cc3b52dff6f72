"""A handler that hangs on its thread: it is named, outlived by another process, and refused when it comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.resilience.kills.fleet import Fleet
from tests.support.services import wait_until

OPTIONS = 'lease_ttl = "3s"\nheartbeat_interval = "750ms"\nbatch_size = 10\nhandler_timeout = "3s"'


def _status(fleet: Fleet) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "poller_cli.main", "status", "--json"],
        cwd=fleet.folder,
        env=fleet.environ(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    status: dict[str, Any] = json.loads(done.stdout)["pollers"][0]
    return status


@pytest.mark.soak
def test_a_hung_handler_is_named_in_status_and_others_go_on(fleets: Callable[..., Fleet]) -> None:
    fleet = fleets(options=OPTIONS)
    fleet.insert(1, 30)
    fleet.hold("first")
    first = fleet.start(name="first")
    timed_out = first.await_event("handler_timed_out")
    hung = _status(fleet)
    assert hung["last_error"]["type"] == "HandlerTimeout"
    assert hung["last_error"]["batch_id"] == timed_out["batch_id"]
    second = fleet.start(name="second")
    second.await_event("lease_taken_over")
    wait_until(lambda: len(fleet.handled()) == 30, "the second process delivers everything")
    assert not (fleet.folder / "outside-first").exists(), "and the first still hangs"
    fleet.let_go("first")
    assert first.await_event("stale_commit_refused")["batch_id"] == timed_out["batch_id"]
    second.await_event("tick", where=lambda event: event["outcome"] == "idle")
    assert _status(fleet)["last_error"] is None
    assert fleet.stop() == [0, 0]
    assert not first.emitted("batch_committed") or min(e["fencing_token"] for e in first.emitted("batch_committed")) > 1
