"""SQLite as a place. It changes no type: a table is made with the other one, filled, and given the name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar

from poller.model.cursor import CursorKind
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
OTHER_ROWS = "INSERT INTO other SELECT id - 40, ts, v + 1000, note, part FROM followed"
"""Rows that no table had before, at times that were passed."""


def other(key: str = "integer", cursor: str = "text", suffix: str = "") -> str:
    rest = "v integer NOT NULL, note text, part integer NOT NULL DEFAULT 0"
    return f"CREATE TABLE other (id {key} NOT NULL PRIMARY KEY, ts {cursor} NOT NULL, {rest}) {suffix}"


def remade(made: str, select: str = "*") -> tuple[str, ...]:
    """The table is made again with other definitions, in the steps of SQLite's documentation."""
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


DOUBLES = "INSERT INTO followed SELECT id, ts, v + 500, note, part FROM followed WHERE v > 14"
"""Of rows that were not read yet."""
CHANGES = (
    retyped("key integer to text", "integer", "text", crossing, "CAST(id AS text), ts, v, note, part"),
    retyped("key text from binary to nocase", "text", "text COLLATE NOCASE", cased),
    retyped("key text from nocase to binary", "text COLLATE NOCASE", "text", cased),
    retyped("key varchar to text", "varchar(20)", "text", padded),
    Change(
        "key made twice",
        (*remade(other().replace(" PRIMARY KEY", "")), DOUBLES),
        ("DELETE FROM followed WHERE v > 500", *remade(other())),
    ),
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
    Change("table made again", remade(other())),
    Change("table without rowid", remade(other(suffix="WITHOUT ROWID"))),
    Change("table strict", remade(other(suffix="STRICT"))),
    Change("two tables swapped", (other(), OTHER_ROWS, *SWAP), SWAP),
)


EDGES = {
    "integer": ("-9223372036854775808", "-1", "0", "1", "9223372036854775807"),
    "text": ("' '", "'%'", "'%s'", "':a'", "'\"'", "'it''s'", "'null'", r"'\'", "char(1)", "'a'", "'A'", "'é'"),
    "bytes": ("x'00'", "x'0001'", "x'ff'"),
    "moment": tuple(
        f"'{time}Z'"
        for time in (
            "0001-01-01T00:00:00.000000", "1582-10-15T00:00:00.000000", "1969-12-31T23:59:59.999999",
            "1970-01-01T00:00:00.000000", "2026-03-29T01:00:00.000000", "9999-12-31T23:59:59.999999",
        )
    ),
}  # fmt: skip


class Sqlite(SqlPlace):
    name: ClassVar[str] = "sqlite"
    types: ClassVar[Mapping[str, str]] = {
        "integer": "integer", "moment": "text", "text": "text", "bytes": "blob", "date": "text",
        "local": "text",
    }  # fmt: skip
    changes: ClassVar[Sequence[Change]] = CHANGES
    filled: ClassVar[Mapping[CursorKind, str]] = {
        "timestamp+pk": "id integer NOT NULL, ts text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))",
        "integer+pk": "id integer PRIMARY KEY AUTOINCREMENT, ts text",
    }
    writers: ClassVar[int] = 1
    begin: ClassVar[str] = "BEGIN IMMEDIATE"
    edges: ClassVar[Mapping[str, Sequence[str]]] = EDGES
    times: ClassVar[frozenset[str]] = frozenset({"moment"})
    literal_moment: ClassVar[str] = "'2026-01-01T00:00:00.000000Z'"
    unreadable: ClassVar[Sequence[tuple[str, str]]] = (("text", "CAST(x'61ff62' AS text)"), ("blob", "x'00ff'"))
    idle: ClassVar[int | None] = 9
    stops: ClassVar[bool] = True
    goes_back: ClassVar[bool] = True

    def moment(self, at: datetime) -> Any:
        return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Another connection has the file for itself."""
        with self.session() as other:
            other.run("BEGIN EXCLUSIVE")
            try:
                yield
            finally:
                other.run("ROLLBACK")

    def go_back(self, number: int) -> None:
        self.run(f"DELETE FROM followed WHERE id > {number}", f"UPDATE sqlite_sequence SET seq = {number}")

    def clear(self) -> None:
        dropped = (f"DROP TABLE IF EXISTS {name}" for name in (TABLE, "other", "third"))
        self.run(f"DROP VIEW IF EXISTS {VIEW}", *dropped)

    def change(self, statements: Sequence[str], shape: Shape) -> None:
        """In one transaction, without the view: it may name a table that is away for a moment."""
        view = [f"CREATE VIEW {VIEW} AS {SELECT}"] if shape == "view" else []
        self.run("BEGIN IMMEDIATE", f"DROP VIEW IF EXISTS {VIEW}", *statements, *view, "COMMIT")
