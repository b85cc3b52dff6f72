"""Rows whose versions are kept: what a table has held, and what the handler does with each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from poller.model.aside import RowFacts
from poller.model.cursor import Cursor
from poller.model.row_ids import id_of_key, id_of_values
from poller.ports import Row

Kind: TypeAlias = Literal["ok", "bad", "named", "crash", "later", "reject", "rejects"]
Place: TypeAlias = tuple[int, int]
START: Place = (-1, -1)


def place(cursor: Cursor | None) -> Place:
    """A cursor as a place that compares."""
    if cursor is None:
        return START
    tiebreaker = cursor.tiebreaker or {}
    return int(cursor.value), int(tiebreaker.get("id", -1))


@dataclass(frozen=True)
class Version:
    """A row as it was written once: what the table holds of it until it is written again, with the ids that the code
    gives it. `key` empty: the key column serves."""

    pk: int
    stamp: int
    key: str

    @cached_property
    def place(self) -> Place:
        return self.stamp, self.pk

    @cached_property
    def facts(self) -> RowFacts:
        cursor = Cursor(kind="integer+pk", value=str(self.stamp), tiebreaker={"id": self.pk})
        pk = id_of_values({"id": self.pk})
        key = id_of_values({"customer": self.key}) if self.key else pk
        return RowFacts(id_of_key(f"orders/{self.pk}/{self.stamp}"), pk, key, cursor)

    @property
    def id(self) -> str:
        return self.facts.id

    def row(self) -> Row:
        """As a handler is given it."""
        return {"id": self.pk, "changed": self.stamp, "customer": self.key}

    def __repr__(self) -> str:
        return f"{self.pk}@{self.stamp}"


class Table:
    """Rows by primary key. A row that is written again moves to the end; rows written together share a stamp."""

    def __init__(self) -> None:
        self.rows: dict[int, Version] = {}
        self.history: dict[str, Version] = {}
        self.kinds: dict[int, Kind] = {}
        """What the handler does with a row, whichever version: until its data or the handler is put right."""
        self._stamp = 0

    def write(self, pks: Sequence[int], key: Callable[[int], str]) -> None:
        """Insert or update rows in one transaction."""
        self._stamp += 1
        for pk in pks:
            version = Version(pk, self._stamp, key(pk))
            self.rows[pk] = self.history[version.id] = version

    def delete(self, pk: int) -> None:
        self.rows.pop(pk, None)

    def kind(self, id_: str) -> Kind:
        """What the handler does with the row of this version."""
        return self.kinds.get(self.history[id_].pk, "ok")

    def page(self, after: Cursor | None, limit: int) -> list[Version]:
        """The rows behind a cursor, in order."""
        behind = place(after)
        return sorted((row for row in self.rows.values() if row.place > behind), key=lambda row: row.place)[:limit]
