"""SQL Server's bounds: `rowversion+pk` from MIN_ACTIVE_ROWVERSION(), timestamps from what is open.

Tested by their SQL text and on a simulated connection only, not on a server.
"""

from __future__ import annotations

import re
from datetime import UTC, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases.samplers import Sample
from poller.errors import SourceError
from poller.ports import Bound
from poller.sources.bounds.base import BoundContext, BoundStrategy, Stateless, on_copy
from poller.sources.bounds.mssql_origin import elsewhere
from poller.sources.bounds.sampled import BLOCKS, SET_BACK, SHOWS_HOLDER_AFTER, ByCounter, ByTime

# Types 1 and 4 are transactions that read and write, local and distributed; the others (system, read-only work tables)
# are as old as the server. Ages, not times: these views keep the server's local time. datetime is 3.3 ms coarse.
_OPEN = sa.text("""
SELECT SYSUTCDATETIME() AS clock,
       (SELECT MAX(DATEDIFF_BIG(microsecond, transaction_begin_time, SYSDATETIME()))
          FROM sys.dm_tran_active_transactions WHERE transaction_type IN (1, 4)) AS transaction_age,
       (SELECT MAX(DATEDIFF_BIG(microsecond, r.start_time, SYSDATETIME()))
          FROM sys.dm_exec_requests r JOIN sys.dm_exec_sessions s ON s.session_id = r.session_id
         WHERE s.is_user_process = 1 AND r.session_id <> @@SPID) AS request_age,
       (SELECT MIN(DATEDIFF_BIG(microsecond, t.began, SYSDATETIME()))
          FROM (SELECT transaction_begin_time AS began FROM sys.dm_tran_active_transactions
                 WHERE transaction_type IN (1, 4)
                 UNION ALL
                SELECT r.start_time
                  FROM sys.dm_exec_requests r JOIN sys.dm_exec_sessions s ON s.session_id = r.session_id
                 WHERE s.is_user_process = 1 AND r.session_id <> @@SPID) t) AS least_age
""")
_COARSE = timedelta(milliseconds=4)
_STANDING = sa.text("SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS varchar(20))")
_ROWVERSION = sa.text("""
SELECT LOWER(CONVERT(varchar(18), MIN_ACTIVE_ROWVERSION(), 2)) AS least, LOWER(CONVERT(varchar(18), @@DBTS, 2)) AS used
""")
_IDENTITY = sa.text("SELECT COLUMNPROPERTY(OBJECT_ID(:name), :column, 'IsIdentity')")
_STEP = sa.text("SELECT CAST(IDENT_INCR(:name) AS bigint)")
_COUNTER = sa.text("SELECT CAST(IDENT_CURRENT(:name) AS bigint)")
_DIRTY = re.compile(r"\b(nolock|readpast|readuncommitted)\b", re.IGNORECASE)


class Rowversion(Stateless):
    """The lowest rowversion that an open transaction has taken."""

    kind = "exact"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def sample(self, connection: Connection) -> Bound:
        """One statement. Needs no privilege."""
        row = connection.execute(_ROWVERSION).one()
        following = f"{int(row.used, 16) + 1:016x}"
        return Bound(kind=self.kind, value=row.least, reason=self._reason, next=following)


class Views(Stateless):
    """The oldest of what dm_tran_active_transactions and dm_exec_requests show. Needs VIEW SERVER STATE."""

    kind = "exact"

    def take(self, connection: Connection) -> Sample:
        """One statement; the page is another."""
        row = connection.execute(_OPEN).one()
        clock = row.clock.replace(tzinfo=UTC)
        if timedelta(microseconds=row.least_age or 0) < -_COARSE:
            return Sample(clock, clock, None, "a transaction that began later than now", SET_BACK)
        age = timedelta(microseconds=max(0, row.transaction_age or 0, row.request_age or 0))
        oldest = clock - age - _COARSE if age else clock
        held = age.total_seconds() > SHOWS_HOLDER_AFTER
        what = "a transaction" if (row.transaction_age or 0) >= (row.request_age or 0) else "a request"
        return Sample(clock, clock, oldest, f"{what} open since {oldest:%Y-%m-%d %H:%M:%S}" if held else None)


def choose(wanted: str, context: BoundContext, connection: Connection) -> BoundStrategy | str:  # noqa: ARG001
    """The strategy, or the reason (a `str`) why only the heuristic is left.

    Raises: SourceError on a readable secondary, and for a query that reads uncommitted rows or skips locked ones.
    """
    if connection.execute(_STANDING).scalar() == "READ_ONLY":
        raise on_copy("read-only, as a secondary is", context.table)
    dirty = _DIRTY.search(context.query or "")
    if dirty is not None:
        raise SourceError(
            f"`query` reads with {dirty.group().upper()}: rows that are locked would be skipped, or rows that are"
            " rolled back delivered.",
            next_step="Remove the hint.",
        )
    name = "" if context.table is None else ".".join(f"[{p}]" for p in (context.schema, context.table) if p)
    reason = elsewhere(connection, name or None, context.query)
    if reason is not None:
        return reason
    if context.kind == "rowversion+pk":
        return Rowversion("MIN_ACTIVE_ROWVERSION()")
    try:
        connection.execute(_OPEN).one()
    except DBAPIError as error:
        if not re.search(r"\((?:300|297|229|262)\)", str(error.orig)):
            raise
        return (
            "the user lacks VIEW SERVER STATE; GRANT VIEW SERVER STATE (Azure SQL: VIEW DATABASE STATE) makes it exact"
        )
    if context.kind == "timestamp+pk":
        return ByTime(context, Views(), "the user may see all transactions and requests")
    parameters = {"name": name, "column": context.column.name}
    if not name or connection.execute(_IDENTITY, parameters).scalar() != 1:
        return f"the column {context.column.name} is not an IDENTITY"
    step = int(connection.execute(_STEP, {"name": name}).scalar_one())
    if step != 1:
        return f"the IDENTITY of {context.column.name} has an INCREMENT of {step}: {BLOCKS}"
    return ByCounter(
        Views(),
        lambda c: int(c.execute(_COUNTER, {"name": name}).scalar_one()) + 1,
        "the column's IDENTITY",
        delay=context.extra_delay,
    )
