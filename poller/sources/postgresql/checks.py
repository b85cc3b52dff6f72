"""What `poller check` asks PostgreSQL in particular, and the statements that it proposes there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from poller.model.finding import Finding, error, ok, warn
from poller.sources.checks import READER, Checks, Examined, Explained
from poller.sources.columns import Column, Family
from poller.sources.columns.uniqueness import quoted
from poller.sources.page import Params, Query
from poller.sources.postgresql.bound import REFRESHED
from poller.sources.postgresql.origin import origin
from poller.sources.postgresql.row_security import row_security
from poller.sources.sampler import on_copy
from poller.sources.stamping import Origin
from poller.sources.user_sql.literals import literal

_USER = """
SELECT current_user, version(), pg_is_in_recovery(), pg_has_role(current_user, 'pg_read_all_stats', 'usage')
"""
_RELATION = """
SELECT has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT')
  FROM pg_class c WHERE c.oid = to_regclass(:name)
"""
_PREPARED = """
SELECT gid, owner, to_char(now() - prepared, 'HH24\\:MI\\:SS') FROM pg_prepared_xacts
 WHERE database = current_database() ORDER BY prepared LIMIT 5
"""
_WRITES = """
SELECT current_user, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) OR EXISTS (
         SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
            AND (has_any_column_privilege(c.oid, 'INSERT, UPDATE') OR has_table_privilege(c.oid, 'DELETE')))
"""


class PostgreSqlChecks(Checks):
    """Row-level security, prepared transactions, and plans as JSON."""

    without_lock: ClassVar[str] = "CREATE INDEX CONCURRENTLY"
    counts_reads: ClassVar[bool] = True

    def privileges(self, asked: Examined) -> list[Finding]:
        """True if it is a standby, and whether the user may see all sessions."""
        user, version, standby, sees_all = asked.fact(_USER).rows[0]
        found = [ok("database", f"reachable: {str(version).split(' on ')[0]}, as user {user}")]
        if standby:
            refused = on_copy("a standby", None)
            found.append(error("replica", refused.message, refused.next_step))
        if asked.options.bound not in {"auto", "exact"} or asked.options.cursor_kind == "xid8+pk":
            return found
        if sees_all:
            return [*found, ok("privileges", f"{user} may see all sessions, as an exact bound needs")]
        text = (
            f"{user} may not see other users' sessions: the bound is observed, and sessions that send several"
            " transactions in one message, or COMMIT AND CHAIN, are not guarded."
        )
        return [*found, warn("privileges", text, f"GRANT pg_read_all_stats TO {asked.name(user)};")]

    def relation(self, asked: Examined) -> list[Finding]:
        """The privilege to read it."""
        if asked.options.table is None:
            return []
        rows = asked.run(_RELATION, {"name": asked.table}).rows
        if not rows or rows[0][0]:  # the check of the columns names a missing table
            return []
        user = str(asked.run("SELECT current_user").rows[0][0])
        fix = f"GRANT SELECT ON {asked.table} TO {asked.name(user)};"
        return [error("privileges", f"{user} may not read {asked.table}.", fix)]

    def row_security(self, asked: Examined) -> list[Finding]:
        """As the catalog says it."""
        return row_security(asked)

    def behind(self, asked: Examined) -> list[Finding]:
        """Foreign, subscribed and refreshed tables."""
        o = asked.options
        table = None if o.table is None else quoted(o.table, o.schema_name)
        _, found = origin(asked.database.connection(), table, o.query, o.cursor_column)
        if found is None:
            return []
        if found.refreshed:
            return [warn("relation", f"{found.reason}: rows can be skipped.", REFRESHED)]
        return [warn("relation", f"{found.reason}: only a delay is available.", "Read it where it is written.")]

    def unfinished(self, asked: Examined) -> tuple[list[str], list[str]] | None:
        """By their names."""
        rows = asked.fact(_PREPARED).rows
        names = [f"{str(gid)!r} of {owner}, {age} old" for gid, owner, age in rows]
        return names, [f"ROLLBACK PREPARED {literal(str(gid))};" for gid, _, _ in rows]

    def reader(self, asked: Examined) -> tuple[str, bool] | None:
        """By all privileges of its roles."""
        user, writes = asked.fact(_WRITES).rows[0]
        return str(user), bool(writes)

    def reader_made(self, asked: Examined) -> str:
        """With the privilege that an exact bound needs."""
        table = asked.table if asked.options.table is not None else "its tables"
        return f"CREATE USER {READER}; GRANT SELECT ON {table}, and pg_read_all_stats, TO {READER};"

    def slow_parts(self, asked: Examined, query: Query, params: Params) -> list[str] | None:
        """Whole scans and sorts."""
        slow: list[str] = []
        for node in _nodes(asked.run(Explained("EXPLAIN (FORMAT JSON)", query), params).rows[0][0]):
            if node["Node Type"] == "Seq Scan":
                slow.append(f"Seq Scan on {node.get('Relation Name')}")
            if node["Node Type"] in {"Sort", "Incremental Sort"}:  # of a whole tie, at least
                slow.append(f"{node['Node Type']} by {', '.join(node.get('Sort Key', []))}")
        return slow

    def dropped(self, asked: Examined, query: Query, params: Params) -> int:
        """The rows that it read and a filter removed."""
        how = "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON)"
        found = asked.run(Explained(how, query), params).rows[0][0]
        return sum(int(node.get("Rows Removed by Filter", 0) * node.get("Actual Loops", 1)) for node in _nodes(found))

    def set_not_null(self, asked: Examined, column: str) -> str:
        """One word."""
        return f"ALTER TABLE {asked.table} ALTER COLUMN {asked.name(column)} SET NOT NULL;"

    def now(self, column: Column, zone: str) -> str:
        """In any zone."""
        if column.family is Family.TIMESTAMPTZ:
            return "CURRENT_TIMESTAMP"
        return f"CURRENT_TIMESTAMP AT TIME ZONE '{zone}'" if column.family is Family.TIMESTAMP else ""

    def trigger(self, asked: Examined, found: Origin, *, schema: str, name: str, value: str) -> str:
        """A function, and its trigger."""
        column, table = asked.name(found.column), schema + asked.name(found.table or "")
        body = f"BEGIN NEW.{column} := {value}; RETURN NEW; END"
        tag = "$$" if "$" not in body else "$set_cursor$"
        return (
            f"CREATE FUNCTION {schema}{name}() RETURNS trigger LANGUAGE plpgsql AS {tag} {body} {tag};"
            f" CREATE TRIGGER {name} BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {schema}{name}();"
        )


def _nodes(explained: Any) -> Iterator[dict[str, Any]]:
    """All nodes of a plan that was explained as JSON."""
    nodes = [part["Plan"] for part in (json.loads(explained) if isinstance(explained, str) else explained)]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        yield node


CHECKS = PostgreSqlChecks()
