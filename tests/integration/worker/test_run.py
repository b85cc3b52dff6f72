"""`poller.worker.run`: what it does with pollers, and how it says that they ended. Time passes only while it waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from poller import Batch, ConfigError, FingerprintMismatch, Poller, SourceUnavailable
from poller.model.cursor import Cursor
from poller.model.fingerprint import DatabaseIdentity
from poller.ports import Bound, Page
from poller.runtime import SystemRuntime
from poller.worker import Ended, run
from tests.integration.runner.fakes import Table
from tests.integration.worker.shop import Shop
from tests.support.documents import SOURCE

AWAY = SourceUnavailable("The database is away.")


def table(poller: Poller) -> Table:
    assert isinstance(poller.source, Table)
    return poller.source


def changed(poller: Poller) -> Poller:
    """Its checkpoint belongs to another source from here on."""
    poller.tick(lambda batch: None)
    table(poller).description = SOURCE.model_copy(
        update={"database": DatabaseIdentity(dialect="sqlite", database="/data/other.db")}
    )
    return poller


def test_each_says_how_it_ended_in_the_order_given() -> None:
    shop = Shop()
    orders, invoices = shop.poller("orders"), shop.poller("invoices", 0)
    ends = run([invoices, orders, invoices], "once", handler=shop.take)
    assert [(end.poller, end.outcome, end.error) for end in ends] == [
        (invoices, "idle", None),
        (orders, "delivered", None),
    ]
    assert all(end.ok for end in ends)
    assert shop.seen == [("orders", 1), ("orders", 2), ("orders", 3)]


def test_pollers_run_at_once() -> None:
    """Each handler waits for the other's: one after the other they would break the barrier."""
    shop, both = Shop(SystemRuntime()), threading.Barrier(2)
    ends = run([shop.poller("orders", 1), shop.poller("invoices", 1)], "once", handler=lambda _: wait_at(both))
    assert [end.outcome for end in ends] == ["delivered", "delivered"]


def wait_at(barrier: threading.Barrier) -> None:
    barrier.wait(20)


def test_until_idle_goes_on_where_a_tick_ends_early() -> None:
    shop = Shop()
    (end,) = run([shop.poller(rows=7, max_batches_per_tick=1)], "until_idle", handler=shop.take)
    assert (end.outcome, end.ok) == ("idle", True)
    assert [number for _, number in shop.seen] == [1, 2, 3, 4, 5, 6, 7]


def test_until_idle_waits_for_rows_of_this_second(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop()
    poller = shop.poller()
    orders = table(poller)
    page = orders.page

    def page_of_this_second(after: Cursor | None, limit: int, **_: Any) -> Page:
        orders.below = Bound("exact", None if shop.clock.monotonic() < 0.9 else "2026-04-02")
        return page(after, limit)

    monkeypatch.setattr(orders, "page", page_of_this_second)

    (end,) = run([poller], "until_idle", handler=shop.take)

    assert (end.outcome, end.ok) == ("idle", True)
    assert [number for _, number in shop.seen] == [1, 2, 3]


@pytest.mark.parametrize(
    ("bound", "seconds"),
    [(Bound("exact"), 3.0), (Bound("exact", held_by="pid 7"), 0.0), (Bound("heuristic"), 0.0)],
    ids=["young", "held", "heuristic"],
)
def test_until_idle_does_not_wait_for_ever_for_young_rows(bound: Bound, seconds: float) -> None:
    shop = Shop()
    poller = shop.poller()
    table(poller).below = bound
    began = shop.clock.monotonic()

    (end,) = run([poller], "until_idle", handler=shop.take)

    assert (end.outcome, shop.seen) == ("idle", [])
    assert seconds <= shop.clock.monotonic() - began < seconds + 1


def test_until_idle_that_is_stopped_is_not_done() -> None:
    shop = Shop()

    def take(batch: Batch) -> None:
        shop.take(batch)
        shop.clock.stop.set()

    (end,) = run([shop.poller()], "until_idle", shop.clock.stop, handler=take)
    assert (end.outcome, end.error, end.exception) == (None, "stopped before nothing was left", None)
    assert [number for _, number in shop.seen] == [1, 2], "the batch in hand is finished, and no other begun"


def test_until_idle_stopped_while_it_reads_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop()
    orders = shop.poller()
    read = table(orders).page

    def page(after: Cursor | None, limit: int, **_: Any) -> Page:
        shop.clock.stop.set()
        return read(after, limit)

    monkeypatch.setattr(orders.source, "page", page)
    (end,) = run([orders], "until_idle", shop.clock.stop, handler=shop.take)
    assert (end.error, shop.seen) == ("stopped before nothing was left", [])


def test_a_failing_handler_ends_its_poller_and_no_other() -> None:
    shop = Shop()

    def take(batch: Batch) -> None:
        if batch.poller_name == "orders":
            raise ValueError("no")
        shop.take(batch)

    orders, invoices = run([shop.poller("orders"), shop.poller("invoices")], "once", handler=take)
    assert (orders.outcome, orders.ok) == ("handler_failed", False)
    assert orders.error is not None
    assert orders.error.startswith("handler failed: ")
    assert invoices.ok
    assert len(shop.seen) == 3


def test_until_idle_makes_a_call_that_failed_again() -> None:
    shop, failures = Shop(), [ValueError("no"), ValueError("no")]

    def take(batch: Batch) -> None:
        if failures:
            raise failures.pop()
        shop.take(batch)

    (end,) = run([shop.poller()], "until_idle", shop.clock.stop, handler=take)
    assert (end.outcome, end.ok) == ("idle", True)
    assert [number for _, number in shop.seen] == [1, 2, 3]


def test_an_error_of_the_source_is_how_it_ended() -> None:
    shop = Shop()
    orders = shop.poller()
    table(orders).faults.append(AWAY)
    (end,) = run([orders], "once", handler=shop.take)
    assert (end.outcome, end.error, end.exception, end.trace) == (None, str(AWAY), AWAY, None)


def test_a_missing_handler_is_an_event_before_anything_is_read() -> None:
    shop = Shop()
    orders = shop.poller()
    (end,) = run([orders], "forever")
    assert isinstance(end.exception, ConfigError)
    (failed,) = shop.emitted("tick_failed")
    assert (failed["error_type"], failed["error"]) == ("ConfigError", end.error)
    assert table(orders).pages == []


def test_an_unforeseen_error_ends_it_with_its_traceback() -> None:
    shop = Shop()
    orders = shop.poller()
    table(orders).faults.append(RuntimeError("password=hunter2"))
    (end,) = run([orders], "once", handler=shop.take)
    assert isinstance(end.exception, RuntimeError)
    assert end.trace is not None
    assert "in page" in end.trace
    assert "hunter2" not in end.trace


def test_an_error_without_words_ends_its_loop_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    shop = Shop()
    orders = shop.poller()
    table(orders).faults.append(Mute())
    (end,) = run([orders], "once", handler=shop.take)
    assert end.error == "Mute: "


def forever_after(faults: list[Exception]) -> tuple[Shop, Ended[Poller]]:
    """A poller that runs for ever, and fails so until it delivers."""
    shop = Shop()
    orders = shop.poller(rows=1)
    table(orders).faults.extend(faults)

    def take(batch: Batch) -> None:
        shop.take(batch)
        shop.clock.stop.set()

    (end,) = run([orders], "forever", shop.clock.stop, handler=take)
    return shop, end


def test_for_ever_outlives_a_database_that_is_away() -> None:
    shop, end = forever_after([AWAY] * 3)
    assert (end.ok, shop.seen) == (True, [("orders", 1)])
    assert [failed["error"] for failed in shop.emitted("tick_failed")] == [str(AWAY)] * 3
    assert shop.clock.passed == 1 + 2 + 4 + 8, "one second's schedule, and a pause that doubles"


@pytest.mark.guarantee(
    "Delivery",
    "A poller that runs for ever outlives an outage of any length, and one poller's failure ends no other",
)
def test_a_database_may_be_away_for_days() -> None:
    shop, end = forever_after([AWAY] * 1100)
    assert end.error is None
    assert shop.seen == [("orders", 1)]
    assert shop.clock.passed > 3 * 24 * 3600


def test_after_a_tick_that_went_well_the_pause_begins_anew() -> None:
    shop = Shop()
    orders = shop.poller(rows=0)
    table(orders).faults.extend([AWAY, AWAY, None, AWAY])
    shop.enough = 3
    run([orders], "forever", shop.clock.stop, handler=shop.take)
    assert shop.clock.passed == 1 + 2 + 4 + 1


def test_for_ever_ends_where_no_later_tick_can_help() -> None:
    shop = Shop()

    def generator(batch: Batch) -> Iterator[None]:
        yield

    (end,) = run([shop.poller()], "forever", shop.clock.stop, handler=generator)
    assert isinstance(end.exception, ConfigError)


def test_for_ever_outlives_what_nobody_foresaw() -> None:
    shop, end = forever_after([RuntimeError("never seen before")])
    assert (end.ok, end.exception, shop.seen) == (True, None, [("orders", 1)])
    (failed,) = shop.emitted("tick_failed")
    assert failed["error"] == "RuntimeError: never seen before"
    assert end.trace is not None
    assert "never seen before" in end.trace


def test_where_no_poller_can_go_on_they_end() -> None:
    shop = Shop()
    twins = [changed(shop.poller(app_name=app)) for app in ("here", "there")]
    ends = run(twins, "forever", shop.clock.stop, handler=shop.take)
    assert [type(end.exception).__name__ for end in ends] == ["FingerprintMismatch"] * 2


def test_one_of_another_source_waits_while_its_namesake_works() -> None:
    """Two applications may have a poller of one name."""
    shop = Shop()
    works, waits = shop.poller(app_name="here", rows=0), changed(shop.poller(app_name="there"))
    shop.enough = 3
    fine, ended = run(
        [works, waits], "forever", shop.clock.stop, handler=shop.take, ended=lambda _: shop.clock.stop.set()
    )
    assert fine.ok
    assert isinstance(ended.exception, FingerprintMismatch)
    assert len(shop.emitted("tick_failed")) == 3


def test_whoever_is_interrupted_leaves_nothing_running() -> None:
    shop = Shop()

    def interrupted(end: Ended[Poller]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([shop.poller()], "once", shop.clock.stop, handler=shop.take, ended=interrupted)
    assert shop.clock.stop.is_set()


def test_before_is_called_on_the_thread_of_its_poller() -> None:
    shop, order = Shop(), list[str]()

    def take(_: Batch) -> None:
        order.append(f"handler on {threading.current_thread().name}")

    def before(poller: Poller) -> None:
        order.append(f"before on {threading.current_thread().name}")

    run([shop.poller(rows=1)], "once", handler=take, before=before)
    assert order == ["before on poller-orders", "handler on poller-orders"]


def test_a_mode_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="once, until_idle, forever"):
        run([], "for ever")  # type: ignore[arg-type]
