"""When somebody should know, the invocation fails: outages, failing handlers, lost leases, halted pollers."""

from __future__ import annotations

import importlib
import logging
import re
import sys
import traceback
from collections.abc import Callable

import pytest
from sqlalchemy import create_engine

from poller import Batch, Poller, PollerError, SourceUnavailable, StoreUnavailable, TickResult
from poller.functions import UnsuccessfulTick
from poller.runtime import SystemRuntime
from tests.functions.folder import Folder, add_rows
from tests.support.azurite import Azurite
from tests.support.services import free_port


class OutOfStock(Exception):
    """What a handler of a user's raises."""


def _fail(batch: Batch) -> None:
    raise OutOfStock(f"no more of order {batch.rows[0]['id']}")


def test_handlers_own_exception_fails_the_invocation(shop: Folder) -> None:
    shop.defaults = 'retry_backoff = "1ms"'
    worker = shop.worker()
    shop.handlers.hook = _fail

    with pytest.raises(OutOfStock, match="no more of order 1") as failed:
        worker.invoke("orders")

    assert failed.value.__notes__ == ["poller orders: the handler failed. What was not done comes again."]
    assert any(frame.name == "_fail" for frame in failed.traceback)
    shop.handlers.hook = None
    worker.invoke("orders")
    assert shop.handlers.seen == [1, 2, 3, 4, 5]


def test_error_text_off_shows_the_type_and_nothing_else(shop: Folder, caplog: pytest.LogCaptureFixture) -> None:
    shop.defaults = "error_text = false"
    worker = shop.worker()
    shop.handlers.hook = _fail

    with pytest.raises(UnsuccessfulTick) as failed:
        worker.invoke("orders")

    assert "handler_failed: OutOfStock." in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__
    assert "no more of order" not in f"{failed.value}{caplog.text}"


def test_handler_that_exits_ends_its_invocation_and_not_the_worker(shop: Folder) -> None:
    shop.defaults = 'retry_backoff = "1ms"'
    worker = shop.worker()
    shop.handlers.hook = lambda batch: sys.exit(3)

    with pytest.raises(PollerError, match="poller orders"):
        worker.invoke("orders")

    shop.handlers.hook = None
    worker.invoke("orders")
    assert shop.handlers.seen == [1, 2, 3, 4, 5]


def test_handler_in_a_child_process_fails_the_invocation_by_type(shop: Folder) -> None:
    shop.defaults = 'isolation = "process"'
    worker = shop.worker()
    (shop.path / "handlers.py").write_text("def on_orders(batch):\n    raise LookupError('no such customer')\n")

    with pytest.raises(UnsuccessfulTick, match=r"handler_failed: LookupError: no such customer\."):
        worker.invoke("orders")


def test_halted_poller_fails_every_invocation_and_names_resume(one_by_one: Folder) -> None:
    one_by_one.defaults = 'on_poison = "halt"\nmax_attempts = 2'
    worker = one_by_one.worker()
    one_by_one.handlers.hook = _fail
    with pytest.raises(OutOfStock):
        worker.invoke("orders")

    with pytest.raises(UnsuccessfulTick, match=r"halted: row orders/id=1/.* failed 2 times") as halting:
        worker.invoke("orders")
    assert isinstance(halting.value.__cause__, OutOfStock)

    one_by_one.handlers.hook = None
    with pytest.raises(UnsuccessfulTick) as halted:
        worker.invoke("orders")
    assert halted.value.outcome == "halted"
    assert "row orders/id=1/" in str(halted.value)
    for one in (halting.value, halted.value):
        assert one.next_step == (
            "Fix it, or set the row aside: poller quarantine add orders --pk id=1; then: poller resume orders"
        )
    assert one_by_one.handlers.seen == []


def _fail_on_third(batch: Batch) -> None:
    if any(row["id"] == 3 for row in batch):
        raise OutOfStock("no more of order 3")


def test_a_blocking_row_is_named_with_the_command_past_it(one_by_one: Folder) -> None:
    worker = one_by_one.worker()
    one_by_one.handlers.hook = _fail_on_third

    with pytest.raises(OutOfStock) as failed:
        worker.invoke("orders")

    (note,) = failed.value.__notes__
    assert re.fullmatch(
        r"poller orders: the handler failed on row orders/id=3/\S+\. The row comes again, and nothing behind it is "
        r"delivered\. Fix it, or set it aside: poller quarantine add orders --pk id=3",
        note,
    )


def test_a_row_set_aside_is_named_with_the_list_it_is_on(one_by_one: Folder) -> None:
    one_by_one.defaults = 'on_poison = "quarantine"'
    worker = one_by_one.worker()
    one_by_one.handlers.hook = _fail_on_third

    with pytest.raises(OutOfStock) as failed:
        worker.invoke("orders")

    assert one_by_one.handlers.seen == [1, 2, 4, 5]
    (note,) = failed.value.__notes__
    assert "failed on row orders/id=3/" in note
    assert note.endswith("Look at the rows that wait: poller quarantine list orders")


def test_the_row_is_named_where_the_error_may_not_be_shown(one_by_one: Folder) -> None:
    one_by_one.defaults = "error_text = false"
    worker = one_by_one.worker()
    one_by_one.handlers.hook = _fail_on_third

    with pytest.raises(UnsuccessfulTick) as failed:
        worker.invoke("orders")

    assert "row orders/id=3/" in str(failed.value)
    assert str(failed.value).endswith("poller quarantine add orders --pk id=3")
    assert "no more of order" not in "".join(traceback.format_exception(failed.value))


@pytest.mark.parametrize("hidden", ["postgresql://app:topsecret@db/shop", "\x1b[2J"], ids=["secret", "steering"])
def test_a_key_that_may_not_be_shown_is_left_out(shop: Folder, monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    worker, own = shop.worker(), OutOfStock("no more")
    command = ("quarantine", "add", "orders", "--pk", f"id={hidden}")
    _ticks(
        monkeypatch,
        TickResult(outcome="handler_failed", failing_row=f"orders/id={hidden}", next_command=command, exception=own),
    )
    with pytest.raises(OutOfStock):
        worker.invoke("orders")
    assert own.__notes__ == ["poller orders: the handler failed. What was not done comes again."]


def _ticks(monkeypatch: pytest.MonkeyPatch, result: TickResult) -> None:
    """Every tick of every poller ends so."""
    monkeypatch.setattr(Poller, "tick", lambda *_, **__: result)


def test_a_wait_after_a_failed_call_fails_no_invocation(shop: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = shop.worker()
    _ticks(monkeypatch, TickResult(outcome="backing_off", error="ValueError: no"))
    worker.invoke("orders")


def test_a_blocked_poller_fails_its_invocation(shop: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = shop.worker()
    _ticks(monkeypatch, TickResult(outcome="blocked", error="100 rows wait, and no more may"))
    with pytest.raises(UnsuccessfulTick, match=r"blocked: 100 rows wait, and no more may\.") as blocked:
        worker.invoke("orders")
    assert "poller quarantine list orders" in blocked.value.next_step


def test_lost_lease_fails_the_invocation_and_the_batch_comes_again(shop: Folder) -> None:
    """While the handler runs, somebody takes the lease over."""
    worker = shop.worker()

    def rob(batch: Batch) -> None:
        shop.change_state(
            lease={"owner_id": "shop/another/1", "fencing_token": batch.fencing_token + 1, "ttl_seconds": 60}
        )

    shop.handlers.hook = rob

    with pytest.raises(UnsuccessfulTick) as lost:
        worker.invoke("orders")

    assert lost.value.outcome == "lease_lost"
    assert "the batch comes again" in lost.value.next_step
    assert "poller history orders" in lost.value.next_step
    assert shop.state_document()["checkpoint"]["cursor"] is None


def test_unanswered_commit_fails_the_invocation(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage service goes away while the handler runs, for longer than the lease lasts: each pause before the
    commit is sent again takes half a minute of the poller's own time, and none of the test's."""
    passed = [0.0]
    running = SystemRuntime.monotonic
    monkeypatch.setattr(SystemRuntime, "monotonic", lambda self: running(self) + sum(passed))
    monkeypatch.setattr(SystemRuntime, "sleep", lambda self, seconds: passed.append(30.0))
    with Azurite.start() as azurite:
        monkeypatch.setenv("AzureWebJobsStorage", azurite.connection_string)
        folder.state = 'store = "blob"'
        folder.defaults = 'lease_ttl = "60s"\nheartbeat_interval = "15s"'
        add_rows(folder.database, 5)
        folder.poller()
        worker = folder.worker()
        folder.handlers.hook = lambda batch: azurite.kill()

        with pytest.raises(UnsuccessfulTick) as unknown:
            worker.invoke("orders")

        assert unknown.value.outcome == "commit_unknown"
        assert len(passed) > 1, "it did try again"


def test_unreachable_state_store_is_an_exception_not_zero_rows(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    account = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=c2VjcmV0;"
    monkeypatch.setenv("AzureWebJobsStorage", f"{account}BlobEndpoint=http://127.0.0.1:{free_port()}/devstoreaccount1;")
    folder.state = 'store = "blob"'
    add_rows(folder.database, 5)
    folder.poller()

    with pytest.raises(StoreUnavailable) as outage:
        folder.worker().invoke("orders")

    assert "c2VjcmV0" not in str(outage.value)
    assert folder.handlers.seen == []


def test_unreachable_database_is_an_exception_not_zero_rows(folder: Folder) -> None:
    folder.poller(url=f"postgresql+psycopg://shop:s3cret@127.0.0.1:{free_port()}/shop")

    with pytest.raises(SourceUnavailable) as outage:
        folder.worker().invoke("orders")

    assert "s3cret" not in str(outage.value)


def test_missing_table_is_an_exception(folder: Folder) -> None:
    create_engine(folder.database).connect().close()
    folder.poller()

    with pytest.raises(PollerError, match="orders"):
        folder.worker().invoke("orders")


class Records(logging.Handler):
    """What reaches the host's log at level Error, and the exception that it logs of a failed invocation."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def of(self, invoke: Callable[[], object]) -> list[str]:
        logging.getLogger("poller").addHandler(self)
        try:
            invoke()
        except Exception as error:  # noqa: BLE001 - as the host does
            self.texts.append("".join(traceback.format_exception(error)))
        finally:
            logging.getLogger("poller").removeHandler(self)
        return self.texts


@pytest.mark.parametrize(
    ("defaults", "body"),
    [
        ("", "raise LookupError('no such customer')"),
        ('max_attempts = 1\non_poison = "halt"', "raise LookupError('no such customer')"),
        ('isolation = "process"', "raise LookupError('no such customer')"),
        ("", "raise LookupError('no such customer, postgresql://app:topsecret@db/shop')"),
        ("", "raise LookupError('no such customer\\x1b[2J')"),
    ],
    ids=["its own", "halting", "in a process", "with a secret", "steering a terminal"],
)
def test_a_failure_is_one_error_record_with_one_traceback(one_by_one: Folder, defaults: str, body: str) -> None:
    shop = one_by_one
    shop.defaults = defaults
    worker = shop.worker()
    (shop.path / "handlers.py").write_text(
        f"def ship(row):\n    {body}\n\ndef on_orders(batch):\n    ship(batch.rows[0])\n"
    )
    sys.modules.pop("handlers")
    importlib.invalidate_caches()
    worker = shop.worker()

    (record,) = Records().of(lambda: worker.invoke("orders"))

    assert record.count("in ship") == 1
    assert record.count("LookupError") >= 1
    places = re.findall(r'File "[^"]*?([\w.]+/[\w.]+)", line', record)
    begins = next(n for n, place in enumerate(places) if place.endswith("handlers.py"))
    assert all(place.endswith("handlers.py") for place in places[begins : begins + 2])
    assert not any("tick.py" in place or "handlers.py" in place for place in places[:begins])
    assert not re.search(r"poller/(tick|isolation|handlers)\.py", record), "our frames"
    assert "topsecret" not in record
    assert "\x1b" not in record
