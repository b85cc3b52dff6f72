"""SQLite's bound: there is one writer at a time, and `strftime('now')` in its statement is taken under its lock.

So the clock read under that lock is a bound: later writers take later timestamps. The lock is taken for one statement.
While a writer holds it, its transaction may hold earlier timestamps, but none earlier than what was committed before it
began: then the greatest committed timestamp is the bound.
Timestamps that an application sets are not covered; they need `bound = "delay"` (sources.md).
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from poller import forks
from poller.databases import catalog, samplers
from poller.databases.samplers import Remembering, Sample
from poller.ports import Bound
from poller.sources.bound import Rule, render
from poller.sources.columns import has_daylight_saving, iso_text, quoted
from poller.sources.database import Asked, Sampler, greatest
from poller.sources.options import ReadOptions
from poller.sources.user_sql import NO_TABLE, escape_colons, tables

_CLOCK = sa.text("SELECT strftime('%Y-%m-%dT%H\\:%M\\:%f', 'now')")
_VIRTUAL = re.compile(r"CREATE\s+VIRTUAL\s+TABLE\b.*?\bUSING\s+(\w+)", re.IGNORECASE | re.DOTALL)
_VIEW = re.compile(r"CREATE\s+VIEW\b", re.IGNORECASE)
_OWN = frozenset({"fts3", "fts4", "fts5", "rtree", "rtree_i32", "geopoly"})
_NO_CODE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_AUTOINCREMENT = re.compile(r"\bautoincrement\b", re.IGNORECASE)
_WAITS, _READS = "poller_busy_timeout", "poller_read_only"
"""What is noted of a connection."""
LOCK_WAIT_MS = 20
"""The time to wait for a writer: long enough for one that is about to commit, short compared with a tick."""


class _WriteLock(Remembering):
    """The clock, read under the write lock."""

    def __init__(self, asked: Asked, rule: Rule, shared: SharedClock) -> None:
        self._asked = asked
        self._rule = rule
        self._shared = shared
        self._known: datetime | None = None
        """The highest clock that another process saw."""
        self._free: datetime | None = None
        """The clock when the lock was last ours. The process that holds it now took it later."""

    def take(self, connection: Connection) -> Sample | Bound:
        """Take the lock, read the clock, let go; or take what another reader of the file has just read so."""
        clock = self._shared.find(self._known)
        if clock is None:
            began = time.monotonic()
            clock = self._locked(connection)
            if clock is not None:
                self._shared.share(began, clock)
        if clock is not None:
            self._free = clock
            return Sample(clock, clock, clock)
        return self._taken(connection)

    def _taken(self, connection: Connection) -> Bound:
        """While a writer holds the lock."""
        clock, asked, rule = self._clock(connection), self._asked, self._rule
        zone, highest = asked.options.zone, None
        known: datetime | None = clock
        if isinstance(zone, ZoneInfo) and has_daylight_saving(zone):
            # A row committed before may show a later time than the writer's: only its beginning counts.
            known = self._free
        if known is not None:
            below = render(known - rule.behind, asked.column, zone)
            highest = connection.execute(asked.highest_below, {"below": below}).scalar()
        form = asked.column.form
        return Bound(
            kind=rule.kind,
            value=highest if highest is None or form is None else form.complete(str(highest)),
            age_seconds=None if self._free is None else max(0.0, (clock - self._free).total_seconds()),
            held_by="a writer's open transaction",
            reason=f"the write lock is taken: only what is older than the last committed row is read; {rule.reason}",
            clock=iso_text(clock, 6, zoned=True),
        )

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Take no clock that is lower than what another process saw. Raises: as `bound.recalled`."""
        if memory.get("clock"):
            self._known = samplers.remembered(memory["clock"])

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


def sampler(asked: Asked, connection: Connection) -> Sampler | str:
    """How samples are taken of this file, or the reason (a `str`) why only a delay is left."""
    o = asked.options
    if not o.is_timed:
        return _counted(asked, connection)
    if _read_only(connection):
        return "the file is read-only here, so the write lock cannot be taken"
    elsewhere = _elsewhere(connection, o)
    if elsewhere is not None:
        return elsewhere
    rule = Rule("exact", "one writer at a time, for timestamps made in SQL", asked.column, o.extra_delay)
    lock = _WriteLock(asked, rule, SharedClock(connection))
    return Sampler(rule, lock.take, lock)


def _counted(asked: Asked, connection: Connection) -> Sampler | str:
    """For numbers and keys. There is one writer at a time, so numbers that SQLite hands out come in order, without any
    delay. Only AUTOINCREMENT keeps the count when rows are deleted: otherwise ids are reused, and no delay helps."""
    o, name = asked.options, asked.column.name
    if o.table is None:
        return "it is not known that a query's column only grows"
    if not _is_rowid(connection, o, name):
        return f"values of {name} are not made by SQLite, so a later one may be lower or the same"
    if _is_autoincrement(connection, o):
        rule = Rule("exact", "AUTOINCREMENT, one writer at a time", asked.column, o.extra_delay, "seen")
        return greatest(asked, rule, lambda c: _handed_out(c, o, name))
    reason = (
        f"{name} is not AUTOINCREMENT: SQLite hands out the greatest ids again once their rows were deleted, and those"
        f" are missed; declare it {name} INTEGER PRIMARY KEY AUTOINCREMENT if rows are ever deleted"
    )
    if o.bound != "auto":
        return reason
    return greatest(asked, Rule("heuristic", reason, asked.column, o.extra_delay, "seen"))


def _elsewhere(connection: Connection, o: ReadOptions) -> str | None:
    """Why the rows are not of this file, whose lock is taken: a virtual table's may come from anywhere. Full-text
    tables and R-trees keep their rows in tables of the file."""
    waiting = [(None, o.table)] if o.table is not None else tables(o.query or "", None, "sqlite")
    if waiting is not None and not waiting:
        return NO_TABLE
    known = {name for _, name in waiting or ()}
    while waiting:
        _, name = waiting.pop()
        _, sql = definition(connection, o.schema_name, name)
        module = _VIRTUAL.match(sql)
        if module is not None and module[1].lower() not in _OWN:
            return f"{name} is a virtual table ({module[1]}), whose rows this file's lock does not guard"
        below = tables(sql, None, "sqlite") if _VIEW.match(sql) else None
        waiting += [one for one in below or () if one[1] not in known]
        known |= {one[1] for one in below or ()}
    return None


def _is_rowid(connection: Connection, o: ReadOptions, column: str) -> bool:
    """True if the column is the table's INTEGER PRIMARY KEY. A key that is not the rowid has an index."""
    info = connection.exec_driver_sql(_in_schema("table_info", o)).mappings().all()
    indexes = connection.exec_driver_sql(_in_schema("index_list", o)).mappings().all()
    keys = [(row["name"], str(row["type"]).upper()) for row in info if row["pk"]]
    return keys == [(column, "INTEGER")] and all(index["origin"] != "pk" for index in indexes)


def _in_schema(pragma: str, o: ReadOptions) -> str:
    return f"PRAGMA {within(o.schema_name)}{pragma}({quoted(o.table or '')})"


def _is_autoincrement(connection: Connection, o: ReadOptions) -> bool:
    """By the table's definition: the count that SQLite keeps may have been deleted, to restart the numbers."""
    return _AUTOINCREMENT.search(_NO_CODE.sub(" ", definition(connection, o.schema_name, o.table or "")[1])) is not None


def definition(connection: Connection, schema: str | None, name: str) -> tuple[str, str]:
    """`table` or `view`, whichever has this name in a file, and the SQL that made it; empty without one. Triggers have
    names of their own. Raises what the driver raises."""
    made = (
        f"SELECT type, sql FROM {escape_colons(within(schema))}sqlite_master"  # noqa: S608 - quoted
        " WHERE type IN ('table', 'view') AND name = :name COLLATE NOCASE"
    )
    found = catalog.rows(connection, sa.text(made), {"name": name})
    return (str(found[0].type), str(found[0].sql or "")) if found else ("", "")


def _handed_out(connection: Connection, o: ReadOptions, column: str) -> int:
    """The number before the next id. Where the count lies below the greatest id, that id: the count was edited
    or deleted, or a row was inserted with an id, which the count does not follow."""
    of = within(o.schema_name)
    table = f"{of}{quoted(o.table or '')}"
    counted = (
        f"SELECT max(coalesce((SELECT max(seq) FROM {of}sqlite_sequence"  # noqa: S608 - quoted
        f" WHERE name = ? COLLATE NOCASE), 0), coalesce((SELECT max({quoted(column)}) FROM {table}), 0))"
    )
    return int(connection.exec_driver_sql(counted, (o.table,)).scalar_one())


def within(schema: str | None) -> str:
    """What stands before a name: the quoted name of its file and a dot."""
    return "" if schema is None else f"{quoted(schema)}."


def _lock(connection: Connection) -> bool:
    """Take the write lock, unless another holds it for longer than a moment."""
    timeout = connection.info.get(_WAITS)
    if timeout is None:
        timeout = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
        if is_own(connection):
            connection.info[_WAITS] = timeout
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
    """True if the lock would protect nothing: BEGIN IMMEDIATE succeeds on a read-only file, and locks nothing."""
    version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    with lifted(connection):
        if not _lock(connection):
            return False  # another holds the lock, so it works
        try:
            connection.exec_driver_sql(f"PRAGMA user_version = {int(version)}")  # never committed
        except OperationalError as error:
            return "readonly" in str(error.orig)
        finally:
            connection.exec_driver_sql("ROLLBACK")
    return False


def make_read_only(connection: Connection) -> None:
    """A session of ours may not write from now on."""
    connection.exec_driver_sql("PRAGMA query_only = 1")
    connection.info[_READS] = True


def is_own(connection: Connection) -> bool:
    """True if it was made read-only by `make_read_only`, and no other changes its settings."""
    return bool(connection.info.get(_READS))


@contextlib.contextmanager
def lifted(connection: Connection) -> Iterator[None]:
    """A read-only session may not take the write lock, so it is lifted meanwhile. Never for a user's SQL."""
    reads = 1 if is_own(connection) else connection.exec_driver_sql("PRAGMA query_only").scalar_one()
    connection.exec_driver_sql("PRAGMA query_only = 0")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA query_only = {reads}")


# --------------------------------------------------------------------------------------------- the clock under the lock
# The clock under the write lock of a SQLite file, shared for a moment by the readers of this process.
# A writer that stamped a row with an earlier time did so under the lock, before it was taken for this clock: its
# transaction has ended, and every page that begins later sees it. So one reader's clock is true for all that read the
# same file, and a shared one (at most `samplers.WINDOW` old) only lets rows of that moment wait.
# What makes it the same file: device and inode, and a connection that was open before the lock was taken. As long as
# a file is open no other gets its inode. A reader's first sample is its own and is not shared: where the file was
# replaced just after the connection was made, that is known only when the connection is used again.


class _Taken(NamedTuple):
    began: float
    clock: datetime


class _Clocks:
    """Of all files of this process, the last of each. Safe to use from several threads."""

    def __init__(self) -> None:
        self._start()
        forks.in_child(self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[Hashable, _Taken] = {}

    def find(self, file: Hashable) -> _Taken | None:
        with self._lock:
            return self._last.get(file)

    def put(self, file: Hashable, taken: _Taken) -> None:
        with self._lock:
            self._last = {key: one for key, one in self._last.items() if taken.began - one.began <= samplers.WINDOW}
            self._last[file] = taken


_CLOCKS = _Clocks()


class SharedClock:
    """One reader of a file's clocks; used by one thread at a time, with one connection, which is open."""

    def __init__(self, connection: Connection) -> None:
        self._file = _file_of(connection)
        self._since = time.monotonic()
        self._handed_over = float("-inf")
        self._own = 0
        """The number taken on this connection."""

    def find(self, known: datetime | None) -> datetime | None:
        """Another reader's, if it is new enough and not before `known`, the highest clock that was seen."""
        asked = time.monotonic()
        last = None if self._file is None or not self._own else _CLOCKS.find(self._file)
        if last is None or last.began < self._since or asked - last.began > samplers.WINDOW:
            return None
        if asked - self._handed_over <= samplers.WINDOW or (known is not None and last.clock < known):
            return None
        self._handed_over = asked
        return last.clock

    def share(self, began: float, clock: datetime) -> None:
        """One's own. `began`: when the lock was asked for, by `time.monotonic`."""
        self._own += 1
        self._handed_over = time.monotonic()
        if self._file is not None and self._own > 1:
            _CLOCKS.put(self._file, _Taken(began, clock))


def _file_of(connection: Connection) -> Hashable | None:
    """Which file is locked, and by which rules; None for a database without one, and where others are attached: the
    lock is taken on all of them."""
    paths = {row[1]: row[2] for row in connection.exec_driver_sql("PRAGMA database_list")}
    if not paths.get("main") or paths.keys() - {"main", "temp"}:
        return None
    try:
        found = Path(paths["main"]).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, tuple(sorted(connection.engine.url.query.items()))
