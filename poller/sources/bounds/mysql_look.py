"""One look at a MariaDB or MySQL server: sessions, then open transactions, then prepared ones."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_SESSIONS = {
    True: sa.text(
        "select now(6) as clock, id, user, now(6) - interval time_ms * 1000 microsecond as started, command,"
        " query_id, id = connection_id() as ours from information_schema.processlist"
    ),
    # MySQL has no milliseconds there: a whole second earlier is safe. Not run in our tests, which have MariaDB.
    False: sa.text(
        "select now(6) as clock, processlist_id as id, processlist_user as user,"
        " now(6) - interval coalesce(processlist_time, 0) + 1 second as started, processlist_command as command,"
        " 0 as query_id,"
        " processlist_id = connection_id() as ours from performance_schema.threads where processlist_id is not null"
    ),
}
_IDLE = frozenset({"Sleep", "Daemon", "Binlog Dump", "Binlog Dump GTID"})


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen.

    Attributes:
        clock: the server's clock when the first statement of the look began.
        users: who each session belongs to; running: when each one's statement began, of those that run one.
        queries: the number of each session's last statement; it changes with every one (MariaDB alone tells it).
        transactions: rows with `session`, `trx_id`, `trx_started`, our own left out.
        fresh: whether innodb_trx showed our own row as it is now: it is a cache.
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


def look(connection: Connection, *, mariadb: bool) -> Look:
    """Three statements, each on its own: one snapshot of all would be older than the clock."""
    sessions = connection.execute(_SESSIONS[mariadb]).all()
    others = [row for row in sessions if not row.ours]
    nonce = secrets.token_hex(8)
    connection.exec_driver_sql("start transaction with consistent snapshot")
    try:
        rows = connection.exec_driver_sql(
            f"select /* {nonce} */ trx_mysql_thread_id as session, trx_id, trx_started, trx_query,"  # noqa: S608
            " trx_mysql_thread_id = connection_id() as ours from information_schema.innodb_trx"
        ).all()
    finally:
        connection.exec_driver_sql("commit")
    prepared = connection.exec_driver_sql("xa recover").all()
    return Look(
        clock=utc(sessions[0].clock),
        users={row.id: row.user or "" for row in others},
        running={row.id: utc(row.started) for row in others if row.command not in _IDLE},
        queries={row.id: row.query_id for row in others},
        transactions=[row for row in rows if not row.ours],
        fresh=any(row.ours and row.trx_query and nonce in row.trx_query for row in rows),
        xa=[_name(row[3]) for row in prepared],
        replica=any(row.user == "system user" and row.command != "Daemon" for row in others),
    )


def still_quiet(connection: Connection, last: Look) -> datetime | None:
    """The server's clock, where no session has done anything since a look that found all of them at rest.

    Then what that look saw open is what is open now: nothing begins or ends without a statement, each statement has a
    number of its own, and a session is shown as busy before its statement reads the clock. Of a session that came and
    went only a prepared XA transaction can be left, so those are asked for. innodb_trx is not, so this may be done as
    often as one likes.
    """
    sessions = connection.execute(_SESSIONS[True]).all()
    others = [row for row in sessions if not row.ours]
    if last.running or any(row.command not in _IDLE for row in others):
        return None
    if {row.id: row.query_id for row in others} != last.queries:
        return None
    prepared = connection.exec_driver_sql("xa recover").first()
    return utc(sessions[0].clock) if prepared is None else None


def utc(moment: Any) -> datetime:
    """The session's time zone is UTC; the driver returns naive times."""
    value = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))
    return value.replace(tzinfo=UTC)


def _name(data: Any) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else str(data)
