"""The timer that prunes the tables of an app's pollers."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from poller.admin import Refused
from tests.functions import host
from tests.functions.folder import Folder
from tests.integration.sources.tables import execute

PRUNE = "poller_prune"
OUTBOX = "prune.outbox = true"
BY_NUMBER = 'cursor_column = "id"\ncursor_kind = "integer+pk"'


def outbox(folder: Folder) -> None:
    """The folder's poller follows an outbox with five events."""
    execute(
        folder.database,
        "CREATE TABLE events (id INTEGER PRIMARY KEY NOT NULL)",
        "INSERT INTO events VALUES (1), (2), (3), (4), (5)",
    )
    folder.poller("events", "events", options=OUTBOX)
    folder.pollers[-1] = as_outbox(folder.pollers[-1])


def as_outbox(text: str) -> str:
    kept = [line for line in text.splitlines() if not line.startswith(("cursor_", "bound"))]
    return "\n".join([*kept, BY_NUMBER, ""]).replace("handlers:on_events", "handlers:on_orders")


def left(folder: Folder) -> list[int]:
    with closing(sqlite3.connect(folder.path / "shop.db")) as connection:
        return [number for (number,) in connection.execute("SELECT id FROM events ORDER BY id")]


def test_what_was_delivered_goes(folder: Folder) -> None:
    outbox(folder)
    found = host.functions(folder.app())
    assert list(found) == ["events", PRUNE]
    (binding,) = host.bindings(found[PRUNE])
    assert (binding["type"], binding["schedule"], binding["runOnStartup"]) == ("timerTrigger", "15 37 * * * *", False)
    worker = folder.worker()
    worker.invoke("events")
    assert folder.handlers.seen == [1, 2, 3, 4, 5]
    worker.invoke(PRUNE)
    assert left(folder) == []


def test_one_that_is_refused_fails_and_deletes_nothing(folder: Folder) -> None:
    outbox(folder)
    worker = folder.worker()
    with pytest.raises(Refused, match="no poller that reads it has a checkpoint"):
        worker.invoke(PRUNE)
    assert left(folder) == [1, 2, 3, 4, 5]
    worker.invoke("events")
    worker.invoke(PRUNE)
    assert left(folder) == []


def test_an_app_without_such_a_table_has_no_such_timer(shop: Folder) -> None:
    assert PRUNE not in host.functions(shop.app())


def test_in_queue_mode_it_is_a_third_function(queued: Folder) -> None:
    outbox(queued)
    assert list(host.functions(queued.app())) == ["dispatch", "work", PRUNE]
