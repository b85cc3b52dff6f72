"""The proof of a change table: each change begins where the last one of its key ended, and the last ones are the rows
of the table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

_ALL_DIGITS = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
MOST_SHOWN = 20
"""The most breaks that are kept with their words; further ones are counted."""


@dataclass(frozen=True, slots=True)
class Break:
    """One place where the chain does not hold. No value of a row is in it.

    Attributes:
        change: the id of the change; None for a row of the table. what: what is wrong, a clause.
    """

    change: int | None
    what: str


@dataclass(slots=True)
class _State:
    """A key's row after a change, as JSON; None if there is none."""

    row: str | None
    change: int


class Chain:
    """Takes changes in order, then the rows of the table.

    Args:
        key: the key's columns. since: the last change before the table's columns were known to be as they are now: up
            to it only keys are compared, not values. replaces: whether a row may be inserted over another of its key.

    Attributes:
        changes, rows: how many were taken. compared: rows of the table that a change knows. gaps: how many gaps were
        among the changes. count: of breaks. breaks: the first ones.
    """

    def __init__(self, key: tuple[str, ...], *, since: int = 0, replaces: bool = False) -> None:
        self._key = key
        self._since = since
        self._replaces = replaces
        self._states: dict[tuple[str, ...], _State] = {}
        self._emptied: int | None = None
        self.changes = self.rows = self.compared = self.gaps = self.count = 0
        self.breaks: list[Break] = []

    def take(self, change: int, op: str, old: str | None, new: str | None) -> None:
        """Take the next change: `I`, `U`, `D`, `T` (the table was emptied) or `X` (changes were missed)."""
        self.changes += 1
        if self._since and change > self._since:
            self._forget()
            self._since = 0
        match op:
            case "T":
                self._forget()
                self._emptied = change
            case "X":
                self.gaps += 1
                self._forget()
            case "I":
                self._inserted(change, new)
            case "U":
                self._updated(change, old, new)
            case "D":
                self._deleted(change, old)
            case _:
                self._break(change, f"its operation {op!r} is none that poller knows")

    def finish(self, rows: Iterable[str]) -> None:
        """Take the rows of the table as they are after the last change."""
        met = set()
        for text in rows:
            self.rows += 1
            key = self._key_of(text)
            if key is None:
                self._break(None, "a row of the table has no key")
                continue
            state = self._states.get(key)
            if state is not None:
                met.add(key)
                self.compared += 1
                if state.row is None:
                    self._break(state.change, "it deleted a row that is in the table")
                elif differ := differing(state.row, text):
                    self._break(state.change, f"the table's row differs from what it left in {_names(differ)}")
            elif self._emptied is not None:
                self._break(
                    None, f"the table has a row that no change inserted since change {self._emptied} emptied it"
                )
        for key, state in self._states.items():
            if state.row is not None and key not in met:
                self._break(state.change, "the row that it left is not in the table")

    def _inserted(self, change: int, new: str | None) -> None:
        key = self._key_of(new)
        if key is None or new is None:
            self._break(change, "it lacks the new row's key")
            return
        state = self._states.get(key)
        if state is not None and state.row is not None and not self._replaces:
            self._break(change, f"it inserts a row that change {state.change} left there")
        self._states[key] = _State(new, change)

    def _updated(self, change: int, old: str | None, new: str | None) -> None:
        key = self._key_of(new)
        if key is None or new is None:
            self._break(change, "it lacks the new row's key")
            return
        if old is not None and self._key_of(old) != key:
            self._break(change, "it changes the key")
        self._meets(change, key, old)
        self._states[key] = _State(new, change)

    def _deleted(self, change: int, old: str | None) -> None:
        key = self._key_of(old)
        if key is None:
            self._break(change, "it lacks the old row's key")
            return
        self._meets(change, key, old)
        self._states[key] = _State(None, change)

    def _meets(self, change: int, key: tuple[str, ...], old: str | None) -> None:
        """Compare a change's old row with what the key's last change left."""
        state = self._states.get(key)
        if state is None:
            if self._emptied is not None:
                self._break(change, f"its row was not there since change {self._emptied} emptied the table")
        elif state.row is None:
            self._break(change, f"change {state.change} deleted its row")
        elif old is not None and not self._since and (differ := differing(state.row, old)):
            self._break(change, f"its old row differs from what change {state.change} left in {_names(differ)}")

    def _forget(self) -> None:
        self._states.clear()
        self._emptied = None

    def _key_of(self, text: str | None) -> tuple[str, ...] | None:
        """The key of a row; None if it lacks one of its columns."""
        row = {} if text is None else _read(text)
        if any(row.get(name) is None for name in self._key):
            return None
        return tuple(_canonical(row[name]) for name in self._key)

    def _break(self, change: int | None, what: str) -> None:
        self.count += 1
        if len(self.breaks) < MOST_SHOWN:
            self.breaks.append(Break(change, what))


def differing(one: str, other: str) -> list[str]:
    """The columns in which two rows differ, of those that both have."""
    if one == other:
        return []
    left, right = _read(one), _read(other)
    return sorted(name for name in left.keys() & right.keys() if left[name] != right[name])


def _read(text: str) -> dict[str, Any]:
    """A row. One that is no JSON, or nested too deeply to be read, has no columns."""
    try:
        row = json.loads(text, parse_float=Decimal, parse_int=Decimal)  # int() refuses more than 4300 digits
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _canonical(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value.normalize(_ALL_DIGITS))
    return json.dumps(value, sort_keys=True, default=str)


def _names(columns: list[str]) -> str:
    return ", ".join(columns)
