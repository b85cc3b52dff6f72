"""The columns that a cursor is made of: which family of values each holds, and the CAST from a text to it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from poller.sources.columns.moments import TextForm


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
class Column:
    """One column that the cursor rests on.

    Attributes:
        name: as in the database.
        family: which kind of values.
        sql_type: the type of a CAST back to it; empty where a value is bound as it is.
        digits: how many fractional digits of a second the type can hold.
        nullable: whether it may be NULL; None where that is unknown (a view, a query).
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
