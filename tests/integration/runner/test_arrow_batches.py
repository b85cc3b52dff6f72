"""`batch.table`: exactly the rows of the batch, in every way in which a batch is made."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from poller import Batch, Poller
from poller.errors import ConfigError
from poller.sources import SqlSource
from poller.stores import MemoryStore
from poller.tick import Replay

pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_postgresql")

ROWS = 1500
KEYS: dict[str, Any] = {"cursor_column": "id", "cursor_kind": "integer+pk", "pk_columns": ["id"], "bound": "none"}


def letters(url: str, rows: int = ROWS, **options: Any) -> SqlSource:
    engine = sa.create_engine(url)
    price = "NUMERIC(8, 2)" if engine.dialect.name != "sqlite" else "TEXT"
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"CREATE TABLE letters (id INTEGER PRIMARY KEY NOT NULL, body VARCHAR(20), price {price})"
        )
        insert = sa.text("INSERT INTO letters VALUES (:id, :body, :price)")
        connection.execute(
            insert, [{"id": n, "body": f"b{n}" if n % 3 else None, "price": f"{n}.50"} for n in range(1, rows + 1)]
        )
    engine.dispose()
    return SqlSource(url, table="letters", **{**KEYS, "format": "arrow", **options})


def poller(source: SqlSource, **options: Any) -> Poller:
    return Poller("letters", source=source, store=MemoryStore(), app_name="shop", observers=[], **options)


def as_rows(batch: Batch) -> list[dict[str, Any]]:
    """Of the table, with texts for what is text there."""
    return [{**row, "price": str(row["price"])} for row in batch.table.to_pylist()]


def check(batch: Batch) -> None:
    assert batch.table.num_rows == len(batch) == len(batch.rows)
    assert as_rows(batch) == [{**row, "price": str(row["price"])} for row in batch.rows]


OPTIONS: list[dict[str, Any]] = [
    {"batch_size": 1400}, {"batch_size": 40, "page_size": 120}, {"batch_size": 700, "read_ahead": 0},
    {"batch_size": 60, "concurrency": 3, "page_size": 900}, {"batch_size": 200, "batch_bytes": "2KB"},
]  # fmt: skip


def test_a_table_has_the_rows_of_its_batch(any_db: str) -> None:
    seen: list[int] = []

    def take(batch: Batch) -> None:
        check(batch)
        seen.extend(batch.table.column("id").to_pylist())

    source = letters(any_db)
    for options in OPTIONS:
        seen.clear()
        with poller(source, **options) as one:
            assert one.tick(take).outcome == "delivered", options
        assert sorted(seen) == list(range(1, ROWS + 1)), options
        assert options.get("concurrency") or seen == sorted(seen), options


def test_columns_keep_their_types_over_batches(any_db: str) -> None:
    """Also where all are NULL, or a page is small."""
    schemas = []
    source = letters(any_db, 900, filter="id > 500 or id % 3 = 0")
    with poller(source, batch_size=600) as one:
        one.tick(lambda batch: schemas.append(batch.table.schema))
    with poller(source, batch_size=2) as two:
        two.tick(lambda batch: schemas.append(batch.table.schema))
    assert {str(schema.field("price").type) for schema in schemas} == {"string"}
    assert {str(schema.field("body").type) for schema in schemas} == {"string"}
    assert len({str(schema) for schema in schemas}) == 1


@pytest.mark.parametrize("any_db", ["sqlite", "postgres"], indirect=True)
def test_rows_that_fail_are_named_kept_and_tried_with_a_table(any_db: str) -> None:
    tried: list[tuple[bool, list[int]]] = []

    def take(batch: Batch) -> None:
        check(batch)
        tried.append((batch.retry or batch.replay, batch.table.column("id").to_pylist()))
        for row in batch:
            if row["id"] == 3 and not batch.replay:
                assert batch.key(row) == batch.keys()[batch.rows.index(row)]
                row_before = dict(row)
                row["body"] = "changed by the handler"  # type: ignore[index]
                assert batch.table.to_pylist()[batch.rows.index(row)]["body"] == row_before["body"]
                batch.reject(row, "no")

    with poller(letters(any_db, 20), batch_size=8, on_poison="quarantine", max_attempts=1) as one:
        one.tick(take)
        assert [ids for again, ids in tried if not again] == [list(range(1, 9)), list(range(9, 17)), [17, 18, 19, 20]]
        (waiting,) = one.quarantine.list().pending
        wanted = Replay([waiting.id], version="as-it-was")
        one.replay(wanted, take, by="a test")
        assert [result.done for result in wanted.results] == [True]
    assert tried[-1] == (True, [3])


def take_in_a_child(batch: Batch) -> None:
    check(batch)
    assert batch.table.column("price").to_pylist()[0] == str(batch.rows[0]["price"])
    if batch.rows[0]["id"] > 1300:
        raise RuntimeError(f"{batch.table.num_rows} of {len(batch.keys())}")


@pytest.mark.parametrize("any_db", ["sqlite", "postgres"], indirect=True)
def test_a_table_reaches_a_child_process(any_db: str) -> None:
    with poller(letters(any_db), batch_size=1350, isolation="process") as one:
        result = one.tick(take_in_a_child)
    assert (result.rows, result.batches) == (1350, 1)
    assert "150 of 150" in str(result.error)


def test_a_batch_of_rows_names_the_option(sqlite_url: str) -> None:
    def take(batch: Batch) -> None:
        with pytest.raises(ConfigError, match='format = "arrow"') as refused:
            _ = batch.table
        assert refused.value.key == "format"

    with poller(letters(sqlite_url, 3, format="rows")) as one:
        assert one.tick(take).outcome == "delivered"
    with pytest.raises(ConfigError):
        _ = Batch.of_rows([{"id": 1}]).table


def test_a_backfill_hands_over_tables(sqlite_url: str) -> None:
    seen: list[int] = []
    with poller(letters(sqlite_url, 50), batch_size=20) as one:
        one.tick(lambda batch: None)
        assert one.backfill(10, 30, handler=lambda batch: seen.extend(batch.table.column("id").to_pylist())).finished
    assert seen == list(range(10, 30))
