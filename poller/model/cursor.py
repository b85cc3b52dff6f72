"""The cursor: a place in a table's (cursor column, primary key) order.

Pure values. The database renders the text of `value`, which is bound back with a CAST (sources.md, "Cursor fidelity"),
so this module never parses it: a loss of precision would redeliver for ever, or skip.
"""

from __future__ import annotations

import json
from typing import Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr, model_validator

CursorKind: TypeAlias = Literal["timestamp+pk", "integer+pk", "rowversion+pk", "xid8+pk"]

KeyValue: TypeAlias = StrictInt | StrictStr
"""A key part as JSON keeps it: integers as numbers; text, UUID, NUMERIC, dates and bytes (hex) as text."""


class Cursor(BaseModel):
    """A place in a source's order; everything up to and including it was delivered.

    Attributes:
        kind: what the cursor column is.
        value: the cursor column's value as the database renders it.
        tiebreaker: the key columns' values, by name. None means "at or after `value`": nothing of that value
            was delivered yet.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: CursorKind
    value: str
    tiebreaker: dict[str, KeyValue] | None = None

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        """A time or a number is never an empty text."""
        if not self.value:
            raise ValueError(f"value is empty, and a cursor of kind {self.kind} never is")
        return self

    @classmethod
    def trusted(cls, kind: CursorKind, value: str, tiebreaker: dict[str, KeyValue]) -> Self:
        """The same as `Cursor(...)`, of parts that a database gave: there is one per row, and nothing to check. Made as
        an unpickled copy is, in less time than by `model_construct`."""
        made = cls.__new__(cls)
        made.__setstate__(
            {
                "__dict__": {"kind": kind, "value": value, "tiebreaker": tiebreaker},
                "__pydantic_fields_set__": {"kind", "value", "tiebreaker"},
                "__pydantic_extra__": {},
                "__pydantic_private__": None,
            }
        )
        return made

    @property
    def place(self) -> tuple[object, ...]:
        """What it says of the place, without the fields that other programs keep in it; equal and hashed by that."""
        return self.kind, self.value, *sorted((self.tiebreaker or {}).items())

    def size(self) -> int:
        """Bytes that value and key take up in a document, at most."""
        texts = [self.value]
        for name, part in (self.tiebreaker or {}).items():
            texts += name, str(part)
        return sum(map(text_size, texts))

    def __str__(self) -> str:
        place = self.value
        if self.tiebreaker is None:
            return f"{place} (at or after)"
        return f"{place} / " + ", ".join(f"{k}={v}" for k, v in self.tiebreaker.items())


def text_size(text: str) -> int:
    """Bytes of a text as JSON; counted for the texts of most cursors, which are plain."""
    if text.isascii() and text.isprintable():
        return len(text) + text.count('"') + text.count("\\")
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))
