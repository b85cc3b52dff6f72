"""What a program hands over in the place of a text, a number or a source is refused by name, and nothing is changed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from poller import ConfigError, Poller, PollerError
from poller.admin import (
    ChangeOptions,
    Changes,
    Rebind,
    Refused,
    Restore,
    WrongArgument,
    clone_checkpoint,
    export_checkpoint,
    find_checkpoint,
    read_checkpoint,
    read_foreign,
)
from poller.model.cursor import Cursor
from poller.model.fingerprint import SourceDescription
from poller.model.limits import HIGHEST_TOKEN
from poller.ports import Found, Lag, Page, Row, Source
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.support.cases import each

ENDLESS = 10**5000
"""A number of more digits than Python writes."""
TEXTS: dict[str, Callable[[Poller, Any], object]] = {
    "reason": lambda orders, value: orders.pause(reason=value),
    "by": lambda orders, value: orders.pause(by=value),
    "name": lambda orders, value: orders.backfill("2026-01-01", "2026-01-02", name=value, handler=print),
    "NEW_NAME": lambda orders, value: clone_checkpoint(orders, value),
    "FILE": lambda orders, value: find_checkpoint(orders, value),
    "URL|FILE": lambda _, value: read_foreign(value, connection="", environ={}, now=datetime.now(UTC)),
}
NUMBERS: dict[str, Callable[[Poller, Any], object]] = {
    "limit of peek": lambda orders, value: orders.peek(value),
    "limit of history": lambda orders, value: orders.history(value),
    "token_at_least": lambda orders, value: restored(orders, token_at_least=value),
    "parallel": lambda orders, value: orders.backfill("2026-01-01", "2026-01-02", parallel=value, handler=print),
}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def source(tmp_path: Path) -> SqlSource:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        database.executemany("INSERT INTO orders VALUES (?, ?)", [(n, f"2026-01-01 00:00:0{n}") for n in range(5)])
    return SqlSource(
        f"sqlite:///{tmp_path / 'shop.db'}",
        table="orders",
        cursor_column="updated_at",
        cursor_time_zone="UTC",
        pk_columns=["id"],
    )


@pytest.fixture
def orders(source: SqlSource, store: MemoryStore) -> Poller:
    """One that delivered every row and was paused, resumed and paused."""
    poller = Poller("orders", source=source, store=store, app_name="shop", observers=[])
    assert poller.tick(lambda _: None).ok
    for change in (poller.pause, poller.resume, poller.pause):
        change()
    return poller


def restored(poller: Poller, **options: Any) -> object:
    kept = export_checkpoint(poller).model_dump_json().encode()
    checkpoint = read_checkpoint(poller, kept, location="export")
    return Changes(poller, ChangeOptions(allow_skip=True)).make(Restore(checkpoint, **options))


def stored(store: MemoryStore) -> dict[str, bytes]:
    """Every document."""
    found = {name: store.read(name) for name in store.names("")}
    return {name: one.body for name, one in found.items() if isinstance(one, Found)}


@each("value", [1, b"night", ["night"], ENDLESS])
@each("argument", TEXTS)
def test_what_is_not_text_is_refused_by_its_name(
    orders: Poller, store: MemoryStore, argument: str, value: object
) -> None:
    before = stored(store)
    with pytest.raises(WrongArgument) as refused:
        TEXTS[argument](orders, value)
    assert str(refused.value).startswith(f"{argument}: ")
    assert stored(store) == before


@each("value", [-1, 1.5, True, None, "3", ENDLESS])
@each("argument", NUMBERS)
def test_what_is_not_such_a_number_is_refused_by_its_name(
    orders: Poller, store: MemoryStore, argument: str, value: object
) -> None:
    before = stored(store)
    with pytest.raises(WrongArgument) as refused:
        NUMBERS[argument](orders, value)
    assert str(refused.value).startswith(f"{argument.partition(' ')[0]}: ")
    assert stored(store) == before


def test_no_program_raises_a_token_that_could_not_grow(orders: Poller) -> None:
    with pytest.raises(WrongArgument):
        restored(orders, token_at_least=HIGHEST_TOKEN + 1)
    restored(orders, token_at_least=HIGHEST_TOKEN)
    orders.reset("beginning")
    orders.resume()
    assert orders.tick(lambda _: None).rows == 5


@each("end", [ENDLESS, 1.5, None])
def test_an_end_that_no_column_holds_is_refused(orders: Poller, end: Any) -> None:
    with pytest.raises(WrongArgument, match="begins"):
        orders.backfill(end, "2026-01-02", handler=print)
    with pytest.raises(WrongArgument, match="to: "):
        orders.reset(end)


def test_a_path_is_as_good_as_its_text(orders: Poller, tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    file.write_text(export_checkpoint(orders).model_dump_json())
    assert find_checkpoint(orders, file).export == find_checkpoint(orders, str(file)).export
    with pytest.raises(WrongArgument, match="azure-functions-db"):
        read_foreign(file, connection="", environ={}, now=datetime.now(UTC))


@pytest.mark.parametrize("by", ["\u200b", " \u2060\n", "\u3164"])
def test_an_invisible_name_is_not_recorded(
    orders: Poller, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    def recorded() -> str:
        found = store.read("state/shop/orders.json")
        assert isinstance(found, Found)
        return str(json.loads(found.body)["control"]["last_change"]["by"])

    monkeypatch.setenv("POLLER_OPERATOR", by)
    orders.tick(lambda _batch: None)
    orders.pause()
    nameless = recorded()
    assert "@" in nameless
    orders.resume(by=by)
    assert recorded() == nameless


def test_what_cannot_be_called_is_no_handler(orders: Poller) -> None:
    orders.resume()
    not_callable: Any = 5
    for deliver in (orders.tick, lambda handler: orders.backfill("2026-01-01", "2026-01-02", handler=handler)):
        with pytest.raises(ConfigError, match="handler: int is not a function"):
            deliver(not_callable)
    assert orders.status().attempts == 0


def test_a_clone_is_made_for_the_poller_that_is_named(orders: Poller, source: SqlSource, store: MemoryStore) -> None:
    other = Poller("others", source=source, store=store, app_name="shop", observers=[])
    with pytest.raises(WrongArgument, match="new: "):
        clone_checkpoint(orders, "invoices", new=other)
    assert clone_checkpoint(orders, "others", new=other).changed


class Minimal(Source):
    """A source that has what a tick needs, and nothing else."""

    def __init__(self, whole: SqlSource, **described: str) -> None:
        self._whole = whole
        self._described = described

    def describe(self) -> SourceDescription:
        return self._whole.describe().model_copy(update=self._described)

    def start(self) -> Cursor | None:
        return None

    def page(self, after: Cursor | None, limit: int, *, lag_cap: int | None = None) -> Page:
        return self._whole.page(after, limit)

    def lag(self, after: Cursor | None, *, cap: int) -> Lag:
        return self._whole.lag(after, cap=cap)

    def key(self, row: Row, cursor: Cursor) -> str:
        return self._whole.key(row, cursor)

    def close(self) -> None:
        self._whole.close()


def test_a_source_that_cannot_count_is_no_obstacle(source: SqlSource, store: MemoryStore) -> None:
    poller = Poller("minimal", source=Minimal(source), store=store, app_name="shop", observers=[])
    assert poller.tick(lambda _: None).rows == 5
    kept = read_checkpoint(poller, export_checkpoint(poller).model_dump_json().encode(), location="export")
    assert poller.reset("beginning").effect.not_counted == "the source does not count rows"
    with pytest.raises(Refused, match="not counted: the source does not count rows; rows may be skipped"):
        Changes(poller).make(Restore(kept))
    assert Changes(poller, ChangeOptions(allow_skip=True)).make(Restore(kept)).changed
    assert clone_checkpoint(poller, "copy").changed
    moved = Poller("minimal", source=Minimal(source, table="moved"), store=store, app_name="shop", observers=[])
    assert Changes(moved).make(Rebind()).changed


CHANGES: dict[str, Callable[[Poller], object]] = {
    "rebind": lambda poller: Changes(poller).make(Rebind()),
    "restore": restored,
    "clone_checkpoint": lambda poller: clone_checkpoint(poller, "copy"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_counts_rows_waits_for_no_tick(orders: Poller, store: MemoryStore, change: str) -> None:
    """A source serves one thread at a time: two at once hang on one connection."""
    orders.resume()
    orders.reset("beginning")
    refused: list[PollerError] = []

    def handle(_: object) -> None:
        before = stored(store)
        try:
            CHANGES[change](orders)
        except PollerError as error:
            refused.append(error)
        assert stored(store) == before

    assert orders.tick(handle).ok
    assert [error.message for error in refused] == ["A batch or a change of this poller still runs in this process."]
    if change != "rebind":
        CHANGES[change](orders)
