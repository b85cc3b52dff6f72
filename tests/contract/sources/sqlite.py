"""SQLite as a place. It changes no type: a table is made with the other one, filled, and given the name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from tests.contract.sources.fills import cased, crossing, padded
from tests.contract.sources.place import (
    SELECT,
    SHAPES,
    TABLE,
    VIEW,
    Change,
    Layout,
    Shape,
    SqlPlace,
    alters,
)  # fmt: skip

SWAP = (
    "ALTER TABLE followed RENAME TO third",
    "ALTER TABLE other RENAME TO followed",
    "ALTER TABLE third RENAME TO other",
)
OTHER_ROWS = "INSERT INTO other SELECT id - 40, ts, v + 1000, note FROM followed"
"""Rows that no table had before, at times that were passed."""


def other(key: str = "integer", cursor: str = "text", suffix: str = "") -> str:
    columns = f"id {key} NOT NULL PRIMARY KEY, ts {cursor} NOT NULL, v integer NOT NULL, note text"
    return f"CREATE TABLE other ({columns}) {suffix}"


def remade(made: str, select: str = "*") -> tuple[str, ...]:
    """The table made anew with other definitions, as SQLite's documentation says it."""
    return (
        made,
        f"INSERT INTO other SELECT {select} FROM followed",
        "DROP TABLE followed",
        "ALTER TABLE other RENAME TO followed",
        "CREATE INDEX followed_by_ts ON followed (ts, id)",
    )


def retyped(name: str, was: str, to: str, key_of: Callable[[int], Any], select: str = "*") -> Change:
    """Another type of the key."""
    return Change(
        name, remade(other(to), select), remade(other(was), select), Layout(key=was, key_of=key_of), shapes=SHAPES
    )


CHANGES = (
    retyped("key integer to text", "integer", "text", crossing, "CAST(id AS text), ts, v, note"),
    retyped("key text from binary to nocase", "text", "text COLLATE NOCASE", cased),
    retyped("key text from nocase to binary", "text COLLATE NOCASE", "text", cased),
    retyped("key varchar to text", "varchar(20)", "text", padded),
    alters("key renamed", "RENAME id TO id2", "RENAME id2 TO id"),
    alters("cursor renamed", "RENAME ts TO ts2", "RENAME ts2 TO ts"),
    Change(
        "cursor written in another form",
        ("UPDATE followed SET ts = replace(replace(ts, 'T', ' '), 'Z', '')",),
        ("UPDATE followed SET ts = replace(ts, ' ', 'T') || 'Z'",),
        shapes=SHAPES,
    ),
    Change("cursor with a collation", remade(other(cursor="text COLLATE NOCASE")), remade(other())),
    alters("column added", "ADD extra integer DEFAULT 1"),
    alters("column dropped", "DROP note", "ADD note text"),
    Change("index dropped", ("DROP INDEX followed_by_ts",)),
    Change("table renamed", SWAP[:1], ("ALTER TABLE third RENAME TO followed",)),
    Change("table made anew", remade(other())),
    Change("table without rowid", remade(other(suffix="WITHOUT ROWID"))),
    Change("table strict", remade(other(suffix="STRICT"))),
    Change("two tables swapped", (other(), OTHER_ROWS, *SWAP), SWAP),
)


class Sqlite(SqlPlace):
    name: ClassVar[str] = "sqlite"
    types: ClassVar[Mapping[str, str]] = {
        "integer": "integer", "moment": "text", "text": "text", "number": "numeric", "bytes": "blob", "date": "text",
        "local": "text",
    }  # fmt: skip
    changes: ClassVar[Sequence[Change]] = CHANGES
    writers: ClassVar[int] = 1

    def moment(self, at: datetime) -> Any:
        return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def clear(self) -> None:
        dropped = (f"DROP TABLE IF EXISTS {name}" for name in (TABLE, "other", "third"))
        self.run(f"DROP VIEW IF EXISTS {VIEW}", *dropped)

    def change(self, statements: Sequence[str], shape: Shape) -> None:
        """In one transaction, without the view: it may name a table that is away for a moment."""
        view = [f"CREATE VIEW {VIEW} AS {SELECT}"] if shape == "view" else []
        self.run("BEGIN IMMEDIATE", f"DROP VIEW IF EXISTS {VIEW}", *statements, *view, "COMMIT")
