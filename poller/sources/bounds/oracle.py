"""Oracle's bound for timestamps: the oldest of its open transactions and running calls.

Tested by its SQL text and on a simulated connection only, not on a server.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases.samplers import Sample
from poller.sources.bounds.base import BoundContext, BoundStrategy, Stateless, on_copy
from poller.sources.bounds.sampled import SET_BACK, SHOWS_HOLDER_AFTER, ByTime

# GV$TRANSACTION shows what has written, on each instance of a cluster; before its first write a transaction is a call
# that runs, which GV$SESSION shows. A start date is of the server's local clock: if it lies ahead, that was set back.
# LAST_CALL_ET counts from the call's start, so a timestamp that PL/SQL took before it wrote is covered too.
_OPEN = sa.text("""
SELECT TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'YYYY-MM-DD"T"HH24\\:MI\\:SS.FF6') || '+00\\:00' AS clock,
       (SELECT MAX((SYSDATE - start_date) * 86400) FROM gv$transaction) AS transaction_age,
       (SELECT MIN((SYSDATE - start_date) * 86400) FROM gv$transaction) AS least_age,
       (SELECT MAX(last_call_et) FROM gv$session
         WHERE type = 'USER' AND status = 'ACTIVE' AND NOT (
           sid = SYS_CONTEXT('USERENV', 'SID') AND inst_id = SYS_CONTEXT('USERENV', 'INSTANCE'))) AS call_age
  FROM DUAL
""")
_PREPARED = sa.text("SELECT COUNT(*) FROM dba_2pc_pending")
_ROLE = sa.text("SELECT SYS_CONTEXT('USERENV', 'DATABASE_ROLE') FROM DUAL")
_ELSEWHERE = sa.text("""
SELECT (SELECT MAX(db_link) FROM all_synonyms
         WHERE UPPER(synonym_name) = UPPER(:name) AND UPPER(owner) IN (h.home, 'PUBLIC')) AS synonym,
       (SELECT MAX(referenced_link_name) FROM all_dependencies
         WHERE UPPER(name) = UPPER(:name) AND UPPER(owner) = h.home AND type LIKE '%VIEW') AS behind,
       (SELECT MAX(type_name) FROM all_external_tables
         WHERE UPPER(table_name) = UPPER(:name) AND UPPER(owner) = h.home) AS outside
  FROM (SELECT UPPER(NVL(:schema, SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA'))) AS home FROM DUAL) h
""")
_LINKED = re.compile(r"[\w\"$#]@\w+|\bTABLE\s*\(", re.IGNORECASE)
_TEXT = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
_COARSE = timedelta(seconds=2)
"""Both views count in whole seconds."""


class Views(Stateless):
    """The oldest of what GV$TRANSACTION and GV$SESSION show; a distributed transaction in doubt holds."""

    kind = "exact"

    def take(self, connection: Connection) -> Sample:
        """Two statements; the page is a third."""
        row = connection.execute(_OPEN).one()
        in_doubt = int(connection.execute(_PREPARED).scalar_one())
        clock = datetime.fromisoformat(row.clock)
        if in_doubt:
            return Sample(
                clock,
                clock,
                None,
                f"{in_doubt} distributed transactions in doubt",
                "DBA_2PC_PENDING lists them; COMMIT FORCE or ROLLBACK FORCE them",
            )
        if timedelta(seconds=float(row.least_age or 0)) < -_COARSE:
            return Sample(clock, clock, None, "a transaction that began later than now", SET_BACK)
        age = timedelta(seconds=float(max(row.transaction_age or 0, row.call_age or 0)))
        oldest = clock - age - _COARSE
        held = age.total_seconds() > SHOWS_HOLDER_AFTER
        return Sample(clock, clock, oldest, f"a transaction open since {oldest:%Y-%m-%d %H:%M:%S}" if held else None)


def choose(wanted: str, context: BoundContext, connection: Connection) -> BoundStrategy | str:  # noqa: ARG001
    """The strategy, or the reason (a `str`) why only the heuristic is left.

    Raises: SourceError on a standby.
    """
    if str(connection.execute(_ROLE).scalar() or "").endswith("STANDBY"):
        raise on_copy("a standby", context.table)
    if context.kind != "timestamp+pk":
        return f"no bound is known here for cursors of kind {context.kind}"
    elsewhere = _elsewhere(context, connection)
    if elsewhere is not None:
        return elsewhere
    try:
        connection.execute(_OPEN).one()
        connection.execute(_PREPARED).scalar_one()
    except DBAPIError as error:
        if not re.search(r"ORA-(?:00942|01031)", str(error.orig)):
            raise
        return "the user may not read GV$TRANSACTION, GV$SESSION and DBA_2PC_PENDING; GRANT SELECT_CATALOG_ROLE to it"
    return ByTime(context, Views(), "the user may see all transactions and sessions")


def _elsewhere(context: BoundContext, connection: Connection) -> str | None:
    """Why the rows do not come from this database's transactions: a database link, an external table, a table
    function."""
    if context.query is not None:
        found = _LINKED.search(_TEXT.sub("''", context.query))
        return None if found is None else f"rows come from elsewhere ({found[0]}), whose transactions cannot be seen"
    row = connection.execute(_ELSEWHERE, {"name": context.table, "schema": context.schema}).one()
    link = row.synonym or row.behind
    if link:
        return f"rows come over the database link {link}, whose transactions cannot be seen"
    return f"{context.table} is an external table, which has no transactions" if row.outside else None
