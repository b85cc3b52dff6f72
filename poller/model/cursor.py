"""The cursor: where in a table's (cursor column, primary key) order we stand.

Pure values. The text of `value` is rendered by the database and bound back with a CAST (sources.md, "Cursor fidelity"),
so this module never parses it: what loses precision here would redeliver for ever, or skip.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

CursorKind: TypeAlias = Literal["timestamp+pk", "integer+pk", "rowversion+pk", "xid8+pk", "pk"]

KeyValue: TypeAlias = StrictInt | StrictStr
"""A key part as JSON keeps it: integers as numbers; text, UUID, NUMERIC, dates and bytes (hex) as text."""


class Cursor(BaseModel):
    """A position in a source's order; everything up to and including it was delivered.

    Attributes:
        kind: what the cursor column is.
        value: the cursor column's value as the database renders it.
        tiebreaker: the key columns' values, by name. None means "at or after `value`": nothing of that value
            was delivered yet.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: CursorKind
    value: Annotated[str, Field(min_length=1)]
    tiebreaker: dict[str, KeyValue] | None = None

    def __str__(self) -> str:
        if self.tiebreaker is None:
            return f"{self.value} (at or after)"
        return f"{self.value} / " + ", ".join(f"{k}={v}" for k, v in self.tiebreaker.items())
