"""PostgreSQL: `now()` becomes a time without a zone in the zone of the session that writes.

That zone comes from the server, the database, the role, or the role in this database; a later one overrides an earlier
one. This session's zone (an option of the URL, its role's setting) is not the writers'. A client's own setting cannot
be seen from here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases import catalog
from poller.sources.columns import quoted
from poller.sources.postgresql.origin import comes_from
from poller.sources.stamping import (
    ColumnOrigin,
    Stamp,
    StampRule,
    Watched,
    Words,
    by_default,
    by_expression,
    by_generation,
    by_trigger,
    made_of,
    of_name,
)

WORDS = Words(
    utc=r"(?!)",
    session=r"\b(?:now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday)\s*\(\s*\)"
    r"|\b(?:current_timestamp|localtimestamp|current_date)\b|'(?:now|today)'",
    fixed=r"\bat\s+time\s+zone\s*(?:\(|cast\s*\()*\s*'(?P<zone>[^']*)'|\btimezone\s*\(\s*'(?P<named>[^']*)'",
    known="now clock_timestamp statement_timestamp transaction_timestamp timeofday timezone date_trunc coalesce"
    " greatest least cast current_timestamp localtimestamp timestamp timestamptz nullif zone",
    other=r"\blocaltimestamp\b.*\b(?:at\s+time\s+zone|timezone)\b|\btimezone\b.*\blocaltimestamp\b"
    r"|\b(?:time\s+zone|timezone)\s*\(*\s*(?:interval\b|'[^']*'::interval\b)",  # ISO's sign, not POSIX'
    earlier=r"\bdate_trunc\s*\(\s*'(?!(?:milli|micro)?seconds?')|\bcurrent_date\b|'today'|::date\b"
    r"|-\s*(?:interval\b|'[^']*'::interval)",
)

_FILLS = sa.text(
    """
with recursive part (oid) as (
    select cast(:oid as oid)
  union
    select i.inhrelid from part p join pg_inherits i on i.inhparent = p.oid
), fires as (
    select distinct on (t.tgname, t.tgfoid) t.tgname as name, p.proname as function, l.lanname as language,
           p.prosrc as body, (t.tgtype & 2) <> 0 as before, (t.tgtype & 4) <> 0 as inserts,
           (t.tgtype & 16) <> 0 as updates, t.tgqual is null and cardinality(cast(t.tgattr as int2[])) = 0 as firm,
           encode(t.tgargs, 'escape') as arguments,
           (select substr(s, strpos(s, '=') + 1) from unnest(p.proconfig) as s where s ilike 'timezone=%') as zone,
           (select array_agg(cast(c.relname as text)) from pg_class c where c.oid in (select oid from part)) as tables
      from pg_trigger t join pg_proc p on p.oid = t.tgfoid join pg_language l on l.oid = p.prolang
     where t.tgrelid in (select oid from part) and not t.tgisinternal and t.tgenabled in ('O', 'A')
       and not (l.lanname = 'internal' or (l.lanname = 'c' and (t.tgtype & 2) = 0))
     order by t.tgname, t.tgfoid, t.tgrelid <> :oid
)
select n.nspname as schema, c.relname as table, format_type(a.atttypid, a.atttypmod) as kind,
       coalesce(to_jsonb(a) ->> 'attgenerated', '') as generated,
       coalesce(pg_get_expr(d.adbin, d.adrelid), t.typdefault) as made, c.relkind::text as relkind,
       case when c.relkind = 'v' then pg_get_viewdef(c.oid) end as viewed,
       array(select distinct pg_get_expr(e.adbin, e.adrelid)
               from part p join pg_class k on k.oid = p.oid and k.oid <> c.oid and not k.relispartition
               join pg_attribute b on b.attrelid = k.oid and b.attname = :column
                    and to_jsonb(b) ->> 'attgenerated' = ''
               join pg_attrdef e on e.adrelid = b.attrelid and e.adnum = b.attnum) as inherited, f.*
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  join pg_attribute a on a.attrelid = c.oid and a.attname = :column
  join pg_type t on t.oid = a.atttypid
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join fires f on true
 where c.oid = :oid
 order by f.name, f.function
""".replace("::", "\\:\\:")
)
"""What fills a column: one row for each trigger of the table, its partitions and children, or one without a trigger.
Rows of children are inserted into them, and may have another DEFAULT (`inherited`); those of partitions get the
table's. PostgreSQL's own functions (tsvector_update_trigger) set no time, nor do functions in C after the row is
written (a replication's log, a notification)."""
_STARTED = "select setting, source from pg_settings where name = 'TimeZone'"
_SET = sa.text("""
with set (database, role, zone) as (
    select s.setdatabase, s.setrole, substr(u, strpos(u, '=') + 1)
      from pg_db_role_setting s cross join lateral unnest(s.setconfig) as u
     where u ilike 'timezone=%'
       and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
), writer (oid, name) as (
    select r.oid, r.rolname from pg_roles r cross join pg_class c
     where c.oid = to_regclass(:name) and r.rolcanlogin and not (r.rolname = any(cast(:ignored as text[])))
       and has_database_privilege(r.oid, current_database(), 'CONNECT')
       and (has_any_column_privilege(r.oid, c.oid, 'INSERT, UPDATE') or pg_has_role(r.oid, c.relowner, 'member'))
)
select cast(w.name as text) as role, s.database <> 0 as here, s.zone, false as others, current_database() as database
  from writer w cross join lateral (
       select * from set where set.role = w.oid order by set.database <> 0 desc limit 1) s
 where exists (select from set where set.role <> 0)
union all
select null, s.database <> 0, s.zone, exists (select from writer w where not exists (
           select from set where set.role = w.oid)), current_database()
  from (select 0) one left join lateral (
       select * from set where set.role = 0 order by set.database <> 0 desc limit 1) s on true
""")
"""The zones of roles that may log in and write the table, and the zone of all other roles: `others` says whether there
are any."""
_OFFSETS = sa.text("""
select cast(extract(epoch from (i at time zone :zone) - (i at time zone 'UTC')) as integer)
  from unnest(cast(:instants as timestamptz[])) with ordinality as u (i, n) order by n
""")
_OWN = frozenset({"user", "database user", "client", "session", "override", "interactive"})
"""Sources of a setting of this session that hide the server's."""


def origin(connection: Connection, watched: Watched) -> ColumnOrigin:
    """The column behind the cursor. Raises what the driver raises."""
    name = None if watched.table is None else quoted(watched.table, watched.schema)
    at = comes_from(connection, name, watched.query, watched.column)
    if at is None:
        made = made_of(watched.query or "", watched.column, "postgresql")
        return ColumnOrigin(None, None, "", [by_expression("the query's column", made)])
    oid, column = at
    described = catalog.rows(connection, _FILLS, {"oid": oid, "column": column})
    if not described:
        return ColumnOrigin(None, None, "", [by_expression("the column", None)])
    row = described[0]
    if row.relkind not in {"r", "p"}:
        made = made_of(str(row.viewed), column, "postgresql") if row.viewed else None
        return ColumnOrigin(None, None, "", [by_expression(f"the column of {row.table}", made)])
    found: list[StampRule] = []
    if row.generated:
        found.append(by_generation(row.made))
    elif row.made is not None:
        found.append(by_default(row.made))
    if not row.generated:
        found += [by_default(sql) for sql in row.inherited if sql != row.made]
    for one in described:
        found += [] if one.name is None else _trigger(one, column)
    return ColumnOrigin(row.schema, row.table, column, found, kind=row.kind)


def _trigger(row: Any, column: str) -> list[StampRule]:
    body: str | None = row.body if row.language == "plpgsql" else None
    if row.function == "moddatetime" and row.language == "c":  # an extension's: it stamps the column that it names
        if column not in str(row.arguments).split("\\000"):
            return []
        body = f'new."{column}" := now();'
    events = " ".join(["INSERT"] * row.inserts + ["UPDATE"] * row.updates)
    return by_trigger(
        row.name, body, column, events, to_new=row.before, firm=row.firm, zone=row.zone, tables=row.tables
    )


def server(connection: Connection, watched: Watched, found: ColumnOrigin, at: Sequence[datetime]) -> list[Stamp]:
    """The zones of the sessions of all roles that may write the table."""
    parameters = {"name": quoted(found.table or "", found.schema), "ignored": list(watched.ignore_users)}
    stamps: list[tuple[str, str, str]] = []
    for row in catalog.rows(connection, _SET, parameters):
        if row.role is not None:
            where = f' IN DATABASE "{row.database}"' if row.here else ""
            stamps.append((row.zone, f'ALTER ROLE "{row.role}"{where} SET timezone', row.role))
        elif row.zone is not None:
            what = f'ALTER DATABASE "{row.database}" SET timezone' if row.here else "ALTER ROLE ALL SET timezone"
            stamps += [(row.zone, what, "")] * row.others
        elif row.others:
            stamps.append((*_configured(connection), ""))
    return [
        Stamp(zone, source, _offsets_of_setting(connection, zone, at), role=role)
        for zone, source, role in stamps or [(*_configured(connection), "")]
    ]


def _offsets_of_setting(connection: Connection, zone: str, at: Sequence[datetime]) -> dict[datetime, int] | None:
    """The offsets of a zone that `timezone` is set to. There `CET` is the zone, with summer time; after AT TIME ZONE it
    is the abbreviation, without it. So the server is not asked about names that Python knows. A setting's distance has
    the sign of POSIX, not of ISO."""
    known = of_name(zone, at) if zone[:1].isalpha() else None
    return known or (offsets(connection, zone, at) if zone else None)


def _configured(connection: Connection) -> tuple[str, str]:
    """The server's own setting, and its source; an empty zone where this session's own hides it."""
    row = connection.exec_driver_sql(_STARTED).one()
    if row[1] in {"session", "interactive"}:
        connection.exec_driver_sql("begin")
        try:
            connection.exec_driver_sql("set local timezone to default")
            row = connection.exec_driver_sql(_STARTED).one()
        finally:
            connection.exec_driver_sql("rollback")
    zone, source = str(row[0]), str(row[1])
    if source == "client":
        zone, source = _without_options(connection) or (zone, source)
    if source in _OWN:
        return "", f"the server's own timezone, which this session's ({source}) hides"
    return zone, f"the server's timezone, by its {source}"


def _without_options(connection: Connection) -> tuple[str, str] | None:
    """The setting with which a session without the URL's options starts; None if that cannot be tried."""
    engine = connection.engine
    if "options" not in engine.url.query:
        return None
    with contextlib.suppress(Exception):  # a user's engine may connect in another way
        plain = engine.url.difference_update_query(["options"])
        arguments, keywords = engine.dialect.create_connect_args(plain)
        raw: Any = engine.dialect.connect(*arguments, **{"connect_timeout": 10, **keywords})
        try:
            cursor = raw.cursor()
            cursor.execute(_STARTED)
            row = cursor.fetchone()
            return str(row[0]), str(row[1])
        finally:
            raw.close()
    return None


def offsets(connection: Connection, zone: str, at: Sequence[datetime]) -> dict[datetime, int] | None:
    """As the server knows the zone; None if it does not."""
    try:
        found = connection.execute(_OFFSETS, {"zone": zone, "instants": [one.isoformat() for one in at]}).scalars()
        return dict(zip(at, map(int, found), strict=True))
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return None
