"""`poller capture`: what the databases have in common, as values. Triggers append each change of a table to a change
table, in the writer's own transaction.

What belongs to one family is in `poller.databases.FAMILY.capture`; what a person asks for in
`poller.admin.capture`. The names of a table and of its columns reach a statement only through `Quoter`.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

from sqlalchemy.engine import Connection, CursorResult

from poller.errors import PollerError

CAPTURES = "poller_captures"
"""The table that says which tables are captured, and how."""
RESERVED = ("_op", "_old", "_change", "_tx", "_at")
"""Columns that a captured row gets beside the table's own."""
TRIES = 10
"""The times that an installation waits for the locks of writers, before it is refused."""
LOCK_SECONDS = 3
"""The time that it waits each time, and makes later writers wait."""
PAUSE_SECONDS = 1.0
"""The time that writers have the table for themselves between two tries."""
SAMPLED = 1_000
"""Rows of the table from which its cost is estimated."""
_ENOUGH, _COLUMN_MICROSECONDS = 100, 0.3
"""The least rows whose JSON is timed; what a column of a row takes otherwise, measured on PostgreSQL 15."""
PAGE = 5_000
"""Changes that are read at a time."""

Standing = Literal["absent", "installed", "damaged", "removed"]
"""`absent`: there is no change table. `damaged`: it is there, and triggers are not as they were installed, or belong to
another table. `removed`: by `--remove`, which kept it."""


class CaptureRefusal(PollerError):
    """A table is not captured as it stands, and nothing was installed or removed."""

    exit_code: ClassVar[int] = 3


class Busy(Exception):
    """Writers held the table for `LOCK_SECONDS`; nothing was changed."""


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """What a person asks for.

    Attributes:
        poller: its name. schema, table: as configured. old: whether changes keep the old values; None: as installed
        before, else True. excluded: columns that are left out; None: as installed before, else none. accepted: what may
        be missed, `cascades` or `replace`.
        always: also for rows that replication applies. reader: the user that will read the change table, if it is
        another one.
    """

    poller: str
    schema: str | None
    table: str
    old: bool | None = None
    excluded: tuple[str, ...] | None = None
    accepted: tuple[str, ...] = ()
    always: bool = False
    reader: str | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """What one written row costs beside what it costs now.

    Attributes:
        rows: from how many rows it was estimated; 0: the table is empty, and the rest is of an empty row.
        json_bytes: of a row as JSON. bytes_per_change: that an UPDATE adds to the database, index included.
        microseconds: that an UPDATE of one row among many takes longer, without the way to the server.
    """

    rows: int
    json_bytes: int
    bytes_per_change: int
    microseconds: float


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """What installing does to one table.

    Attributes:
        table, changes: the table and its change table, for people. key: the columns of its primary key. columns: those
        that are captured. old: whether changes keep the old values. standing: what is there now. gap: why changes may
        have been missed, so that a gap is written first. statements: what is run, in this order. warnings: what is not
        seen, or may go wrong, a sentence each.
    """

    table: str
    changes: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    old: bool
    standing: Standing
    gap: str | None
    statements: tuple[str, ...]
    warnings: tuple[str, ...]
    cost: Cost


@dataclass(frozen=True, slots=True)
class Removed:
    """What removing did: whether triggers were there, and whether the change table was dropped."""

    table: str
    changes: str
    triggers: bool
    dropped: bool


@dataclass(frozen=True, slots=True)
class Registered:
    """The row of the table of captures: as it was installed."""

    key: tuple[str, ...]
    columns: dict[str, str]
    old: bool
    excluded: tuple[str, ...]
    accepted: tuple[str, ...]
    columns_since: int
    removed: bool

    @classmethod
    def of_json(cls, row: Sequence[Any], **more: Any) -> Self:
        """By a row of these values, whose lists the database keeps as JSON; `more`: what a family adds."""
        key, columns, old, excluded, accepted, since, removed = row
        keys, without, taken = (tuple(json.loads(one)) for one in (key, excluded, accepted))
        return cls(keys, json.loads(columns), bool(old), without, taken, since, bool(removed), **more)


class ChangeRow(NamedTuple):
    """One row of a change table; `old` and `new` are JSON texts."""

    id: int
    op: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """What the change table and the table say, in one snapshot.

    Attributes:
        table, changes: for people. key: the key's columns. since: the last change before a column got
        another type.
        replaces: whether a row may be inserted over another one of its key without a change of its own.
        rows_of_changes: the changes, in order. rows: of the table, as JSON texts; to be read after the changes.
    """

    table: str
    changes: str
    key: tuple[str, ...]
    since: int
    replaces: bool
    rows_of_changes: Iterable[ChangeRow]
    rows: Iterable[str]


class Capture(Protocol):
    """Capture of one table on one connection, which is in autocommit. Each method has transactions of its own."""

    def __init__(self, connection: Connection, wanted: CaptureRequest) -> None: ...

    def plan(self) -> CapturePlan:
        """What installing would do; changes nothing. Raises: Refusal; what the driver raises."""
        ...

    def install(self) -> CapturePlan:
        """Install, or install again. Raises: Refusal; Busy; what the driver raises; then nothing was installed."""
        ...

    def remove(self, *, changes: bool) -> Removed:
        """Drop the triggers, and with `changes` the change table. Raises: as `install`."""
        ...

    def record(self, most: int) -> AbstractContextManager[Record]:
        """The record of the newest `most` changes, whose snapshot ends with the context. Raises: Refusal; what the
        driver raises."""
        ...


class Quoter:
    """Quotes names and texts for statements that are run as they stand, without parameters.

    Args:
        literal: quotes a text.
    """

    def __init__(self, connection: Connection, literal: Callable[[str], str]) -> None:
        self._preparer: Any = connection.dialect.identifier_preparer
        self._doubles = bool(getattr(self._preparer, "_double_percents", False))
        self.text = literal

    def __call__(self, *names: str) -> str:
        """Names with a dot between them, each quoted."""
        quoted = (self._preparer.quote_identifier(name) for name in names)
        return ".".join(one.replace("%%", "%") if self._doubles else one for one in quoted)

    def texts(self, values: Iterable[str]) -> str:
        """Texts with a comma between them."""
        return ", ".join(map(self.text, values))


def run(connection: Connection, statement: str) -> CursorResult[Any]:
    """Run a statement as it stands. Raises what the driver raises."""
    return connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


@contextmanager
def transaction(connection: Connection, *begin: str) -> Iterator[None]:
    """A transaction that these statements begin, on a connection in autocommit. Raises what the driver raises."""
    for statement in begin:
        run(connection, statement)
    try:
        yield
        run(connection, "COMMIT")
    except BaseException:
        if getattr(connection.connection.dbapi_connection, "in_transaction", True):  # SQLite may have ended it
            run(connection, "ROLLBACK")
        raise


def named(pattern: str, table: str, longest: int, size: Callable[[str], int] = len) -> str:
    """A name made of a table's, such as `poller_{}_changes`; one that would be too long for the database is cut, and
    has a hash of the table's name.

    Args:
        longest: the most that a name has of what `size` counts.
    """
    name = pattern.format(table)
    if size(name) <= longest:
        return name
    mark = "_" + hashlib.sha256(table.encode()).hexdigest()[:8]
    while size(pattern.format(table + mark)) > longest:
        table = table[:-1]
    return pattern.format(table + mark)


def check_columns(what: str, columns: Sequence[str], key: Sequence[str], excluded: Sequence[str]) -> None:
    """Raises: Refusal, for a table without a key, with a column that captured rows get, or for columns that are to be
    left out and cannot be."""
    if not key:
        raise CaptureRefusal(
            f"{what}: the table has no primary key, so a change could not say which row it is of.",
            next_step="Add a primary key, then run the command again.",
        )
    taken = [name for name in columns if name in RESERVED]
    if taken:
        raise CaptureRefusal(
            f"{what}: the table has a column {taken[0]}, a name that captured rows use for themselves.",
            next_step="Rename the column.",
        )
    if unknown := [name for name in excluded if name not in columns]:
        raise CaptureRefusal(
            f"{what}: --exclude names {unknown[0]}, and the table has no such column.", next_step="Correct it."
        )
    if kept := [name for name in excluded if name in key]:
        raise CaptureRefusal(
            f"{what}: --exclude names {kept[0]}, a column of the key, which every change needs.",
            next_step="Leave it out.",
        )


def settled(
    wanted: CaptureRequest, before: Registered | None, columns: Collection[str], *accepted: str
) -> tuple[bool, tuple[str, ...], tuple[str, ...]]:
    """How a table is to be captured: whether old values are kept, the columns that are left out, and what may be
    missed: as wanted, or as before, of the columns those that are still there."""
    if before is None:
        return wanted.old is not False, wanted.excluded or (), tuple(sorted({*wanted.accepted, *accepted}))
    old, without = wanted.old, wanted.excluded
    return (
        before.old if old is None else old,
        tuple(name for name in before.excluded if name in columns) if without is None else without,
        tuple(sorted({*wanted.accepted, *accepted, *before.accepted})),
    )


def left_out_and_gone(what: str, before: tuple[str, ...], columns: Iterable[str]) -> Iterator[str]:
    """The warning of a column that was left out, and is not there by this name any more."""
    if gone := [name for name in before if name not in set(columns)]:
        yield f"{what}: column {gone[0]}, which was left out, is gone: if it was renamed, it is captured now."


def estimated(
    connection: Connection, sample: str, size: str, columns: int, *, old: bool, change: int, write: float
) -> Cost:
    """The cost of an UPDATE, by the first rows of the table, whose JSON is timed. Raises what the driver raises.

    Args:
        sample: `FROM` of at most `SAMPLED` rows. size: the expression that is the size of a row as JSON. columns: their
            number, which counts where there are too few rows to time. change: bytes of a change without its rows, index
            included. write: microseconds of writing it without making JSON.
    """
    found, times = [], []
    for asked in ("count(*)", f"avg({size})"):
        began = time.perf_counter()
        found.append(run(connection, f"SELECT {asked} FROM {sample}").scalar_one())  # noqa: S608
        times.append(time.perf_counter() - began)
    rows, json_bytes, seconds = int(found[0]), float(found[1] or 0), max(0.0, times[1] - times[0])
    rows_of_change = 2 if old else 1
    each = seconds * 1e6 / rows if rows >= _ENOUGH else columns * _COLUMN_MICROSECONDS
    return Cost(
        rows=rows,
        json_bytes=round(json_bytes),
        bytes_per_change=round(change + rows_of_change * json_bytes),
        microseconds=round(write + rows_of_change * each, 1),
    )


def changes_after(connection: Connection, select: str, after: int) -> Iterator[ChangeRow]:
    """The changes after a number, in pages. `select`: what selects id, op, old and new. Raises what the driver
    raises."""
    while True:
        page = run(connection, f"{select} WHERE id > {after} ORDER BY id LIMIT {PAGE}").all()
        yield from (ChangeRow._make(row) for row in page)
        if len(page) < PAGE:
            return
        after = page[-1][0]


def columns_since(before: Registered | None, now: Mapping[str, str], changes: str) -> str:
    """An expression: the last change before a column got another type, so that its values may be written otherwise.
    `changes`: the change table, quoted."""
    if before is not None and any(now.get(name, of) != of for name, of in before.columns.items()):
        return f"(SELECT coalesce(max(id), 0) FROM {changes})"  # noqa: S608 - quoted
    return "0" if before is None else str(before.columns_since)


def upsert(captures: str, values: Mapping[str, str]) -> str:
    """The statement that writes the row of a change table, the first of these values, of databases that have ON
    CONFLICT."""
    changed = ", ".join(f"{name} = excluded.{name}" for name in list(values)[1:])
    return (
        f"INSERT INTO {captures} ({', '.join(values)}) VALUES ({', '.join(values.values())}) "  # noqa: S608 - quoted
        f"ON CONFLICT (change_table) DO UPDATE SET {changed}, removed_at = NULL"
    )


def forget(connection: Connection, changes: str, captures: str, row: str) -> None:
    """Drop a change table with its row, and after the last one the table of captures. Raises what the driver raises."""
    run(connection, f"DROP TABLE IF EXISTS {changes}")
    run(connection, f"DELETE FROM {captures} {row}")  # noqa: S608 - quoted
    if not run(connection, f"SELECT 1 FROM {captures} LIMIT 1").all():  # noqa: S608
        run(connection, f"DROP TABLE {captures}")


def foreign(what: str, name: str) -> CaptureRefusal:
    """The refusal where something else has a name that capture needs."""
    return CaptureRefusal(
        f"{what}: there is a {name} that poller did not make.",
        next_step="Rename it, or drop it, then run the command again.",
    )


def not_installed(what: str, poller: str) -> CaptureRefusal:
    """The refusal where no triggers are installed for a poller's table."""
    return CaptureRefusal(
        f"{what}: the table is not captured.", next_step=f"Install it: poller capture {poller} --install"
    )
