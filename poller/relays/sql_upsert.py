"""What is done to the table for a row: an upsert, or for changes of a captured table also a delete by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from math import inf
from secrets import randbelow
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Delete, Insert, Table, Text, Update, and_, bindparam, cast, or_
from sqlalchemy.sql.elements import ColumnElement

from poller.model.captured import OP, WHOLE_TABLE
from poller.model.row_changes import op_of
from poller.ports import Row
from poller.relays.sql_values import REST_OF_STATEMENT, Unstorable, size_of


class RowStatement(NamedTuple):
    """A statement for one row, and its parameters: none for one that empties the table.

    Attributes:
        statement: None if the table stays as it is. snapshot: the mark of the snapshot that is open behind it.
    """

    row: Row
    statement: Insert | Delete | None
    values: dict[str, Any]
    snapshot: int | None = None


@dataclass(frozen=True, slots=True)
class SnapshotSweep:
    """How rows are marked that a snapshot names, and how the others are deleted at its end.

    The mark is in a column of the row, so the upsert that writes a row marks it: no key is compared, which would miss
    rows whose key the column rounds, pads or compares without case, and then delete them. A table of marks would also
    double what a snapshot writes.

    Attributes:
        column: of the mark, 0 of a row that was written while no snapshot was open. delete: all rows without the mark.
            keep: marks one row by its key.
    """

    column: str
    delete: Delete
    keep: Update


@dataclass(frozen=True, slots=True)
class Upsert:
    """Statements for rows with certain columns.

    Attributes:
        statement: the upsert. taken: by column of the table: the column of the row, and what makes the table's value of
            its value. key_columns: of the table. delete, empty: for one row by its key and for all of them, if rows are
            changes that are carried out there; None if each row is written. sweep: None if rows are not marked.
            largest: bytes that a statement may have; None: as many as it likes.
    """

    statement: Insert
    taken: Mapping[str, tuple[str, Callable[[Any], Any]]]
    key_columns: tuple[str, ...]
    delete: Delete | None = None
    empty: Delete | None = None
    sweep: SnapshotSweep | None = None
    largest: int | None = None

    def step(self, row: Row, snapshot: int | None) -> RowStatement:
        """What is done for a row: a delete for D, an emptied table for T, else the upsert. A snapshot that begins (B)
        empties the table, or has a mark, and then what has another one is deleted at its end (E). Raises: as `values`;
        ValueError, for an operation that is not known.

        Args:
            snapshot: the mark of the snapshot that is open before it.
        """
        op = "U" if self.delete is None else op_of(row)
        if op == "D":
            return RowStatement(row, self.delete, self.key(row), snapshot)
        if op == "T":
            return RowStatement(row, self.empty, {}, snapshot)
        if op == "B":
            return RowStatement(row, self.empty, {}) if self.sweep is None else RowStatement(row, None, {}, _new_mark())
        if op == "E":
            swept = None if self.sweep is None or snapshot is None else self.sweep.delete
            return RowStatement(row, swept, {} if swept is None else {"mark": snapshot})
        mark = {} if self.sweep is None else {self.sweep.column: snapshot or 0}
        return RowStatement(row, self.statement, {**self.values(row), **mark}, snapshot)

    def key(self, row: Row) -> dict[str, Any]:
        """The parameters of `delete` and of `SnapshotSweep.keep`. Raises: as `values`."""
        return {f"key_{at}": self._value(row, name) for at, name in enumerate(self.key_columns)}

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


def sweeping(table: Table, column: str, key: ColumnElement[bool]) -> SnapshotSweep:
    """The statements of a table whose marks are in this column. `key`: of `key_is`."""
    mark = table.c[column]
    others = table.delete().where(or_(mark.is_(None), mark != bindparam("mark")))
    return SnapshotSweep(column, others, table.update().where(key).values({mark: bindparam("mark")}))


def key_is(table: Table, key_columns: tuple[str, ...], texts: Set[str]) -> ColumnElement[bool]:
    """A row is that of a key, with the parameters that `Upsert.key` gives.

    Args:
        texts: columns whose value is cast to text, as an INSERT does and a comparison does not.
    """
    given: dict[str, BindParameter[Any]] = {name: bindparam(f"key_{at}") for at, name in enumerate(key_columns)}
    return and_(*(table.c[name] == (cast(value, Text) if name in texts else value) for name, value in given.items()))


def _new_mark() -> int:
    """One that fits into an INTEGER, and that no earlier snapshot had, but by a chance of 1 to 2 ** 31."""
    return 1 + randbelow(2**31 - 1)


def _size(found: Mapping[str, Any]) -> int:
    """Bytes that a statement with these parameters has at most."""
    return sum(map(size_of, found.values())) + REST_OF_STATEMENT * (1 + len(found))
