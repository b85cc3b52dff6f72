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

from poller import Batch, PollerError, SourceUnavailable, StoreUnavailable
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
    worker = shop.worker()
    shop.handlers.hook = _fail

    with pytest.raises(OutOfStock, match="no more of order 1") as failed:
        worker.invoke("orders")

    assert failed.value.__notes__ == [
        "poller orders: the handler failed; the checkpoint stays. The batch comes again with the next tick."
    ]
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


def test_halted_poller_fails_every_invocation_and_names_resume(shop: Folder) -> None:
    shop.defaults = "max_attempts = 2"
    worker = shop.worker()
    shop.handlers.hook = _fail
    with pytest.raises(OutOfStock):
        worker.invoke("orders")

    with pytest.raises(UnsuccessfulTick, match=r"halted: .* failed 2 times") as halting:
        worker.invoke("orders")
    assert isinstance(halting.value.__cause__, OutOfStock)

    shop.handlers.hook = None
    with pytest.raises(UnsuccessfulTick) as halted:
        worker.invoke("orders")
    assert halted.value.outcome == "halted"
    assert halted.value.next_step == "Fix the cause, then: poller resume orders."
    assert shop.handlers.seen == []


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
        ("max_attempts = 1", "raise LookupError('no such customer')"),
        ('isolation = "process"', "raise LookupError('no such customer')"),
        ("", "raise LookupError('no such customer, postgresql://app:topsecret@db/shop')"),
        ("", "raise LookupError('no such customer\\x1b[2J')"),
    ],
    ids=["its own", "halting", "in a process", "with a secret", "steering a terminal"],
)
def test_a_failure_is_one_error_record_with_one_traceback(shop: Folder, defaults: str, body: str) -> None:
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
