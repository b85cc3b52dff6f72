"""What `poller check` asks PostgreSQL in particular, row-level security among it, and what it proposes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import sqlalchemy as sa

from poller.databases import catalog
from poller.databases.postgresql.site import literal
from poller.model.finding import Finding, error, ok, warn
from poller.sources.checks import READER, Checks, Examined, Explained
from poller.sources.columns import CursorColumn, Family, quoted
from poller.sources.database import on_copy
from poller.sources.page import Params, Query
from poller.sources.postgresql.bound import REFRESHED
from poller.sources.postgresql.origin import named_in, origin
from poller.sources.stamping import ColumnOrigin

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
        """Check that it is not a standby, and that the user may see all sessions."""
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
        connection, o = asked.database.connection(), asked.options
        roots = named_in(connection, None if o.table is None else quoted(o.table, o.schema_name), o.query)
        hiding = catalog.rows(connection, _HIDING, {"roots": roots})
        if not hiding:
            return [ok("row_security", "no row-level security applies")]
        relations = ", ".join(f"{row.relation} (for {row.role})" for row in hiding)
        roles = dict.fromkeys(row.role for row in hiding)
        return [
            error(
                "row_security",
                f"Row-level security applies to {relations}: rows that a policy hides when the poller passes them are"
                " never delivered.",
                " ".join(f"ALTER ROLE {asked.name(role)} BYPASSRLS;" for role in roles),
            )
        ]

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

    def now(self, column: CursorColumn, zone: str) -> str:
        """In any zone."""
        if column.family is Family.TIMESTAMPTZ:
            return "CURRENT_TIMESTAMP"
        return f"CURRENT_TIMESTAMP AT TIME ZONE '{zone}'" if column.family is Family.TIMESTAMP else ""

    def trigger(self, asked: Examined, found: ColumnOrigin, *, schema: str, name: str, value: str) -> str:
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


# --------------------------------------------------------------------------------------------------- row-level security
# PostgreSQL's row-level security: a policy hides rows from the poller's user, and a row that is hidden when the
# cursor passes it is never delivered. A view reads with its owner's rights, unless it is `security_invoker`.

_HIDING = sa.text("""
with recursive reached (oid, asks) as (
    select r.oid, (select u.oid from pg_roles u where u.rolname = current_user)
      from unnest(cast(:roots as oid[])) as r (oid)
  union
    select d.refobjid, case when exists (
               select from pg_options_to_table(v.reloptions) o
                where o.option_name = 'security_invoker' and cast(o.option_value as boolean))
           then a.asks else v.relowner end
      from reached a
      join pg_class v on v.oid = a.oid and v.relkind = 'v'
      join pg_rewrite w on w.ev_class = v.oid and w.ev_type = '1'
      join pg_depend d on d.classid = cast('pg_rewrite' as regclass) and d.objid = w.oid
           and d.refclassid = cast('pg_class' as regclass) and d.refobjid <> v.oid
)
select cast(cast(c.oid as regclass) as text) as relation, cast(u.rolname as text) as role
  from reached a
  join pg_class c on c.oid = a.oid and c.relrowsecurity
  join pg_roles u on u.oid = a.asks and not u.rolsuper and not u.rolbypassrls
 where c.relforcerowsecurity or not pg_has_role(u.oid, c.relowner, 'usage')
 order by 1, 2
""")
