"""What a column is to a cursor: which family of values it holds, and what CAST gives a text back to it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from poller.sources.columns.moments import TextForm


class Family(enum.StrEnum):
    """Kinds of values that differ in how a database renders them and takes them back."""

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
    """Floating point, JSON and the like: no exact text, or no order that comparison and sorting share."""


MOMENTS = frozenset({Family.TIMESTAMP, Family.TIMESTAMPTZ, Family.DATE})
NUMBERS = frozenset({Family.INTEGER, Family.NUMERIC})

RENDERED_BY_DATABASE = MOMENTS | {Family.OTHER}
"""Key parts whose text only the database writes without loss; drivers hand over the others exactly."""


@dataclass(frozen=True, slots=True)
class Odd:
    """A row whose text is not written in the form of the column's first.

    Attributes:
        form: the first row's. value: this row's text, or whatever it is. key: of this row, by column.
    """

    form: TextForm
    value: str
    key: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One column that the cursor rests on.

    Attributes:
        name: as it stands in the database.
        family: which kind of values.
        sql_type: what a CAST back to it names; empty where a value is bound as it is.
        digits: how many fractional digits of a second the type can hold.
        nullable: whether it may be NULL; None where nobody can tell (a view, a query).
        form: SQLite only: how its stored text is written; None where `odd` is not.
        odd: a row that does not write it like the first one, where there is one.
    """

    name: str
    family: Family
    sql_type: str = ""
    digits: int = 6
    nullable: bool | None = None
    form: TextForm | None = None
    odd: Odd | None = None
