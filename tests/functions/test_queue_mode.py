"""What the host finds and runs where the mode is "queue"."""

from __future__ import annotations

import base64
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from azure.functions import QueueMessage
from azure.storage.queue import QueueClient

from poller.errors import ConfigError
from poller.functions import UnsuccessfulTick
from tests.functions import host
from tests.functions.folder import Folder, add_rows
from tests.functions.queue_app import write_host
from tests.support.azurite import Azurite
from tests.support.dispatching import work_message


def queue_of(folder: Folder, azurite: Azurite) -> Any:
    """The SDK's client of the app's queue."""
    name = folder.defaults.rpartition('queue = "')[2].rstrip('"')
    return QueueClient.from_connection_string(azurite.connection_string_with_queues, name)


def texts(folder: Folder, azurite: Azurite) -> list[str]:
    """The messages in the queue, taken out of it."""
    client = queue_of(folder, azurite)
    found = []
    for one in client.receive_messages(messages_per_page=32):
        found.append(str(one.content))
        client.delete_message(one)
    return found


def work_on(worker: host.Worker, body: bytes) -> object:
    """One invocation of the queue function, as the worker makes it."""
    message = QueueMessage(body=body)  # type: ignore[no-untyped-call,unused-ignore]
    return worker.functions["work"].get_user_function()(message=message)


def message(poller: str, app: str = "shop") -> bytes:
    return base64.b64decode(work_message(poller, datetime.now(UTC), app=app))


def test_two_functions_however_many_pollers(queued: Folder) -> None:
    queued.poller("late-orders")
    found = {name: host.bindings(one) for name, one in host.functions(queued.app()).items()}
    assert list(found) == ["dispatch", "work"]
    (timer,), (trigger,) = found["dispatch"], found["work"]
    assert (timer["type"], timer["schedule"]) == ("timerTrigger", "*/5 * * * * *")
    assert (trigger["type"], trigger["connection"]) == ("queueTrigger", "Storage")
    assert trigger["queueName"] in queued.defaults


@pytest.mark.parametrize("store", ["blob", "table"])
def test_dispatch_sends_what_work_delivers(
    queued: Folder, azurite: Azurite, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if store == "table":
        pytest.importorskip("azure.data.tables")
        monkeypatch.setenv("Storage", azurite.connection_string_with_all)
        queued.state = f'store = "table"\nconnection = "Storage"\ntable = "{azurite.table_name()}"'
    worker = queued.worker()
    worker.invoke("dispatch")
    sent = texts(queued, azurite)
    assert sorted(json.loads(base64.b64decode(text))["poller"] for text in sent) == ["orders", "refunds"]
    for text in sent:
        assert work_on(worker, base64.b64decode(text)) is None
    assert sorted(queued.handlers.seen) == sorted([1, 2, 3, 4, 5] * 2)


@pytest.mark.guarantee(
    "One worker at a time",
    "Work messages are hints: duplicates, late and foreign ones do no harm, and a lost one is sent again "
    '(`[functions] mode = "queue"`)',
)
def test_a_duplicate_finds_nothing_left(queued: Folder) -> None:
    worker = queued.worker()
    for _ in range(3):
        assert work_on(worker, message("orders")) is None
    assert queued.handlers.seen == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"\xff", message("orders", app="other"), message("gone")],
    ids=["empty", "no fields", "no text", "another app", "an unknown poller"],
)
def test_what_is_no_message_of_ours_is_dropped(queued: Folder, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert work_on(queued.worker(), body) is None
    assert "dropped" in caplog.text


def renamed(folder: Folder) -> tuple[Path, host.Worker]:
    """`orders` is `orders-eu` now: the former file, and a worker of the new one."""
    former = folder.write().rename(folder.path / "former.toml")
    folder.pollers[0] = folder.pollers[0].replace("[pollers.orders", "[pollers.orders-eu")
    return former, folder.worker()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_renamed_poller_goes_on_where_its_checkpoint_was_copied(
    queued: Folder, azurite: Azurite, when: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """With messages of the former name in the queue; `after`: the new name ran without a copy."""
    from poller_cli.main import execute

    work_on(queued.worker(), message("orders"))
    add_rows(queued.database, 3)
    former, worker = renamed(queued)
    copies = ["-c", str(former), "checkpoint", "clone", "orders", "orders-eu", "--yes"]
    queued.handlers.seen.clear()
    if when == "after":
        work_on(worker, message("orders-eu"))
        assert queued.handlers.seen == [1, 2, 3, 4, 5, 6, 7, 8], "start_from is the beginning"
        queued.handlers.seen.clear()
        copies.append("--overwrite")
    assert execute(copies) == 0
    assert ("3 rows will be delivered again" in capsys.readouterr().out) is (when == "after")

    assert work_on(worker, message("orders")) is None
    assert "If it was renamed" in caplog.text
    assert "poller checkpoint clone orders NEW_NAME" in caplog.text
    worker.invoke("dispatch")
    assert "orders" not in [json.loads(base64.b64decode(sent))["poller"] for sent in texts(queued, azurite)]
    work_on(worker, message("orders-eu"))
    assert queued.handlers.seen == [6, 7, 8]


def test_a_failed_tick_fails_its_invocation(queued: Folder) -> None:
    backs_off = 'handler = "handlers:on_orders"\nretry_backoff = "1m"'
    queued.pollers[0] = queued.pollers[0].replace('handler = "handlers:on_orders"', backs_off)
    worker = queued.worker()

    def fails(batch: object) -> None:
        raise RuntimeError("no stock")

    work_on(worker, message("refunds"))  # a poller's handler is imported with its first message
    queued.handlers.hook = fails
    with pytest.raises(RuntimeError, match="no stock"):
        work_on(worker, message("orders"))
    assert work_on(worker, message("orders")) is None, "it backs off, which fails nothing"


def test_rows_left_send_a_successor(queued: Folder, azurite: Azurite) -> None:
    queued.pollers[0] = queued.pollers[0].replace(
        'handler = "handlers:on_orders"', 'handler = "handlers:on_orders"\nbatch_size = 2\nmax_batches_per_tick = 1'
    )
    worker = queued.worker()
    work_on(worker, message("orders"))
    (text,) = texts(queued, azurite)
    work_on(worker, base64.b64decode(text))
    (text,) = texts(queued, azurite)
    work_on(worker, base64.b64decode(text))
    assert texts(queued, azurite) == []
    assert queued.handlers.seen == [1, 2, 3, 4, 5]


def test_a_wrong_poller_fails_at_its_message_alone(queued: Folder) -> None:
    queued.poller("broken", options="no_such_key = 1")
    queued.poller("unhandled", "nothing")
    worker = queued.worker()
    assert list(worker.functions) == ["dispatch", "work"]
    with pytest.raises(ConfigError, match="no_such_key"):
        work_on(worker, message("broken"))
    with pytest.raises(ConfigError, match="on_nothing"):
        work_on(worker, message("unhandled"))
    assert work_on(worker, message("orders")) is None


def test_a_halted_poller_fails_its_invocation(queued: Folder) -> None:
    queued.pollers[0] = queued.pollers[0].replace(
        'handler = "handlers:on_orders"',
        'handler = "handlers:on_orders"\non_poison = "halt"\nmax_attempts = 1\nbatch_size = 1\nretry_backoff = "1ms"',
    )
    worker = queued.worker()

    def fails(batch: object) -> None:
        raise RuntimeError("no stock")

    work_on(worker, message("refunds"))  # a poller's handler is imported with its first message
    queued.handlers.hook = fails
    with pytest.raises((RuntimeError, UnsuccessfulTick)):
        work_on(worker, message("orders"))
    with pytest.raises(UnsuccessfulTick, match="halted"):
        work_on(worker, message("orders"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"extensionBundle": None}, "extensionBundle"),
        ({"queues": {"messageEncoding": "none"}}, "messageEncoding"),
        ({"queues": {"batchSize": 32}}, "PYTHON_THREADPOOL_THREAD_COUNT|batchSize"),
        ({"queues": {"batchSize": 1, "newBatchThreshold": 200}}, "batchSize"),
        ({"queues": {"batchSize": 0}}, "batchSize"),
        ({"queues": {"batchSize": 2, "newBatchThreshold": -1}}, "newBatchThreshold"),
        ({"queues": {"maxPollingInterval": "00:00:30"}}, "maxPollingInterval"),
        ({"concurrency": {"dynamicConcurrencyEnabled": True}}, "dynamicConcurrencyEnabled"),
    ],
)
def test_a_host_that_does_not_suit_is_refused(queued: Folder, changes: dict[str, Any], said: str) -> None:
    write_host(queued, **changes)
    worker = queued.worker()
    assert list(worker.functions) == ["dispatch"]
    with pytest.raises(ConfigError, match=said):
        worker.invoke("dispatch")


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "[" * 100_000], ids=range(5))
def test_a_host_json_that_cannot_be_read_is_named(queued: Folder, text: str) -> None:
    queued.worker()
    (queued.path / "host.json").write_text(text)
    with pytest.raises(ConfigError, match=r"host\.json is not a JSON object"):
        queued.worker().invoke("dispatch")


def test_host_json_may_have_comments_as_for_the_host(queued: Folder) -> None:
    text = (queued.path / "host.json").read_text()
    text = text.replace('{"version"', '// the "app"\n{ /* of ours: {[ */ "version"', 1).replace("}}}", "},},\n}")
    (queued.path / "host.json").write_text("\ufeff" + text)
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(text)
    assert list(queued.worker().functions) == ["dispatch", "work"]
    (queued.path / "host.json").write_text(text.replace("00:05:00", "00:01:00"))
    with pytest.raises(ConfigError, match="tick_timeout"):
        work_on(queued.worker(), message("orders"))


def test_without_the_queues_client_one_function_says_so(queued: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.storage.queue", None)
    worker = queued.worker()
    assert list(worker.functions) == ["dispatch"]
    with pytest.raises(ConfigError, match=r"azure\.storage\.queue, which is not installed"):
        worker.invoke("dispatch")


def test_app_settings_override_host_json(queued: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    write_host(queued, queues={"batchSize": 32, "newBatchThreshold": 0})
    monkeypatch.setenv("PYTHON_THREADPOOL_THREAD_COUNT", "32")
    assert list(queued.worker().functions) == ["dispatch", "work"]
    monkeypatch.setenv("PYTHON_THREADPOOL_THREAD_COUNT", "64")
    monkeypatch.setenv("AzureFunctionsJobHost__extensions__queues__batchSize", "33")
    assert list(queued.worker().functions) == ["dispatch"]
    monkeypatch.delenv("AzureFunctionsJobHost__extensions__queues__batchSize")
    monkeypatch.setenv("AzureFunctionsJobHost__concurrency__dynamicConcurrencyEnabled", "true")
    assert list(queued.worker().functions) == ["dispatch"]


@pytest.mark.parametrize("state", ['store = "sql"', 'store = "memory"'])
def test_a_store_without_listings_is_refused(queued: Folder, state: str) -> None:
    queued.state = state
    worker = queued.worker()
    with pytest.raises(ConfigError, match=r"functions\.mode"):
        worker.invoke("orders")


def test_a_tick_longer_than_the_host_allows_fails_at_its_message(queued: Folder) -> None:
    write_host(queued, functionTimeout="00:01:00")
    worker = queued.worker()
    with pytest.raises(ConfigError, match="tick_timeout"):
        work_on(worker, message("orders"))


def test_the_mode_changes_nothing_in_a_document(queued: Folder, azurite: Azurite, container: str) -> None:
    from poller.stores import BlobStore

    store = BlobStore.from_connection_string(azurite.connection_string, container)

    def document() -> dict[str, Any]:
        found = store.read("state/shop/orders.json")
        read: dict[str, Any] = json.loads(found.body)  # type: ignore[union-attr]
        return read

    work_on(queued.worker(), message("orders"))
    before = document()
    queued.defaults = ""
    add_rows(queued.database, 1)
    queued.worker().invoke("orders")
    after = document()
    assert set(before) == set(after)
    assert after["lease"]["fencing_token"] == before["lease"]["fencing_token"] + 1
    assert queued.handlers.seen == [1, 2, 3, 4, 5, 6]
    store.close()


def test_check_says_what_the_queue_mode_lacks(queued: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    from poller import load_app
    from poller.dispatch import findings
    from poller_cli.main import execute

    file = str(queued.write())
    with load_app(file) as app:
        assert [one.severity for one in findings(app, os.environ)] == ["ok"]
    write_host(queued, extensionBundle=None)
    assert execute(["-c", file, "check", "orders", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)["pollers"][0]["findings"]
    (found,) = [one for one in said if one["check"] == "functions"]
    assert found["severity"] == "error"
    assert "extensionBundle" in found["message"]
