"""The columns that a cursor is made of: which family of values each holds, the CAST from a text to it, the texts
that are made here, and what keeps a key unique."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from poller.sources.columns.moments import TextForm

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Inspector


class Family(enum.StrEnum):
    """Kinds of values that differ in how a database writes them as text and reads them back."""

    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamp with a zone"
    DATE = "date"
    INTEGER = "integer"
    NUMERIC = "numeric"
    TEXT = "text"
    UUID = "uuid"
    BYTES = "bytes"
    OTHER = "other"
    """Anything whose text the database casts back to the same value (an enum, an address)."""
    UNFIT = "unfit"
    """Floating point, JSON and the like: no exact text, or comparison and sorting order differently."""


MOMENTS = frozenset({Family.TIMESTAMP, Family.TIMESTAMPTZ, Family.DATE})
NUMBERS = frozenset({Family.INTEGER, Family.NUMERIC})

RENDERED_BY_DATABASE = MOMENTS | {Family.OTHER}
"""Key parts whose text only the database writes without loss; drivers return the others exactly."""


@dataclass(frozen=True, slots=True)
class Odd:
    """A row whose text has another form than the column's first.

    Attributes:
        form: the first row's. value: this row's, as text. key: of this row, by column.
    """

    form: TextForm
    value: str
    key: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class CursorColumn:
    """One column that the cursor rests on.

    Attributes:
        name: as in the database.
        family: which kind of values.
        sql_type: the type of a CAST back to it; empty if a value is bound as it is.
        digits: how many fractional digits of a second the type can hold.
        nullable: whether it may be NULL; None if that is unknown (a view, a query).
        form: SQLite only: how its stored text is written; None where `odd` is set.
        odd: a row whose text has another form than the first one's, if there is one.
        collation: of a key's text, by which the database sorts it, with its version; None if it has none, or it is not
            known.
    """

    name: str
    family: Family
    sql_type: str = ""
    digits: int = 6
    nullable: bool | None = None
    form: TextForm | None = None
    odd: Odd | None = None
    collation: str | None = None


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """How the values of a column are written.

    Attributes:
        kind: the only type that they may have. text: of one value, as `Dialect.render` has it written.
        zoned: whether the values are times with a zone (of any zone: instants); None where they are no times.
        alike: whether the driver gives all values of the column this type, or fails.
    """

    kind: type
    text: Callable[[Any], str]
    zoned: bool | None = None
    alike: bool = False

    def covers(self, records: Sequence[Sequence[Any]], place: int) -> bool:
        """True if the text of each of these, in the column's order, can be made here. The ends of Python's calendar are
        left to the database: an instant of them may be of another year in UTC."""
        if not records:
            return True
        first, last = records[0][place], records[-1][place]
        looked_at = (records[0], records[-1]) if self.alike else records
        if set(map(type, map(itemgetter(place), looked_at))) != {self.kind}:
            return False
        if not isinstance(first, date):
            return True
        return first.year > 1 and last.year < 9999 and self.zoned == (getattr(first, "tzinfo", None) is not None)


_UNZONED = len("2026-01-01T00:00:00.000000")


def _instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds")[:_UNZONED] + "Z"


def _naive(value: datetime) -> str:
    return value.isoformat(timespec="microseconds")


NAIVE_UTC = ValueFormat(datetime, lambda value: _naive(value) + "Z", zoned=False)
"""Instants that the driver returns without a zone, in a session in UTC."""
_EXACT = {
    Family.TIMESTAMPTZ: ValueFormat(datetime, _instant, zoned=True),
    Family.TIMESTAMP: ValueFormat(datetime, _naive, zoned=False),
    Family.DATE: ValueFormat(date, date.isoformat, zoned=False),
    Family.INTEGER: ValueFormat(int, str),
    Family.TEXT: ValueFormat(str, str),
}


def exact_of(column: CursorColumn) -> ValueFormat | None:
    """Of times, dates, integers and texts in the form of sources.md, "Cursor fidelity"; None for the other families."""
    return _EXACT.get(column.family)


@dataclass(frozen=True, slots=True)
class Reflected:
    """What the catalog says of a table or view.

    Attributes:
        columns: by name, in order, in SQLAlchemy's words; `nullable` is None where NOT NULL is declared and not
            enforced in all that a SELECT of the table reads.
        is_base: True if it is a table. inherited: True if others inherit from it: no index spans them all.
        version: as `Dialect.watch` asks for it again, where no result and no time shows that a key was changed.
        primary: the primary key's columns, and index: the number of its index, if the database has such numbers.
    """

    columns: dict[str, dict[str, Any]]
    is_base: bool
    inherited: bool = False
    version: str | None = None
    primary: tuple[str, ...] = ()
    index: int | None = None


# --------------------------------------------------------------------------------------------------------- exact values
# Where a driver returns a column's value with nothing lost, its text is made here, as the database would write it.
# A page then has no second column for the cursor's text, and the text is made of the rows whose cursor is asked for:
# mostly the last one. Values that Python cannot hold, or that the database writes in another form, it renders itself.


# ----------------------------------------------------------------------------------------------------------- uniqueness
# Which constraints and indexes really keep a key unique and NOT NULL.


@dataclass(frozen=True, slots=True)
class Proof:
    """What constraints prove of a key; without it rows would be skipped or repeated without any error.

    Attributes:
        unique: whether a constraint or full index covers it. others: the sets of columns that are unique, for a person.
        nullable: its columns that may be NULL.
    """

    unique: bool
    others: str
    nullable: Sequence[str]


def proof_of(
    sets: tuple[Sequence[str], Sequence[Sequence[str]]], key: Sequence[str], columns: Mapping[str, Mapping[str, Any]]
) -> Proof:
    """True if a key is unique and NOT NULL, given `Dialect.unique_sets` and `Dialect.reflected`."""
    primary, unique = sets
    return Proof(
        unique=any(names and set(names) <= set(key) for names in unique),
        others="; ".join(", ".join(names) for names in unique if names),
        # SQLite reports primary keys as nullable; rows are checked instead.
        nullable=[name for name in key if columns[name].get("nullable") and name not in primary],
    )


def reflected_sets(inspector: Inspector, table: str, schema: str | None) -> tuple[list[str], list[list[str]]]:
    """`Dialect.unique_sets`, as SQLAlchemy says it."""
    primary = list(inspector.get_pk_constraint(table, schema=schema).get("constrained_columns") or [])
    unique = [primary] if primary else []
    unique += [list(c["column_names"]) for c in inspector.get_unique_constraints(table, schema=schema)]
    for index in inspector.get_indexes(table, schema=schema):
        partial = any(name.endswith("_where") and value is not None for name, value in _options_of(index).items())
        if index["unique"] and not partial and None not in index["column_names"] and not index.get("expressions"):
            unique.append([str(name) for name in index["column_names"]])
    return primary, unique


def quoted(table: str, schema: str | None = None) -> str:
    """A name quoted as in standard SQL: for SQLite's statements, and for PostgreSQL's `to_regclass`, which takes it as
    a value."""
    parts = [table] if schema is None else [schema, table]
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def connection_of(inspector: Inspector) -> Connection:
    """The held connection that it inspects over."""
    from sqlalchemy.engine import Connection  # who only reads moments loads no SQLAlchemy

    assert isinstance(inspector.bind, Connection)  # noqa: S101 - no engine is ever inspected
    return inspector.bind


def _options_of(index: Any) -> dict[str, Any]:
    return dict(index.get("dialect_options") or {})
