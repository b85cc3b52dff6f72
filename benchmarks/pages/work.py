"""The work that a database does for one page, counted by the database: it does not depend on who else is busy.

PostgreSQL: buffers touched (`EXPLAIN (ANALYZE, BUFFERS)`). MariaDB: rows asked of the engine (`Handler_read_%`).
SQLite: instructions of its virtual machine (its progress handler, every ten).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from benchmarks.torture.tables import family
from poller.model.cursor import Cursor
from poller.sources import SqlSource
from poller.sources.checks import Explained


@dataclass(frozen=True)
class Work:
    """units: as this module says. plans: one text per statement. first: the first row's id."""

    units: int
    plans: tuple[str, ...]
    first: int


def work_of(source: SqlSource, url: str, after: Cursor | None, limit: int) -> Work:
    """Read one page, and report its cost and its plan."""
    first, bound = int(source.page(after, limit).rows[0]["id"]), source.bound().value
    connection = source._session.database.connection()  # borrowed until the source's next piece of work ends
    counted = COUNTED[family(url)]
    units, plans = 0, []
    left = limit
    statements = source._session.table.statements()
    for interval in statements.ranges(after, bound):  # as the source itself goes on from one to the next
        query, params = statements.select(interval, left)
        found, more, plan = counted(connection, query, params)
        units, left = units + more, left - found
        plans.append(plan)
        if not left:
            break
    return Work(units, tuple(plans), first)


Counted = tuple[int, int, str]
"""Rows, units of work, the plan."""


def _buffers(connection: sa.Connection, query: sa.Select[Any], params: dict[str, Any]) -> Counted:
    report = connection.execute(Explained("explain (analyze, buffers, format json)", query), params).scalar_one()
    plan = report[0]["Plan"]
    return plan["Actual Rows"], plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], json.dumps(plan)


def _handler_reads(connection: sa.Connection, query: sa.Select[Any], params: dict[str, Any]) -> Counted:
    def reads() -> int:
        return sum(int(row[1]) for row in connection.execute(sa.text("show status like 'Handler_read%'")))

    before = reads()
    found = len(connection.execute(query, params).all())
    return found, reads() - before, _plan(connection, "explain format=json", query, params)


def _steps(connection: sa.Connection, query: sa.Select[Any], params: dict[str, Any]) -> Counted:
    tens = 0

    def ten() -> int:
        nonlocal tens
        tens += 1
        return 0

    driver: Any = connection.connection.cursor().connection  # a detached connection no longer names it
    driver.set_progress_handler(ten, 10)
    try:
        found = len(connection.execute(query, params).all())
    finally:
        driver.set_progress_handler(None, 0)
    return found, 10 * tens, _plan(connection, "explain query plan", query, params)


def _plan(connection: sa.Connection, explain: str, query: sa.Select[Any], params: dict[str, Any]) -> str:
    return "\n".join(str(row[-1]) for row in connection.execute(Explained(explain, query), params))


COUNTED: dict[str, Callable[[sa.Connection, sa.Select[Any], dict[str, Any]], Counted]] = {
    "postgresql": _buffers,
    "mysql": _handler_reads,
    "sqlite": _steps,
}
"""How the work of one statement is counted, per database."""
