"""Events: one name each, JSON, one log line; and the real runtime that stamps them."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime, timedelta

import pytest

from poller import observability, runtime
from poller.observability import BatchCommitted, HandlerFailed, LeaseAcquired, PollerEvent, TenureEvent, log_events
from poller.runtime import SystemRuntime
from tests.integration.runner.fakes import Worlds, raising

AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def kinds() -> list[type[PollerEvent]]:
    """Every concrete kind of event."""
    found = [one for one in vars(observability).values() if isinstance(one, type) and issubclass(one, PollerEvent)]
    return [one for one in found if one not in (PollerEvent, TenureEvent)]


def test_every_kind_of_event_has_a_readable_name_of_its_own() -> None:
    names = [kind.name for kind in kinds()]
    assert len(names) > 15
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)


def test_every_event_of_a_busy_hour_is_flat_json(worlds: Worlds) -> None:
    world = worlds(rows=25)
    world.tick(world.busy(20))
    world.tick(raising(ValueError("no")))
    world.table.rows.append({"id": 99, "updated_at": "2026-04-02T00:00:00.000000Z"})
    world.tick(raising(ValueError("no")))
    assert len({event.name for event in world.events}) > 6
    for event in world.events:
        data = json.loads(json.dumps(event.as_json()))
        assert next(iter(data)) == "event"
        assert data["event"] == event.name
        assert data["poller"] == "orders"
        assert data["at"].endswith("Z")
        assert all(not isinstance(value, dict | list) for key, value in data.items() if key != "bound")


def test_a_log_line_says_poller_event_and_what_is_known(caplog: pytest.LogCaptureFixture) -> None:
    event = BatchCommitted(
        poller="orders", at=AT, owner_id="shop/host/1", fencing_token=7, batch_id="b1", rows=5, cursor="c",
        handler_seconds=0.5,
    )  # fmt: skip
    with caplog.at_level(logging.DEBUG, logger="poller.orders"):
        log_events(event)
    (record,) = caplog.records
    assert record.name == "poller.orders"
    assert record.getMessage() == (
        "orders: batch_committed fencing_token=7 batch_id=b1 rows=5 cursor=c handler_seconds=0.5"
    )
    assert record.__dict__["poller_event"]["owner_id"] == "shop/host/1"


def test_failures_are_logged_as_errors_and_routine_as_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="poller.orders"):
        log_events(LeaseAcquired(poller="orders", at=AT, owner_id="o", fencing_token=1))
        log_events(
            HandlerFailed(poller="orders", at=AT, owner_id="o", fencing_token=1, batch_id="b", attempt=1, error="E")
        )
    assert [record.levelno for record in caplog.records] == [logging.DEBUG, logging.ERROR]


# --- the real runtime


class Clocks:
    """CLOCK_MONOTONIC and CLOCK_BOOTTIME, set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running = 100.0
        self.since_boot = 5000.0
        monkeypatch.setattr(SystemRuntime, "_read", staticmethod(lambda: (self.running, self.since_boot)))


def test_it_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    runtime = SystemRuntime()
    clocks.running += 10
    assert runtime.monotonic() == 10
    clocks.running -= 5
    clocks.since_boot -= 5
    assert runtime.monotonic() == 10


def test_where_there_is_no_boot_clock_the_other_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_BOOT", None)
    running, since_boot = SystemRuntime._read()
    assert running == since_boot


def test_chance_and_clock_are_as_promised() -> None:
    runtime = SystemRuntime()
    ids = {runtime.new_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"[0-9a-f]{32}", one) for one in ids)
    assert all(0.2 <= runtime.jitter(0.2, 2.0) <= 2.0 for _ in range(100))
    assert runtime.utcnow().utcoffset() == timedelta(0)
