"""An empty text is a key like any other: a checkpoint may stand at it, and is read again."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from pydantic import ValidationError

from poller import Poller
from poller.model.cursor import Cursor
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.sources.tables import execute, family
from tests.support.cases import each


@each("kind", ["text", "bytes"])
def test_a_checkpoint_at_an_empty_key_is_gone_on_from(any_db: str, kind: str) -> None:
    columns = {
        "text": "varchar(20)",
        "bytes": {"postgresql": "bytea", "sqlite": "blob"}.get(family(any_db), "varbinary(9)"),
    }
    value = {"postgresql": "decode('61', 'hex')"}.get(family(any_db), "x'61'") if kind == "bytes" else "'a'"
    empty = {"postgresql": "decode('', 'hex')"}.get(family(any_db), "x''") if kind == "bytes" else "''"
    execute(
        any_db,
        f"create table orders (id {columns[kind]} not null primary key, version integer not null)",
        f"insert into orders values ({empty}, 1), ({value}, 1)",
    )
    store = MemoryStore()
    seen: list[Any] = []

    def delivered(**options: Any) -> None:
        source = SqlSource(
            any_db,
            table="orders",
            cursor_column="version",
            pk_columns=["id"],
            cursor_kind="integer+pk",
            bound="none",
        )
        with closing(Poller("orders", source=source, store=store, app_name="shop", **options)) as poller:
            poller.tick(lambda batch: seen.extend(batch.rows))

    delivered(batch_size=1, max_batches_per_tick=1)
    assert len(seen) == 1
    delivered()
    assert [bytes(row["id"]) if kind == "bytes" else row["id"] for row in seen] == (
        [b"", b"a"] if kind == "bytes" else ["", "a"]
    )


def test_a_time_is_never_an_empty_text() -> None:
    with pytest.raises(ValidationError, match="never is"):
        Cursor(kind="timestamp+pk", value="", tiebreaker={"id": 1})
