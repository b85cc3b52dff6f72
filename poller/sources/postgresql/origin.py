"""Which tables the cursor and the rows come from, behind a table, a view or a query on PostgreSQL.

Locks and sessions of this server bound only what its own transactions write into its own tables. So the cursor's column
is followed through queries and views to the table that it comes from, and from there to its partitions and children.
Where that is not possible (an expression, a UNION, a view over tables that this user may not read), all that is read
counts.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases import catalog
from poller.sources.columns import quoted
from poller.sources.stamping import DEEPEST
from poller.sources.user_sql import NO_TABLE, escape_colons

_RELATION = """
select c.oid, cast(c.relkind as text) as kind, cast(a.attname as text) as column,
       case when c.relkind = 'v' and not exists (
           select from pg_rewrite w
             join pg_depend d on d.classid = cast('pg_rewrite' as regclass) and d.objid = w.oid
                  and d.refclassid = cast('pg_class' as regclass) and d.refobjid <> c.oid
            where w.ev_class = c.oid and w.ev_type = '1' and not has_table_privilege(d.refobjid, 'SELECT'))
       then pg_get_viewdef(c.oid) end as sql
  from pg_class c left join pg_attribute a on a.attrelid = c.oid and {}
"""
"""A relation and one of its columns; of a view also its SELECT, if this user may read all that it reads."""
_NAMED = sa.text(f"{_RELATION.format('a.attname = :column')} where c.oid = to_regclass(:name)")
_NUMBERED = sa.text(f"{_RELATION.format('a.attnum = :number')} where c.oid = :oid")
_STANDS = """pg_is_in_recovery() as standby, cast(pg_postmaster_start_time() as text) as server,
       pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all"""
_STANDING = sa.text(f"select {_STANDS}")
_BEHIND = sa.text(
    """
with recursive behind (oid, above) as (
    select r.oid, false from unnest(cast(:roots as oid[])) as r (oid)
  union
    select n.oid, n.above
      from behind b
      join pg_class c on c.oid = b.oid
     cross join lateral (
            select i.inhrelid, false from pg_inherits i where i.inhparent = b.oid and not b.above
          union all
            select i.inhparent, true from pg_inherits i where i.inhrelid = b.oid and c.relispartition
          union all
            select d.refobjid, false
              from pg_rewrite w
              join pg_depend d on d.classid = cast('pg_rewrite' as regclass) and d.objid = w.oid
                   and d.refclassid = cast('pg_class' as regclass)
             where c.relkind = 'v' and w.ev_class = b.oid and w.ev_type = '1' and d.refobjid <> b.oid
           ) as n (oid, above)
)
select {standing}, min(b.oid) filter (where c.relkind = 'm') as materialized,
       min(b.oid) filter (where c.relkind = 'f') as foreign_table,
       min(b.oid) filter (where exists (select from pg_subscription_rel s where s.srrelid = b.oid)) as subscribed,
       count(*) filter (where c.relkind in ('r', 'p', 'f', 'm')) as tables,
       min(b.oid) filter (where c.relkind = 'v' and exists (
           select from pg_rewrite w
             join pg_depend d on d.classid = cast('pg_rewrite' as regclass) and d.objid = w.oid
                  and d.refclassid = cast('pg_proc' as regclass)
             join pg_depend e on e.classid = d.refclassid and e.objid = d.refobjid and e.deptype = 'e'
             join pg_extension x on x.oid = e.refobjid and x.extname = 'dblink'
            where w.ev_class = b.oid)) as linked
  from behind b join pg_class c on c.oid = b.oid
""".replace("{standing}", _STANDS)
)
"""What the server is, and what is behind what is read."""
_DIRECT = sa.text("""
with below (oid) as (
    select d.refobjid from unnest(cast(:roots as oid[])) as r (oid)
      join pg_rewrite w on w.ev_class = r.oid and w.ev_type = '1'
      join pg_depend d on d.classid = cast('pg_rewrite' as regclass) and d.objid = w.oid
           and d.refclassid = cast('pg_class' as regclass) and d.refobjid <> r.oid
)
select r.oid from unnest(cast(:roots as oid[])) as r (oid) where r.oid not in (select oid from below)
""")
_NAME_OF = sa.text("select cast(cast(cast(:oid as oid) as regclass) as text)")


@dataclass(frozen=True, slots=True)
class UnboundedReason:
    """Why this server's open transactions do not bound the rows.

    Attributes:
        reason: in words, naming the relation.
        refreshed: the rows are those of a materialized view: a delay loses rows too, unless it is longer
            than the time between two refreshes.
    """

    reason: str
    refreshed: bool = False


class ServerStanding(NamedTuple):
    """What the server is: whether a standby, since when it runs; and whether the user may see all sessions."""

    standby: bool
    server: str
    sees_all: bool


def origin(
    connection: Connection, table: str | None, query: str | None, column: str
) -> tuple[ServerStanding, UnboundedReason | None]:
    """What the server is; and None if its own transactions write the rows straight into what is read.

    Args:
        table: its quoted name; or query: the user's SQL. column: the cursor's, not quoted.

    Raises: what the driver raises.
    """
    at = _at(connection, table, query, column)
    if at is None and query is None:
        return _standing(connection), None
    whole = f"select * from {table}" if query is None else query  # noqa: S608 - quoted
    roots = [] if at is None else [at.oid]
    if at is None or at.kind == "v":
        try:
            behind = whole if at is None else f"select * from {_name(connection, at.oid)}"  # noqa: S608 - as above
            read, opaque = _all_read(connection, behind, column if at is None else at.column)
        except DBAPIError:  # a view that only the one before it may read
            read, opaque = _all_read(connection, whole, column)
        if opaque is not None:
            return _standing(connection), UnboundedReason(opaque)
        roots += read
    (row,) = catalog.rows(connection, _BEHIND, {"roots": roots})
    return ServerStanding(row.standby, row.server, row.sees_all), _why(connection, row, roots)


def _standing(connection: Connection) -> ServerStanding:
    return ServerStanding._make(catalog.rows(connection, _STANDING)[0])


def _why(connection: Connection, row: Any, roots: list[int]) -> UnboundedReason | None:
    if row.materialized is not None:
        return UnboundedReason(
            f"{_name(connection, row.materialized)} is a materialized view, which shows rows only when it is refreshed",
            refreshed=roots == [row.materialized],
        )
    if row.foreign_table is not None:
        return UnboundedReason(
            f"{_name(connection, row.foreign_table)} is a foreign table and carries its server's timestamps"
        )
    if row.linked is not None:
        return UnboundedReason(
            f"{_name(connection, row.linked)} reads by dblink, from a server with its own timestamps"
        )
    if row.subscribed is not None:
        return UnboundedReason(
            f"{_name(connection, row.subscribed)} is filled by a subscription and carries the publisher's timestamps"
        )
    if not row.tables:
        return UnboundedReason(NO_TABLE)
    return None


def named_in(connection: Connection, table: str | None, query: str | None) -> list[int]:
    """The relations that a source names itself: its table, or those of its query that are not reached through a view
    which the query names too. Empty where the table does not exist.

    Raises: what the driver raises.
    """
    if query is None:
        return [int(row.oid) for row in catalog.rows(connection, _NAMED, {"name": table, "column": ""})]
    locked = _locked(connection, query)
    return [int(oid) for oid in connection.execute(_DIRECT, {"roots": locked}).scalars()]


def comes_from(connection: Connection, table: str | None, query: str | None, column: str) -> tuple[int, str] | None:
    """The table that the cursor's column comes from, and its name there, or the last view that could be followed; None
    where the column is an expression of a query, or the table does not exist. Arguments as in `origin`.

    Raises: what the driver raises.
    """
    at = _at(connection, table, query, column)
    return None if at is None else (at.oid, at.column)


class _At(NamedTuple):
    """A relation, what kind it is, and one of its columns; of a view that can be followed also its SELECT."""

    oid: int
    kind: str
    column: str
    sql: str | None


def _at(connection: Connection, table: str | None, query: str | None, column: str) -> _At | None:
    """The table whose column this is, or the last view that could be followed; as of `comes_from`."""

    def followed() -> _At | None:
        if query is None:
            rows = catalog.rows(connection, _NAMED, {"name": table, "column": column})
            found = _At(rows[0].oid, rows[0].kind, column, rows[0].sql) if rows else None
        else:
            found = _traced(connection, query, column)
        return None if found is None else _behind_views(connection, found)

    return catalog.asked(connection, ("comes from", table, query, column), followed)


def _all_read(connection: Connection, query: str, column: str) -> tuple[list[int], str | None]:
    """Where the cursor is an expression: every relation that is read, and why not all of what is read can be seen."""
    return _locked(connection, query), unseen(connection, query, column)


def _behind_views(connection: Connection, at: _At) -> _At:
    for _ in range(DEEPEST):
        below = None
        if at.sql is not None:
            with contextlib.suppress(DBAPIError):  # a function that it calls may be forbidden to this user
                below = _traced(connection, at.sql.rstrip().rstrip(";"), at.column)
        if below is None:
            break
        at = below
    return at


def _traced(connection: Connection, query: str, column: str) -> _At | None:
    """The relation and column that a query's column is, as the server describes the result; None for an expression."""
    sql = f"select poller_query.{quoted(column)} from (\n{query}\n) as poller_query where false"  # noqa: S608 - as below
    result = connection.execute(sa.text(escape_colons(sql)))
    cursor: Any = result.cursor
    described = getattr(cursor, "pgresult", None)
    if described is not None:  # psycopg
        oid, number = described.ftable(0), described.ftablecol(0)
    else:
        first = cursor.description[0]
        oid, number = getattr(first, "table_oid", None), getattr(first, "table_column", None)
    result.close()
    if not oid or not number:
        return None
    row = connection.execute(_NUMBERED, {"oid": oid, "number": number}).one_or_none()
    return None if row is None or row.column is None else _At(row.oid, row.kind, row.column, row.sql)


def _locked(connection: Connection, query: str) -> list[int]:
    """Every relation that a query names, at any depth: while a statement runs, this session holds a lock on each."""
    sql = f"""
select coalesce(array_agg(distinct l.relation), '{{}}')
  from pg_locks l left join (\n{query}\n) as poller_query on false
 where l.pid = pg_backend_pid() and l.locktype = 'relation' and l.relation >= 16384
   and l.database = (select oid from pg_database where datname = current_database())
"""  # noqa: S608 - the query was checked when it was configured
    return [int(oid) for oid in connection.execute(sa.text(escape_colons(sql))).scalar_one()]


def _name(connection: Connection, oid: int) -> str:
    return str(connection.execute(_NAME_OF, {"oid": oid}).scalar_one())


_UNSEEN = sa.text("""
select cast(p.proname as text) as name, x.extname is not null as linked
  from pg_proc p
  left join pg_depend e on e.classid = cast('pg_proc' as regclass) and e.objid = p.oid and e.deptype = 'e'
  left join pg_extension x on x.oid = e.refobjid and x.extname = 'dblink'
 where p.pronamespace <> cast('pg_catalog' as regnamespace) and p.provolatile <> 'i'
   and (p.proname = any(cast(:scanned as text[])) or (p.proretset and p.proname = any(cast(:called as text[]))))
 order by linked desc, name limit 1
""")
_CALLED = re.compile(r'"((?:[^"]|"")+)"\(|([^\W\d][\w$]*)\(')


def unseen(connection: Connection, query: str, column: str) -> str | None:
    """Why it cannot be known that the rows of a query are this server's; None if they come from no function.

    Args:
        column: the cursor's; the other columns of the query are left out. Raises: what the driver raises.
    """
    select = f"select poller_query.{quoted(column)} from (\n{query}\n) as poller_query"  # noqa: S608 - checked when configured
    found: Any = connection.execute(sa.text(escape_colons(f"explain (verbose, format json) {select}"))).scalar_one()
    tree = json.loads(found) if isinstance(found, str) else found
    scanned: set[str] = set()
    called: set[str] = set()
    nodes = [part["Plan"] for part in tree]
    while nodes:
        node = nodes.pop()
        below = node.get("Plans", [])
        nodes += [n for n in below if n.get("Parent Relationship") != "SubPlan" and not _is_value(n)]
        if node["Node Type"] == "Function Scan" and node.get("Schema") != "pg_catalog":
            scanned |= {str(node["Function Name"])} if "Function Name" in node else _names(node.get("Function Call"))
        if node["Node Type"] == "ProjectSet":
            called |= _names(" ".join(node.get("Output", [])))
    if not scanned and not called:
        return None
    row = connection.execute(_UNSEEN, {"scanned": sorted(scanned), "called": sorted(called)}).one_or_none()
    if row is None:
        return None
    if row.linked:
        return f"it reads by {row.name}, from a server with its own timestamps"
    return f"rows come from the function {row.name}, whose transactions cannot be seen"


def _is_value(node: Any) -> bool:
    """True if a subquery is one value, not the rows of a WITH clause."""
    return node.get("Parent Relationship") == "InitPlan" and not str(node.get("Subplan Name", "")).startswith("CTE ")


def _names(text: str | None) -> set[str]:
    return {name.replace('""', '"') or plain for name, plain in _CALLED.findall(text or "")}
