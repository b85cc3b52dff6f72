"""The cursor: a place in a table's (cursor column, primary key) order.

Pure values. The database renders the text of `value`, which is bound back with a CAST (sources.md, "Cursor fidelity"),
so this module never parses it: a loss of precision would redeliver for ever, or skip.
"""

from __future__ import annotations

import json
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr, model_validator

CursorKind: TypeAlias = Literal["timestamp+pk", "integer+pk", "rowversion+pk", "xid8+pk"]

KeyValue: TypeAlias = StrictInt | StrictStr
"""A key part as JSON keeps it: integers as numbers; text, UUID, NUMERIC, dates and bytes (hex) as text."""


_SNAPSHOT = "snapshot"


class Snapshot(BaseModel):
    """How far the snapshot of a captured table got (docs/capture.md).

    Attributes:
        after: the key of the last row that was passed, by column, as its change would have it; None before the first.
        done: all rows are passed, and only its end (`E`) is left.
    """

    model_config = ConfigDict(frozen=True)

    after: dict[str, Any] | None = None
    done: bool = False


class Cursor(BaseModel):
    """A place in a source's order; everything up to and including it was delivered.

    Attributes:
        kind: what the cursor column is.
        value: the cursor column's value as the database renders it.
        tiebreaker: the key columns' values, by name. None means "at or after `value`": nothing of that value
            was delivered yet.

    In a snapshot of a captured table it has a field `snapshot` too, which a document without one does not have.
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

    @model_validator(mode="after")
    def _snapshot_is_one(self) -> Self:
        """Raises: ValidationError, for a snapshot that is none."""
        _ = self.snapshot
        return self

    @property
    def snapshot(self) -> Snapshot | None:
        """How far the snapshot got; None if there is none, or it is over."""
        found = (self.model_extra or {}).get(_SNAPSHOT)
        return None if found is None else Snapshot.model_validate(found)

    @property
    def read(self) -> dict[str, KeyValue] | None:
        """Behind a row that a snapshot read: its key in the table, as texts; None behind a change."""
        snapshot, tie = self.snapshot, self.tiebreaker
        if snapshot is None or snapshot.after is None or not tie or str(next(iter(tie.values()))) == self.value:
            return None
        return {name: str(value) for name, value in snapshot.after.items()}

    def within(self, snapshot: Snapshot | None) -> Self:
        """The same place in a snapshot; None: in none."""
        if snapshot is not None:
            return self.model_copy(update={_SNAPSHOT: snapshot.model_dump()})
        copied = self.model_copy()
        (copied.model_extra or {}).pop(_SNAPSHOT, None)
        return copied

    def with_fields_of(self, former: Cursor | None) -> Self:
        """With the fields that other programs keep in a former one."""
        others = {} if former is None else former.model_extra or {}
        return self.model_copy(update={name: value for name, value in others.items() if name != _SNAPSHOT})

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
        if self.model_extra and _SNAPSHOT in self.model_extra:
            texts.append(json.dumps(self.model_extra[_SNAPSHOT], ensure_ascii=False))
        return sum(map(text_size, texts))

    def __str__(self) -> str:
        place = self.value
        if self.tiebreaker is None:
            return f"{place} (at or after{self._in_snapshot()})"
        return f"{place} / " + ", ".join(f"{k}={v}" for k, v in self.tiebreaker.items()) + self._in_snapshot()

    def _in_snapshot(self) -> str:
        """For people."""
        snapshot = self.snapshot
        if snapshot is None:
            return ""
        if snapshot.after is None:
            return ", snapshot at its beginning"
        return ", snapshot behind " + ", ".join(f"{name}={value}" for name, value in snapshot.after.items())


def text_size(text: str) -> int:
    """Bytes of a text as JSON; counted for the texts of most cursors, which are plain."""
    if text.isascii() and text.isprintable():
        return len(text) + text.count('"') + text.count("\\")
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))
