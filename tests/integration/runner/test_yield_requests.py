"""A worker heeds a yield request however short its tenures are; a write that was not sent is not called unsure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from poller.errors import StoreUnavailable
from poller.model.stamps import stamp
from poller.observability import YieldedToOperator
from tests.integration.runner.fakes import World, Worlds
from tests.integration.runner.wire import STATE, fine

YIELD_REQUEST = "control/shop/orders.json"


def leave_request(world: World, identity: str) -> None:
    world.put(json.dumps({"id": identity, "at": stamp(world.runtime.utcnow())}).encode(), YIELD_REQUEST)


def test_tenures_shorter_than_a_heartbeat_yield_too(worlds: Worlds) -> None:
    """One look per heartbeat interval, however many tenures there are in it."""
    world = worlds(rows=100, batch_size=1, max_batches_per_tick=1)
    for second in range(60):
        if second == 20:
            leave_request(world, "one")
        if second == 50:
            leave_request(world, "two")
        assert world.tick(world.busy(1.0)).outcome == "delivered"
    assert len(world.emitted(YieldedToOperator)) == 2, "once for each request"
    looks = [name for what, name in world.wire.others if what == "read" and name == YIELD_REQUEST]
    assert len(looks) == 4, "every 15 s of about 64"


def test_a_worker_that_yielded_once_delivers_on(worlds: Worlds) -> None:
    world = worlds(rows=3, batch_size=1, max_batches_per_tick=1)
    world.tick()
    leave_request(world, "one")
    world.runtime.sleep(15)
    began = world.runtime.monotonic()
    assert [world.tick().outcome for _ in range(2)] == ["delivered"] * 2
    assert world.runtime.monotonic() - began == 2.0, "it yielded for 2 s, and once"


def refused(do: Callable[[], Any]) -> Any:
    """Nothing listens: the connection is refused."""
    raise StoreUnavailable("Connection refused.", document=STATE, sent=False)


def test_a_commit_that_was_never_sent_is_not_called_unsure(worlds: Worlds) -> None:
    """Every attempt met a refused connection until the lease was over."""
    world = worlds(rows=1).begun()
    world.wire.write_faults.extend([fine, *[refused] * 200])
    result = world.tick()
    assert result.outcome == "commit_unknown"
    assert "was not sent" in (result.error or "")
    assert "not resolved" not in (result.error or "")
    assert world.state.checkpoint.cursor is None
