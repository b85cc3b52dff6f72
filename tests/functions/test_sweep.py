"""The timer that looks, every five minutes, what the timers of schedules with long pauses left or missed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime

import azure.functions as func
import pytest

from poller import Poller
from poller.functions import on_timer
from poller.ports import Found
from poller.sources import SqlSource
from poller.stores import MemoryStore, SqlStore
from tests.functions import host
from tests.functions.folder import REPOSITORY, Folder, add_rows

RARELY = 'schedule = "0 0 2 29 2 *"'
"""A moment that no test sees."""
SWEEP = "poller_sweep"


@pytest.fixture
def yearly(folder: Folder) -> Folder:
    """An app with one poller over five orders, which ticks on 29 February."""
    add_rows(folder.database, 5)
    folder.poller(options=f"{RARELY}\nbatch_size = 2")
    return folder


def missed(folder: Folder, name: str = "orders") -> None:
    """Its last moment was not looked at."""
    document = f"state/shop/{name}.json"
    with closing(SqlStore(f"sqlite:///{folder.path / 'state.db'}")) as store:
        found = store.read(document)
        assert isinstance(found, Found)
        said = {**json.loads(found.body), "looked_at": "2023-01-01T00:00:00Z"}
        store.write(document, json.dumps(said).encode(), if_tag=found.tag)


def test_rows_left_for_lack_of_time_come_with_the_next_sweeps(yearly: Folder) -> None:
    yearly.defaults = "max_batches_per_tick = 1"
    worker = yearly.worker()
    worker.invoke("orders")
    assert yearly.handlers.seen == [1, 2]
    for seen in ([1, 2, 3, 4], [1, 2, 3, 4, 5]):
        worker.invoke(SWEEP)
        assert yearly.handlers.seen == seen


def test_rows_of_a_killed_worker_come_with_a_sweep(yearly: Folder) -> None:
    yearly.defaults = 'lease_ttl = "3s"\nheartbeat_interval = "500ms"'
    yearly.write()
    handlers = yearly.path / "handlers.py"
    alive = handlers.read_text()
    handlers.write_text("import os\n\ndef on_orders(batch):\n    os._exit(9)\n")
    command = [sys.executable, "-m", "tests.functions.host", str(yearly.path), "orders"]
    assert subprocess.run(command, cwd=REPOSITORY, check=False, timeout=60).returncode == 9
    handlers.write_text(alive)
    worker, ends = yearly.worker(), time.monotonic() + 60
    while not yearly.handlers.seen and time.monotonic() < ends:
        time.sleep(0.2)
        worker.invoke(SWEEP)
    assert yearly.handlers.seen == [1, 2, 3, 4, 5]


def test_a_moment_that_was_missed_is_made_up_for(yearly: Folder) -> None:
    yearly.worker().invoke("orders")
    add_rows(yearly.database, 1)
    worker = yearly.worker()
    worker.invoke(SWEEP)
    assert yearly.handlers.seen == [1, 2, 3, 4, 5], "its last moment was looked at"

    missed(yearly)
    worker.invoke(SWEEP)

    assert yearly.handlers.seen == [1, 2, 3, 4, 5, 6]
    looked_at = datetime.fromisoformat(yearly.state_document()["looked_at"])
    assert abs((datetime.now(UTC) - looked_at).total_seconds()) < 3600


def test_a_poller_that_never_ticked_waits_for_its_schedule(yearly: Folder) -> None:
    yearly.worker().invoke(SWEEP)
    assert yearly.handlers.seen == []


def test_its_very_first_moment_is_made_up_for_too(yearly: Folder) -> None:
    yearly.worker().invoke(SWEEP)
    missed(yearly)
    yearly.worker().invoke(SWEEP)
    assert yearly.handlers.seen == [1, 2, 3, 4, 5]


def test_a_paused_poller_is_left_alone(yearly: Folder) -> None:
    yearly.worker().invoke("orders")
    add_rows(yearly.database, 1)
    missed(yearly)
    yearly.change_state(control={"paused": True, "by": "an operator", "reason": "stock-taking"})
    yearly.worker().invoke(SWEEP)
    assert yearly.handlers.seen == [1, 2, 3, 4, 5]


def test_one_that_fails_keeps_no_other_from_its_tick(yearly: Folder) -> None:
    add_rows(yearly.database, 2, table="refunds")
    yearly.poller("refunds", "refunds", options=RARELY)
    worker = yearly.worker()
    worker.invoke("orders")
    worker.invoke("refunds")
    for name in ("orders", "refunds"):
        add_rows(yearly.database, 1, table=name)
        missed(yearly, name)

    def fail(batch: object) -> None:
        if getattr(batch, "poller_name", "") == "orders":
            raise ValueError("no order today")

    yearly.handlers.hook = fail
    with pytest.raises(ValueError, match="no order today"):
        worker.invoke(SWEEP)
    assert yearly.handlers.seen == [1, 2, 3, 4, 5, 1, 2, 3]


def test_short_schedules_need_no_sweep(folder: Folder) -> None:
    folder.poller(options='schedule = "0 */5 * * * *"')
    assert set(host.functions(folder.app())) == {"orders"}


def timed(name: str, store: MemoryStore | None = None) -> Poller:
    source = SqlSource(
        "sqlite:///:memory:", table="orders", cursor_column="updated_at", cursor_time_zone="UTC", pk_columns=["id"]
    )
    return Poller(name, source=source, store=store or MemoryStore(), app_name="shop")


def test_on_timer_brings_one_sweep_for_an_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTLY", "0 0 2 * * *")
    app, other = func.FunctionApp(), func.Blueprint()  # type: ignore[no-untyped-call,unused-ignore]
    for name, schedule in (("often", None), ("orders", "%NIGHTLY%"), ("refunds", "0 0 3 * * *")):
        on_timer(app, timed(name), schedule=schedule, name=name)(lambda batch: None)
    on_timer(other, timed("invoices"), schedule="%NIGHTLY%", name="invoices")(lambda batch: None)

    app.register_functions(other)
    assert set(host.functions(app)) == {"often", "orders", "orders_sweep", "refunds", "invoices", "invoices_sweep"}


def test_a_poller_is_judged_by_the_schedule_of_its_timer() -> None:
    poller = timed("orders")
    on_timer(func.FunctionApp(), poller, schedule="0 0 2 * * *")(lambda batch: None)
    assert poller.options.schedule == "0 0 2 * * *"
