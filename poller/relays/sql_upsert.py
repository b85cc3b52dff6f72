"""What is done to the table for a row: an upsert, or for changes of a captured table also a delete by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Delete, Insert, Table, Text, and_, bindparam, cast

from poller.model.captured import OP, WHOLE_TABLE
from poller.model.row_changes import op_of
from poller.ports import Row
from poller.relays.sql_values import REST_OF_STATEMENT, Unstorable, size_of


class RowStatement(NamedTuple):
    """A statement for one row, and its parameters: none for one that empties the table."""

    row: Row
    statement: Insert | Delete
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Upsert:
    """Statements for rows with certain columns.

    Attributes:
        statement: the upsert. taken: by column of the table: the column of the row, and what makes the table's value of
            its value. key_columns: of the table. delete, empty: for one row by its key and for all of them, if rows are
            changes that are carried out there; None if each row is written. largest: bytes that a statement may have;
            None: as many as it likes.
    """

    statement: Insert
    taken: Mapping[str, tuple[str, Callable[[Any], Any]]]
    key_columns: tuple[str, ...]
    delete: Delete | None = None
    empty: Delete | None = None
    largest: int | None = None

    def step(self, row: Row) -> RowStatement | None:
        """What is done for a row: a delete for D, an emptied table for T and B, nothing for E, else the upsert. Raises:
        as `values`; ValueError, for an operation that is not known."""
        op = "U" if self.delete is None else op_of(row)
        if op == "D" and self.delete is not None:
            key = {f"key_{at}": self._value(row, name) for at, name in enumerate(self.key_columns)}
            return RowStatement(row, self.delete, key)
        if op in "TB" and self.empty is not None:
            return RowStatement(row, self.empty, {})
        return None if op in WHOLE_TABLE else RowStatement(row, self.statement, self.values(row))

    def values(self, row: Row) -> dict[str, Any]:
        """The parameters of the upsert. Raises: Unstorable, and what a value raises that is asked for its text."""
        found = {name: self._value(row, name) for name in self.taken}
        if _size(found) > (self.largest or inf):
            raise Unstorable("the row is larger than the `max_allowed_packet` of the server")
        return found

    def pieces(self, values: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        """The parameters of many rows, in as few executions as the server takes: the driver makes one statement of
        those of an execution, however small `max_allowed_packet` is."""
        first, size = 0, 0
        for at, found in enumerate(values if self.largest else ()):
            size += _size(found)
            if size > (self.largest or inf) and at > first:
                yield values[first:at]
                first, size = at, _size(found)
        yield values[first:]

    def key_of(self, row: Row) -> str | None:
        """What tells the row of the table from others; None for a change of all rows."""
        if self.delete is not None and row[OP] in WHOLE_TABLE:
            return None
        return repr([row[self.taken[name][0]] for name in self.key_columns])

    def _value(self, row: Row, name: str) -> Any:
        source, make = self.taken[name]
        if row[source] is None and name in self.key_columns:  # a unique key takes any number of such rows
            raise Unstorable(f'column "{name}" of `key_columns` has no value')
        try:
            return make(row[source])
        except Unstorable as wrong:
            raise Unstorable(f'column "{name}" cannot hold it: {wrong}') from None


def deleting(table: Table, key_columns: tuple[str, ...], texts: Set[str]) -> Delete:
    """The delete by key, with the parameters that `Upsert.step` gives.

    Args:
        texts: columns whose value is cast to text, as an INSERT does and a comparison does not.
    """
    given: dict[str, BindParameter[Any]] = {name: bindparam(f"key_{at}") for at, name in enumerate(key_columns)}
    same = [table.c[name] == (cast(value, Text) if name in texts else value) for name, value in given.items()]
    return table.delete().where(and_(*same))


def _size(found: Mapping[str, Any]) -> int:
    """Bytes that a statement with these parameters has at most."""
    return sum(map(size_of, found.values())) + REST_OF_STATEMENT * (1 + len(found))
