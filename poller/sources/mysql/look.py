"""One look at a MariaDB or MySQL server (sessions, then open transactions, then prepared ones), and the turn that it
needs."""

from __future__ import annotations

import contextlib
import enum
import re
import secrets
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases.errors import codes

MARIADB = sa.text(
    "select now(6) as clock, id, user, now(6) - interval time_ms * 1000 microsecond as started, null as took, command,"
    " query_id, id = connection_id() as ours, if(info like 'select get_lock(%', info, null) as info"
    " from information_schema.processlist"
)
# MySQL has whole seconds there, from a clock that may be a tick behind: this much earlier is never too late.
_SECONDS = (
    "select now(6) as clock, p.id as id, p.user as user, {took} as took, p.command as command, 0 as query_id,"
    " now(6) - interval p.time * 1000000 + 1050000 microsecond as started, p.id = connection_id() as ours,"
    " if(p.info like 'select get_lock(%', p.info, null) as info"
    " from information_schema.processlist p"
)
MYSQL_COARSE = sa.text(_SECONDS.format(took="null"))
MYSQL = sa.text(
    f"{_SECONDS.format(took='e.timer_wait')} left join performance_schema.threads t on t.processlist_id = p.id"
    " left join performance_schema.events_statements_current e"
    " on e.thread_id = t.thread_id and e.nesting_event_level = 0 and e.end_event_id is null"
)
"""The list of sessions comes from processlist, which is complete; performance_schema only adds how long a statement has
been running in picoseconds, if it is switched on and knows the session."""
_WITHIN = timedelta(seconds=2.1)
"""A start by whole seconds is at most this much too early; a finer one outside of this range is ignored."""
_DENIED = frozenset({1044, 1045, 1142, 1227})
_DENIED_XA = 1401
"""MySQL 8's XA RECOVER without XA_RECOVER_ADMIN: "a fatal error occurred in the transaction branch"."""
_NOBODY = "unauthenticated user"
"""A connection that has not logged in runs no statement yet, whatever its command."""
_IDLE = frozenset({"Sleep", "Daemon", "Binlog Dump", "Binlog Dump GTID"})


@dataclass(frozen=True, slots=True)
class Sighting:
    """What was seen.

    Attributes:
        clock: the server's clock when the first statement of the look began.
        users: the user of each session; running: when each running statement began, or earlier, by session.
        queries: the number of each session's last statement; every statement changes it (MariaDB only).
        transactions: rows with `session`, `trx_id`, `trx_started`, without our own.
        fresh: whether innodb_trx showed our own row as it is now: the view is a cache.
        xa: the names of prepared XA transactions.
        replica: whether a replica's thread applies its primary's writes here.
    """

    clock: datetime
    users: dict[int, str]
    running: dict[int, datetime]
    queries: dict[int, int]
    transactions: Sequence[Any]
    fresh: bool
    xa: list[str]
    replica: bool


def sessions_statement(connection: Connection, *, mariadb: bool) -> sa.TextClause:
    """The statement that lists the sessions, the most precise that the user may run."""
    if mariadb:
        return MARIADB
    try:
        connection.execute(MYSQL)
    except DBAPIError as error:
        if lacking(error) is None:
            raise
        return MYSQL_COARSE
    return MYSQL


def lacking(error: DBAPIError) -> str | None:
    """The privilege that the server reports as missing; None for other errors."""
    number = codes(error.orig)[1]
    if number == _DENIED_XA:
        return "XA_RECOVER_ADMIN"
    return "PROCESS" if number in _DENIED else None


def look(connection: Connection, sessions_sql: sa.TextClause, own: Collection[int] = ()) -> Sighting:
    """Three statements, each with its own snapshot: one snapshot of all would be older than the clock. `own`: sessions
    of this process that only read; they are left out, as this one is."""
    sessions = connection.execute(sessions_sql).all()
    others = [row for row in sessions if not row.ours and row.id not in own]
    nonce = secrets.token_hex(8)
    connection.exec_driver_sql("start transaction with consistent snapshot")
    try:
        rows = connection.exec_driver_sql(
            f"select /* {nonce} */ trx_mysql_thread_id as session, trx_id, trx_started, trx_query,"  # noqa: S608
            " trx_mysql_thread_id = connection_id() as ours from information_schema.innodb_trx"
        ).all()
    finally:
        if not connection.invalidated:  # it broke: what broke it is the error, not that nothing can be said any more
            connection.exec_driver_sql("commit")
    prepared = connection.exec_driver_sql("xa recover").all()
    return Sighting(
        clock=utc(sessions[0].clock),
        users={row.id: row.user or "" for row in others},
        running={row.id: _began(row) for row in others if _runs(row)},
        queries={row.id: row.query_id for row in others},
        transactions=[row for row in rows if not row.ours and row.session not in own],
        fresh=any(row.ours and row.trx_query and nonce in row.trx_query for row in rows),
        xa=[_name(row[3]) for row in prepared],
        replica=any(row.user == "system user" and row.command != "Daemon" for row in others),
    )


def still_quiet(connection: Connection, last: Sighting, own: Collection[int] = ()) -> datetime | None:
    """The server's clock, if no session has done anything since a sample that found all of them idle.

    Then the same transactions are open as at that look: nothing begins or ends without a statement, each statement has
    a new number, and a session is shown as busy before its statement reads the clock. A session that came and went can
    only leave a prepared XA transaction, so those are listed. innodb_trx is not read, so this can be repeated at any
    rate.
    """
    sessions = connection.execute(MARIADB).all()
    others = [row for row in sessions if not row.ours and row.id not in own]
    if last.running or any(row.command not in _IDLE for row in others):
        return None
    then = {number: query for number, query in last.queries.items() if number not in own}
    if {row.id: row.query_id for row in others} != then:
        return None
    prepared = connection.exec_driver_sql("xa recover").first()
    return utc(sessions[0].clock) if prepared is None else None


def _runs(row: Any) -> bool:
    """True if a session runs a statement that may write. Waiting for a turn to look is none; an open transaction of
    that session is seen as such."""
    return row.command not in _IDLE and row.user != _NOBODY and not waits(row.info)


def _began(row: Any) -> datetime:
    """When a running statement began, or earlier. Its duration is not measured by the wall clock, which may be slewed
    meanwhile, by at most 500 ppm: so a thousandth is added."""
    started = utc(row.started)
    if row.took is None:
        return started
    fine = utc(row.clock) - timedelta(microseconds=int(row.took) * 1.001 / 1e6 + 1)
    return fine if started <= fine <= started + _WITHIN else started


def utc(moment: Any) -> datetime:
    """The session's time zone is UTC; the driver returns naive times."""
    value = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))
    return value.replace(tzinfo=UTC)


def _name(data: Any) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else str(data)


# ---------------------------------------------------------------------------------------------------------------- turns
# MariaDB and MySQL: turns at looking at innodb_trx, among all processes that poll one server.
# Two looks less than 0.1 s apart show stale data: the view is a cache that does not refresh while it is read more
# often. So a look is made under a named lock of the server (GET_LOCK; a read-only session may take it, and it is not
# replicated). The server grants the lock in the order of the requests. Other clients may read the view without it:
# each look still proves that it is fresh.
# A look takes milliseconds. A session that holds the lock for a whole wait hangs, or has lost its connection without
# the server noticing, which keeps the lock for hours. The others then use another lock, named after that session.

NAME = "poller.innodb_trx"
WAIT = 1
"""Seconds to wait for a turn: about eight looks."""
_WAITS = re.compile(rf"select get_lock\('{re.escape(NAME)}(?:/\d+)?', \d+\)")
_CUT_SHORT = frozenset({1317, 1969, 3024, 3058, 3168})
"""Errors of a wait that was ended: killed, the session's own time limit, a deadlock of named locks."""


class Turn(enum.Enum):
    """How a turn was obtained."""

    AT_ONCE = "at once"
    AFTER_ANOTHER = "after another's look"
    """That look has just ended: another one now would be too early."""
    MISSED = "others were looking all the time"
    UNREGULATED = "the server has no named locks"


class TrackerTurns:
    """The turns of one tracker, and the sessions that it found to hang in theirs."""

    def __init__(self) -> None:
        self._hang: frozenset[int] = frozenset()

    @contextlib.contextmanager
    def turn(self, connection: Connection) -> Iterator[Turn]:
        """A turn to look, kept until the block ends. Raises what the driver raises where the connection broke."""
        name, got = self._ask(connection)
        try:
            yield got
        finally:
            if got in (Turn.AT_ONCE, Turn.AFTER_ANOTHER):
                _release(connection, name)

    def _ask(self, connection: Connection) -> tuple[str, Turn]:
        name, holder = NAME, None
        try:
            for _ in range(len(self._hang) + 1):
                if _has(connection, lock(name, 0)):
                    self._hang = self._hang if name != NAME else frozenset()
                    return name, Turn.AT_ONCE
                holder = _holder(connection, name)
                if holder not in self._hang:
                    break
                name = f"{NAME}/{holder}"
            if _has(connection, lock(name, WAIT)):
                return name, Turn.AFTER_ANOTHER
            if holder is not None and _holder(connection, name) == holder:
                self._hang |= {holder}
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            return name, Turn.MISSED if codes(error.orig)[1] in _CUT_SHORT else Turn.UNREGULATED
        return name, Turn.MISSED


def lock(name: str, seconds: int) -> str:
    """The statement that asks for a lock and waits for it so long."""
    return f"select get_lock('{name}', {seconds})"


def waits(statement: str | None) -> bool:
    """True if a session that runs this only waits for its turn."""
    return statement is not None and _WAITS.fullmatch(statement) is not None


def _has(connection: Connection, sql: str) -> bool:
    return bool(connection.exec_driver_sql(sql).scalar_one() == 1)


def _holder(connection: Connection, name: str) -> int | None:
    found = connection.exec_driver_sql(f"select is_used_lock('{name}')").scalar_one()
    return None if found is None else int(found)


def _release(connection: Connection, name: str) -> None:
    """Twice if need be: a lock that stayed would keep all others from looking."""
    for _ in range(2):
        if connection.invalidated:
            return
        with contextlib.suppress(DBAPIError):  # a connection that broke has lost its lock
            connection.exec_driver_sql(f"select release_lock('{name}')")
            return
