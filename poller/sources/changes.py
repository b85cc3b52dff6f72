"""How the change table of a captured table is read, as far as that differs from family to family."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases.capture import CaptureRefusal
from poller.errors import SourceError

Values = Mapping[str, Any]
_OF_ROWS = frozenset("IUD")
Same = Callable[[str], str]
"""Makes of the text of a key's value one that is the same for all values that the database takes for equal."""
ROW = "poller_row"
"""The name of the table's rows where a snapshot reads them."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What `poller capture` installed, and the table as it is now.

    Attributes:
        what: the table, for people. key: the columns of its key. columns: the types of those that are captured, by
            name, in the table's order. source, captures: the table and the table of captures, SQL for
            `sqlalchemy.text`.
        trouble: why changes are or may be missing from now on, and what to do about it; None if all is as installed.
        made_at: when the change table was made, as text. pruned_through: the last change that was pruned; 0 if none
            was.
    """

    what: str
    key: tuple[str, ...]
    columns: Mapping[str, str]
    source: str
    captures: str
    trouble: tuple[str, str] | None = None
    made_at: str = ""
    pruned_through: int = 0
    row: str = ""
    """The expression that makes of a row of the table, named `ROW`, the JSON that its change has; SQL for
    `sqlalchemy.text`."""
    read_as: Mapping[str, str] = field(default_factory=dict)
    """The types by which the values of a change are read, if not all are the table's own; empty: they are."""
    same: Mapping[str, Same] = field(default_factory=dict)
    """For columns of the key in which equal values may be written differently."""
    collations: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Character set and collation of columns of the key, if the server says which of their values are equal."""


class Head(NamedTuple):
    """A change without its values.

    Attributes:
        key: of its row, as texts. order: the same for all keys that the database takes for equal, as changes of one row
            must come in order, however its key is written. is_whole: it is of one row, and names it.
    """

    id: int
    op: str
    key: tuple[str | None, ...]
    order: tuple[str | None, ...]
    is_whole: bool


class ValuedChange(NamedTuple):
    """A change with its values.

    Attributes:
        new: the row after it, by column; None of a deletion. old: the row before it; None of an insertion, and if old
            values are not kept. tx, at: see `poller.model.captured`.
    """

    id: int
    op: str
    new: Values | None
    old: Values | None
    tx: str | None
    at: datetime

    @property
    def row(self) -> Values:
        """The values that its row has: of a deletion the former ones."""
        return (self.old if self.op == "D" else self.new) or {}


class ChangeTable(ABC):
    """The change table of one table.

    Attributes:
        table, schema: of the table, as configured. name: of its change table. quote: quotes names, for
            `sqlalchemy.text`. poller: its name, for messages.
    """

    def __init__(self, table: str, schema: str | None, quote: Callable[[str], str]) -> None:
        self.table = table
        self.schema = schema
        self.quote = quote
        self.name = self.named(table)
        self.poller = "NAME"

    @staticmethod
    @abstractmethod
    def named(table: str) -> str:
        """The name of a table's change table."""

    @abstractmethod
    def look(self, connection: Connection) -> Installed | None:
        """What is installed, and whether the table is still as it was then; None if nothing is. Asks with SELECT alone.
        Raises: Refusal, without such a table; what the driver raises."""

    sees_triggers: ClassVar[bool] = True
    """True if a user who may only read sees whether triggers are there."""
    json_is_text: ClassVar[bool] = True
    """True if the values of a column of the type JSON are texts, which do not say it."""
    made_at: ClassVar[str] = "made_at"
    """An expression: when the change table was made, as text; SQL for `sqlalchemy.text`."""

    def state(self, captures: str) -> str:
        """A SELECT of when the change table `:changes` was made, and of the last change that was pruned."""
        return f"SELECT {self.made_at}, pruned_through FROM {captures} WHERE change_table = :changes"  # noqa: S608

    def _installed(self, connection: Connection, installed: Installed) -> Installed | None:
        """With what its row of the table of captures says now; None without such a row."""
        found = connection.execute(sa.text(self.state(installed.captures)), {"changes": self.name}).first()
        return None if found is None else replace(installed, made_at=str(found[0]), pruned_through=int(found[1]))

    def selects(self, relation: str, installed: Installed) -> tuple[str, Sequence[str]]:  # noqa: ARG002
        """What follows the change table `relation` in FROM, and the expressions that are selected behind its `id`; SQL
        for `sqlalchemy.text`."""
        return "", [f"{relation}.{self.quote(name)}" for name in ("op", "at", "old", "new")]

    def head(self, found: Values, installed: Installed) -> Head:
        """What a change is, by what was selected."""
        op = str(found["op"])
        row = _read(found["old"] if op == "D" else found["new"])
        key = tuple(key_text(row.get(name)) for name in installed.key)
        return Head(int(found["id"]), op, key, ordered(key, installed), op in _OF_ROWS and None not in key)

    @abstractmethod
    def change(self, found: Values, installed: Installed) -> ValuedChange:
        """The change, by what was selected."""

    # -------------------------------------------------------------------------------------------- the table's own rows

    read: ClassVar[str]
    """The columns that a change has and a row of the table has not, as expressions; SQL for `sqlalchemy.text`."""

    def rows(self, relation: str, installed: Installed, after: Values | None, limit: int) -> tuple[str, dict[str, Any]]:
        """A SELECT of rows of the table by their key, and its parameters: each as a change with the operation R, whose
        id is its place in the result, from 1. `relation`: as for `selects`. `after`: a place as `place` has it.

        Raises: SourceError, for a key whose order a place cannot say.
        """
        names, (where, given) = [self.quote(name) for name in installed.key], self._behind(installed, after)
        columns, order = ", ".join(map(self.quote, installed.columns)), ", ".join(names)
        some = f"SELECT {columns} FROM {installed.source}{where} ORDER BY {order} LIMIT {limit}"  # noqa: S608 - quoted
        by = ", ".join(f"{ROW}.{name}" for name in names)
        made = (
            f"SELECT row_number() OVER (ORDER BY {by}) AS id, 'R' AS op, {self.read}, "  # noqa: S608 - quoted
            f"{installed.row} AS {self.quote('new')} FROM ({some}) AS {ROW}"
        )
        joined, chosen = self.selects(relation, installed)
        selected = ", ".join([f"{relation}.id", *chosen])
        return f"SELECT {selected} FROM ({made}) AS {relation}{joined} ORDER BY {relation}.id", given  # noqa: S608

    def left(self, installed: Installed, after: Values | None, most: int) -> tuple[str, dict[str, Any]]:
        """A SELECT of the number of those rows, counted up to `most`, and its parameters. Raises: as `rows`."""
        order, (where, given) = ", ".join(map(self.quote, installed.key)), self._behind(installed, after)
        some = f"SELECT 1 AS one FROM {installed.source}{where} ORDER BY {order} LIMIT {most}"  # noqa: S608 - quoted
        return f"SELECT count(*) FROM ({some}) AS {ROW}", given  # noqa: S608

    def _behind(self, installed: Installed, after: Values | None) -> tuple[str, dict[str, Any]]:
        """The condition of rows behind a place, and what it binds; none from the beginning."""
        if after is None:
            return "", {}
        if set(after) != set(installed.key):
            raise SourceError(
                f"{installed.what}: the snapshot was of another key ({', '.join(after)}).",
                table=self.table,
                next_step=f"Begin again: poller reset {self.poller} --to snapshot",
            )
        parts = [self._bound(f"key_{at}", name, after[name], installed) for at, name in enumerate(installed.key)]
        given = {f"key_{at}": value for at, (_, value) in enumerate(parts)}
        return f" WHERE {self._greater([self.quote(name) for name in installed.key], [sql for sql, _ in parts])}", given

    @staticmethod
    def _greater(names: Sequence[str], values: Sequence[str]) -> str:
        return f"({', '.join(names)}) > ({', '.join(values)})"

    @abstractmethod
    def _bound(self, parameter: str, name: str, value: Any, installed: Installed) -> tuple[str, Any]:
        """What a key column is compared with: an expression of a parameter, and the parameter's value."""

    def place(self, found: Values, installed: Installed) -> dict[str, Any]:
        """The key of a row that `rows` selected, by column, as JSON. Raises: SourceError, if the row is no JSON."""
        row = _read(found["new"])
        if any(row.get(name) is None for name in installed.key):
            raise SourceError(
                f"{installed.what}: a row cannot be written as JSON, so that no snapshot has it.",
                table=self.table,
                next_step="Look for a row that is larger than the server takes as JSON, or leave a column out: poller"
                f" capture {self.poller} --install --exclude COLUMN",
            )
        return {name: row[name] for name in installed.key}

    @property
    def install(self) -> str:
        """The command that installs."""
        return f"poller capture {self.poller} --install"

    def differs(self, before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, str] | None:
        """How the columns differ from those that were installed, and what to do about it; None if they do not."""
        for name, kind in now.items():
            if name not in before:
                return f"column {name} was added since it was installed, and is not captured.", self._again
            if before[name] != kind:
                return f"column {name} is {kind} now, and was {before[name]} when it was installed.", self._again
        if gone := [name for name in before if name not in now]:
            return f"column {gone[0]} was dropped or renamed since it was installed.", self._again
        return None

    def unfit(self, what: str, check: Callable[[], None]) -> tuple[str, str] | None:
        """Why a table would not be captured as it is now, and what to do about it; None if it would. `check`: refuses
        it."""
        try:
            check()
        except CaptureRefusal as refused:
            return refused.message.removeprefix(f"{what}: "), f"{refused.next_step} Then: {self.install}"
        return None

    @property
    def _again(self) -> str:
        return f"Run {self.install}: what is as it should be stays, and no write is missed meanwhile."

    def damaged(self, why: str) -> tuple[str, str]:
        """Changes may be missing, and what to do about it."""
        step = f"Run {self.install}: it writes a gap, before which the poller stops and says how to go on."
        return f"{why}: changes may not be written.", step


def one(text: str) -> str:  # noqa: ARG001
    """A `Same` for values if poller cannot say which are equal: all come in order."""
    return ""


def ordered(key: tuple[str | None, ...], installed: Installed) -> tuple[str | None, ...]:
    """What `Head.order` is of a key, by the rules of its columns."""
    if not installed.same:
        return key
    rules = (installed.same.get(name) for name in installed.key)
    return tuple(text if text is None or rule is None else rule(text) for rule, text in zip(rules, key, strict=True))


def key_text(value: Any) -> str | None:
    """A value of a key, as text that is the same for the same value."""
    return value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)


def _read(text: Any) -> dict[str, Any]:
    """A row as it was captured. One that is no JSON has no columns."""
    try:
        row = json.loads(text) if text is not None else {}
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def captured_row(text: Any) -> dict[str, Any] | None:
    """A row as it was captured; None without one."""
    return None if text is None else _read(text)
