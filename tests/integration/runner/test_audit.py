"""The audit trail: written beside the work, best effort, never in its way (protocol 11)."""

from __future__ import annotations

from poller.observability import (
    AuditFailed,
)
from tests.integration.runner.fakes import Worlds, row
from tests.integration.runner.wire import lost_before, preceded

TTL, MARGIN = 60.0, 5.0


def test_a_slow_audit_trail_is_waited_for_a_little_and_no_longer(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.take_over()
    world.runtime.sleep(TTL + MARGIN)
    began = world.runtime.monotonic()
    world.wire.append_faults.append(preceded(lambda: world.runtime.sleep(0.5)))
    assert world.tick().outcome == "delivered"
    assert [entry["kind"] for entry in world.worker.context.audit.entries()] == ["takeover"]
    world.table.rows += [row(6)]
    world.take_over()
    world.runtime.sleep(TTL + MARGIN)
    began = world.runtime.monotonic()
    world.wire.append_faults.append(preceded(lambda: world.runtime.sleep(1000)))
    assert world.tick().outcome == "delivered"
    assert world.runtime.monotonic() - began <= 5


def test_an_unwritable_audit_trail_is_reported_and_stops_nothing(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.take_over()
    world.runtime.sleep(TTL + MARGIN)
    world.wire.append_faults.append(lost_before)
    assert world.tick().outcome == "delivered"
    (told,) = world.told(AuditFailed)
    assert "No answer" in told.error
