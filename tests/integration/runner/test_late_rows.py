"""Looking back for late rows and delivering them: within its patience, and yielding to whoever wants it to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poller import Batch
from poller.admin import Operator
from poller.errors import ConfigError, LeaseHeld, PollerError, StateCorrupt
from poller.model.cursor import Cursor
from poller.model.timing import Timing
from poller.observability import Rechecked, YieldedToOperator
from poller.ports import Page
from poller.tick import Recheck
from poller.tick.recheck import look_back
from tests.integration.runner.fakes import InspectableTable, World, cursor_of, row
from tests.integration.runner.wire import Wire, preceded
from tests.support.operators import pause

ROWS = 200


class Again(InspectableTable):
    """A table that can be read again; each time takes so long."""

    span_seconds = 0.0

    def __init__(self, world: World) -> None:
        super().__init__(world.runtime, world.table.rows)
        self.spans = 0

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        self.spans += 1
        self._runtime.sleep(self.span_seconds)
        return super().span(low, high, limit)


def looked_at(worlds: Callable[..., World], **options: Any) -> tuple[World, Again]:
    """A world in which all rows were delivered, before a delivery log was kept."""
    world = worlds(rows=ROWS)
    world.tick()
    world.options |= {"audit_window": "2h", **options}
    world.table = table = Again(world)
    world.worker = world.another()
    return world, table


def stretches(world: World, count: int) -> None:
    """What was delivered stands in so many stretches of one row each."""
    log = world.worker._runner.context.delivery_log
    for number in range(1, count + 1):
        low, high = cursor_of(row(2 * number - 1)), cursor_of(row(2 * number))
        log.add_now(world.runtime.utcnow(), low, [high], covers=True)


def test_a_source_that_cannot_be_read_again_is_refused_by_name(worlds: Callable[..., World]) -> None:
    world = worlds(rows=1, audit_window="2h").begun()
    with pytest.raises(ConfigError, match="source of orders cannot be read again"):
        look_back(world.worker._runner.context)


def test_a_recheck_of_many_intervals_ends_in_its_time(worlds: Callable[..., World]) -> None:
    world, table = looked_at(worlds)
    stretches(world, 50)
    table.span_seconds = 1.0
    began, before = world.runtime.monotonic(), table.spans
    found = look_back(world.worker._runner.context, patience=5.0)
    assert not found.complete
    assert world.runtime.monotonic() - began <= 7.0
    assert table.spans - before <= 7


def test_no_look_is_begun_where_the_tick_left_no_time(worlds: Callable[..., World]) -> None:
    world, table = looked_at(worlds, recheck_every=1, tick_timeout="30s", handler_timeout="30s")
    stretches(world, 5)
    world.table.rows.append(row(ROWS + 1))
    table.spans = 0
    world.events.clear()
    world.tick(world.busy(31))
    assert (table.spans, world.emitted(Rechecked)) == (0, [])


def late_rows(world: World, count: int) -> Recheck:
    """Rows 1 to `count`, as a look found them."""
    rows = [row(number) for number in range(1, count + 1)]
    return Recheck(rows=list(rows), cursors=[cursor_of(one) for one in rows])


def test_an_operator_gets_through_between_two_batches_of_late_rows(worlds: Callable[..., World]) -> None:
    """Batches that take milliseconds would win every race (protocol 11)."""
    world = worlds(rows=5, batch_size=1).begun()
    far = Wire(world.store)
    operator = Operator(
        far, app_name="shop", poller_name="orders", runtime=world.runtime, timing=Timing(60.0, 15.0), by="ada"
    )
    done: list[float] = []

    def paused() -> None:
        pause(operator)
        done.append(world.runtime.monotonic())

    def quick(batch: Batch) -> None:
        world.take(batch)
        world.runtime.sleep(0.02)

    far.write_faults.extend([preceded(lambda: world.runtime.sleep(0.1))] * 1000)
    world.runtime.start(paused)
    with pytest.raises(PollerError, match="was paused"):
        world.worker.redeliver(late_rows(world, 3000), quick)
    assert done != []
    assert len(world.emitted(YieldedToOperator)) == 1
    assert world.runtime.monotonic() < 30


def test_a_cancelled_redelivery_counts_nothing_and_gives_back(worlds: Callable[..., World]) -> None:
    world = worlds(rows=5).begun()
    found = late_rows(world, 20)

    def handle(batch: Batch) -> None:
        world.cancel()
        assert batch.lost.wait(21)

    with pytest.raises(PollerError, match="cancelled by ann: wrong, after 0 of 20 late rows") as stopped:
        world.worker.redeliver(found, handle)
    assert stopped.value.exit_code == 3
    assert (found.redelivered, world.state.lease.owner_id) == (0, None)


def test_no_late_batch_follows_one_that_outlasted_its_limit(worlds: Callable[..., World]) -> None:
    """Its heartbeat has ended: the next would run without."""
    world = worlds(rows=0, batch_size=1, handler_timeout="20s").begun()
    found = late_rows(world, 3)
    with pytest.raises(PollerError, match="handler_timeout") as failed:
        world.worker.redeliver(found, world.busy(30))
    assert (found.redelivered, world.delivered) == (1, [1])
    assert failed.value.exit_code == 1
    assert world.state.lease.owner_id is None


@pytest.mark.parametrize("raced", [False, True])
def test_the_error_names_who_holds_the_lease(worlds: Callable[..., World], raced: bool) -> None:
    world = worlds(rows=0).begun()
    if raced:
        world.wire.write_faults.append(preceded(world.take_over))
    else:
        world.take_over()
    with pytest.raises(LeaseHeld) as held:
        world.worker.redeliver(late_rows(world, 1), world.take)
    assert (held.value.owner_id, held.value.fencing_token) == ("other/1", 1)
    assert held.value.expires_in_seconds == pytest.approx(65, abs=1)


def test_a_redelivery_that_takes_over_an_expired_lease_is_recorded(worlds: Callable[..., World]) -> None:
    world = worlds(rows=0).begun()
    world.take_over()
    assert world.worker._runner.context.file.read() is not None
    world.runtime.sleep(66)
    world.worker.redeliver(late_rows(world, 1), world.take)
    _, takeover, recheck = world.audit()
    assert (takeover["kind"], takeover["before"]["owner_id"]) == ("takeover", "other/1")
    assert takeover["after"]["owner_id"] == takeover["by"] == recheck["by"]


def test_late_rows_of_a_deleted_document_wait_until_it_is_restored(worlds: Callable[..., World]) -> None:
    world = worlds(rows=0).begun()
    world.store.append("audit/shop/orders.jsonl", "{}")
    world.delete()
    with pytest.raises(StateCorrupt, match="reset-to-checkpoint orders"):
        world.worker.redeliver(late_rows(world, 1), world.take)
    assert world.delivered == []


# --- what others wrote beside the document


@pytest.mark.parametrize(
    "body",
    [
        b'{"id": "1", "at": "2026-05-01T00:00:00"}',
        b'{"id": "1", "at": "0001-01-01T00:00:00+23:59"}',
        b'{"id": "1", "at": 5}',
        b'["1"]',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
    ids=["no-zone", "long-ago", "no-text", "no-object", "no-json", "deep"],
)
def test_an_invalid_yield_request_stops_no_batch(worlds: Callable[..., World], body: bytes) -> None:
    world = worlds(rows=30)
    world.put(body, "control/shop/orders.json")
    assert world.tick(world.busy(20)).rows == 30
    assert world.emitted(YieldedToOperator) == []


@pytest.mark.parametrize("hashes", ["5", "null", '["a"]', '"a"'])
def test_a_foreign_line_of_a_delivery_log_is_passed_over(worlds: Callable[..., World], hashes: str) -> None:
    world, _ = looked_at(worlds)
    stretches(world, 5)
    (name,) = world.store.names(world.worker._runner.context.delivery_log.prefix)
    world.store.append(name, f'{{"at": "2026-05-01T00:00:00.000000Z", "hashes": {hashes}}}')
    world.store.append(name, '{"at": ' + "[" * 100_000)
    assert world.worker.recheck().compared == 5
