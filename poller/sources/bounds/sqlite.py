"""SQLite's bound: there is one writer at a time, and `strftime('now')` in its statement is taken under its lock.

So the clock that is read while nobody holds that lock is a bound: whoever writes later takes a later stamp. The lock is
taken for one statement. Where somebody else has it, an open transaction may hold earlier stamps, but none earlier than
what was committed before it began: then the greatest stamp that is committed is the bound.
Stamps that an application made itself are not covered; they need `commit_delay` (sources.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from poller.ports import Bound
from poller.sources.bounds.base import BoundContext, BoundStrategy
from poller.sources.bounds.heuristic import HighestSeen
from poller.sources.bounds.named_tables import tables
from poller.sources.columns.moments import iso_text
from poller.sources.columns.uniqueness import quoted
from poller.sources.dialects.read_only import lifted

_CLOCK = sa.text("SELECT strftime('%Y-%m-%dT%H\\:%M\\:%f', 'now')")
_VIRTUAL = re.compile(r"CREATE\s+VIRTUAL\s+TABLE\b.*?\bUSING\s+(\w+)", re.IGNORECASE | re.DOTALL)
_VIEW = re.compile(r"CREATE\s+VIEW\b", re.IGNORECASE)
_OWN = frozenset({"fts3", "fts4", "fts5", "rtree", "rtree_i32", "geopoly"})
_NO_CODE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_AUTOINCREMENT = re.compile(r"\bautoincrement\b", re.IGNORECASE)
LOCK_WAIT_MS = 20
"""How long to wait for a writer to end: long enough for one that is about to, short beside a tick."""


class WriteLock:
    """The clock, read under the write lock."""

    kind = "exact"

    def __init__(self, context: BoundContext, reason: str) -> None:
        self._context = context
        self._reason = reason
        self._free: datetime | None = None
        """The clock when the lock was last had. Whoever holds it now took it later."""

    def sample(self, connection: Connection) -> Bound:
        """Take the lock, read the clock, let go."""
        clock = self._locked(connection)
        if clock is not None:
            self._free = clock
            return self._context.bound(clock - self._context.extra_delay, clock, kind=self.kind, reason=self._reason)
        clock = self._clock(connection)
        highest = connection.execute(
            sa.text(self._context.highest_below), {"below": self._context.render(clock - self._context.extra_delay)}
        ).scalar()
        form = self._context.column.form
        return Bound(
            kind=self.kind,
            value=highest if highest is None or form is None else form.complete(str(highest)),
            age_seconds=None if self._free is None else max(0.0, (clock - self._free).total_seconds()),
            held_by="a writer's open transaction",
            reason=f"the write lock is taken: only what is older than the last committed row is read; {self._reason}",
            clock=iso_text(clock, 6, zoned=True),
        )

    def _locked(self, connection: Connection) -> datetime | None:
        with lifted(connection):
            if not _lock(connection):
                return None
            try:
                return self._clock(connection)
            finally:
                connection.exec_driver_sql("COMMIT")

    @staticmethod
    def _clock(connection: Connection) -> datetime:
        return datetime.fromisoformat(connection.execute(_CLOCK).scalar_one()).replace(tzinfo=UTC)

    def remember(self) -> dict[str, Any] | None:
        """Nothing."""
        return None

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Nothing."""


def choose(wanted: str, context: BoundContext, connection: Connection) -> BoundStrategy | str:
    """The strategy, or the reason (a `str`) why only the heuristic is left."""
    if context.kind != "timestamp+pk":
        return _counted(wanted, context, connection)
    if _read_only(connection):
        return "the file is read-only here, so the write lock cannot be asked for"
    elsewhere = _elsewhere(connection, context)
    if elsewhere is not None:
        return elsewhere
    return WriteLock(context, "one writer at a time, for stamps that are made in SQL")


def _counted(wanted: str, context: BoundContext, connection: Connection) -> BoundStrategy | str:
    """For numbers and keys. There is one writer at a time, so what SQLite counts up itself comes in order, without any
    delay. Only AUTOINCREMENT keeps the count when rows are deleted: else ids come again, and no delay helps."""
    name, table = context.column.name, context.table
    if table is None:
        return "nothing tells that a query's column only grows"
    if not _is_rowid(connection, context):
        return f"values of {name} are not made by SQLite, so that a later one may be lower or the same"
    if _is_autoincrement(connection, context):
        return HighestSeen(
            context,
            "AUTOINCREMENT, one writer at a time",
            kind="exact",
            delay=context.extra_delay,
            handed_out=lambda c: _handed_out(c, context),
        )
    told = (
        f"{name} is not AUTOINCREMENT: SQLite hands out the greatest ids again once their rows were deleted, and those"
        f" are missed; declare it {name} INTEGER PRIMARY KEY AUTOINCREMENT if rows are ever deleted"
    )
    if wanted != "auto":
        return told
    return HighestSeen(context, told, delay=context.extra_delay, missed="")


def _elsewhere(connection: Connection, context: BoundContext) -> str | None:
    """Why the rows are not of this file, whose lock is taken: a virtual table's may come from anywhere. Those of full
    text and of R-trees keep theirs in tables of the file."""
    waiting = [(None, context.table)] if context.table is not None else tables(context.query or "", None, "sqlite")
    if waiting is not None and not waiting:
        return "rows come from no table of this database"
    known = {name for _, name in waiting or ()}
    while waiting:
        _, name = waiting.pop()
        made = f"SELECT sql FROM {_schema(context)}sqlite_master WHERE name = ? COLLATE NOCASE"  # noqa: S608 - quoted
        sql = str(connection.exec_driver_sql(made, (name,)).scalar() or "")
        module = _VIRTUAL.match(sql)
        if module is not None and module[1].lower() not in _OWN:
            return f"{name} is a virtual table ({module[1]}), whose rows this file's lock does not guard"
        below = tables(sql, None, "sqlite") if _VIEW.match(sql) else None
        waiting += [one for one in below or () if one[1] not in known]
        known |= {one[1] for one in below or ()}
    return None


def _is_rowid(connection: Connection, context: BoundContext) -> bool:
    """Whether the column is the table's INTEGER PRIMARY KEY. A key that is not the rowid has an index of its own."""
    info = connection.exec_driver_sql(_in_schema("table_info", context)).mappings().all()
    indexes = connection.exec_driver_sql(_in_schema("index_list", context)).mappings().all()
    keys = [(row["name"], str(row["type"]).upper()) for row in info if row["pk"]]
    return keys == [(context.column.name, "INTEGER")] and all(index["origin"] != "pk" for index in indexes)


def _in_schema(pragma: str, context: BoundContext) -> str:
    return f"PRAGMA {_schema(context)}{pragma}({quoted(context.table or '')})"


def _is_autoincrement(connection: Connection, context: BoundContext) -> bool:
    """By the table's definition: the count that SQLite keeps may have been deleted, as people do to begin anew."""
    made = f"SELECT sql FROM {_schema(context)}sqlite_master WHERE name = ? COLLATE NOCASE"  # noqa: S608 - quoted
    sql = str(connection.exec_driver_sql(made, (context.table,)).scalar() or "")
    return _AUTOINCREMENT.search(_NO_CODE.sub(" ", sql)) is not None


def _handed_out(connection: Connection, context: BoundContext) -> int:
    """The number before the next id. Where the count lies below the greatest id, it is that: somebody edited the count
    or deleted it, or gave a row another id, which it does not see."""
    table = f"{_schema(context)}{quoted(context.table or '')}"
    counted = (
        f"SELECT max(coalesce((SELECT max(seq) FROM {_schema(context)}sqlite_sequence"  # noqa: S608 - quoted
        f" WHERE name = ? COLLATE NOCASE), 0), coalesce((SELECT max({quoted(context.column.name)}) FROM {table}), 0))"
    )
    return int(connection.exec_driver_sql(counted, (context.table,)).scalar_one())


def _schema(context: BoundContext) -> str:
    return "" if context.schema is None else f"{quoted(context.schema)}."


def _lock(connection: Connection) -> bool:
    """Take the write lock, unless somebody keeps it for longer than a moment."""
    timeout = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {LOCK_WAIT_MS}")
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    except OperationalError as error:
        if not any(word in str(error.orig) for word in ("locked", "busy", "within a transaction")):
            raise
        return False
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {timeout}")
    return True


def _read_only(connection: Connection) -> bool:
    """Whether the lock would be none: BEGIN IMMEDIATE succeeds on a file that may only be read, and locks nothing."""
    version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    with lifted(connection):
        if not _lock(connection):
            return False  # somebody has the lock, so there is one
        try:
            connection.exec_driver_sql(f"PRAGMA user_version = {int(version)}")  # never committed
        except OperationalError as error:
            return "readonly" in str(error.orig)
        finally:
            connection.exec_driver_sql("ROLLBACK")
    return False
