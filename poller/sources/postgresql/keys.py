"""What PostgreSQL's catalog says of a table's columns and keys, in our own words (SQLAlchemy's come with JSON in them,
which a connection may return as text, or by a parser of the application's own), and what a configuration's
names mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from poller.sources import user_sql
from poller.sources.columns import quoted
from poller.sources.facts import GONE

VERSION = """
select concat_ws(' ', t.oid, t.relhassubclass,
       (select string_agg(concat(i.indexrelid, '/', i.xmin), ' ' order by i.indexrelid)
          from pg_index i where i.indrelid = t.oid and i.indisunique),
       (select string_agg(concat(a.attnum, '/', a.xmin), ' ' order by a.attnum)
          from pg_attribute a where a.attrelid = t.oid and a.attname = any(cast(:columns as text[]))))
  from pg_class t where t.oid = to_regclass(:name)
"""
"""Which rows of the catalog say that these columns are unique and NOT NULL: while it stays, they are."""
GUARD = f"CAST(coalesce(CAST(pg_index_has_property({{index}}, 'clusterable') AS text), '{GONE}') AS boolean)"
"""True while there is an index of this number, else an error. It is asked once per statement, and costs no lookup. The
statement locks the table before, so that no constraint goes while it runs. No column of a primary key may be NULL or
change its type or collation while its index lasts."""
COLUMNS = sa.text(
    """
with recursive made (number, type, digits, firm) as (
    select a.attnum, a.atttypid, a.atttypmod, a.attnotnull
      from pg_attribute a join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p', 'f', 'v', 'm')
     where a.attrelid = to_regclass(:name) and a.attnum > 0 and not a.attisdropped
  union all
    select m.number, t.typbasetype, t.typtypmod, m.firm or t.typnotnull
      from made m join pg_type t on t.oid = m.type and t.typtype = 'd'
), family (oid) as (
    select c.oid from pg_class c where c.oid = to_regclass(:name)
  union
    select i.inhrelid from family f join pg_inherits i on i.inhparent = f.oid
), kept (name, firm) as (
    select a.attname, bool_and(a.attnotnull and c.relkind <> 'f' and not exists (
               select from pg_constraint n
                where n.conrelid = f.oid and n.contype = 'n' and not n.convalidated and a.attnum = any(n.conkey)))
      from family f join pg_class c on c.oid = f.oid
      join pg_attribute a on a.attrelid = f.oid and a.attnum > 0 and not a.attisdropped
     where a.attname = any(cast(:columns as text[]))
     group by a.attname
)
select cast(a.attname as text) as name, bool_or(m.firm) as firm, nullif(max(m.digits), -1) as digits,
       coalesce(bool_and(k.firm), true) as kept, r.relkind in ('r', 'p') as is_base,
       r.relkind <> 'p' and exists (select from family f where f.oid <> r.oid) as inherited, ({version}) as version,
       (select n.conindid from pg_constraint n where n.conrelid = r.oid and n.contype = 'p') as key_index,
       (select array_agg(cast(k.attname as text)) from pg_constraint n
          join pg_attribute k on k.attrelid = n.conrelid and k.attnum = any(n.conkey)
         where n.conrelid = r.oid and n.contype = 'p') as primary_key
  from made m join pg_class r on r.oid = to_regclass(:name)
  join pg_attribute a on a.attrelid = r.oid and a.attnum = m.number
  left join kept k on k.name = a.attname
 group by a.attname, m.number, r.oid, r.relkind order by m.number
""".replace("{version}", VERSION)
)
"""For each column: its name, if it or its domain is NOT NULL, the number in parentheses after its type, and if NOT
NULL is enforced in all that a SELECT of the table reads: children may lack it, foreign tables only declare it, and
it may be NOT VALID."""
UNIQUE = sa.text("""
select array_agg(cast(a.attname as text) order by k.n) as columns, i.indisprimary as is_primary, not bool_or(
         exists (select from pg_collation l
                  where l.oid = a.attcollation and not l.collisdeterministic and l.oid <> i.indcollation[k.n - 1])
         or exists (select from pg_opclass own
                      join pg_amop e on e.amopfamily = own.opcfamily and e.amoplefttype = own.opcintype
                           and e.amoprighttype = own.opcintype and e.amopstrategy = 3
                      join pg_opclass used on used.oid = i.indclass[k.n - 1] and used.opcmethod = own.opcmethod
                      join pg_amop u on u.amopfamily = used.opcfamily and u.amoplefttype = used.opcintype
                           and u.amoprighttype = used.opcintype and u.amopstrategy = 3
                     where own.opcdefault and own.opcintype = a.atttypid and u.amopopr <> e.amopopr)) as proves
  from pg_index i
 cross join lateral unnest(i.indkey) with ordinality as k (number, n)
  join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
 where i.indrelid = to_regclass(:name) and k.n <= i.indnkeyatts
   and i.indisunique and i.indisvalid and i.indisready and i.indpred is null and i.indexprs is null
 group by i.indexrelid, i.indisprimary
 order by i.indisprimary desc, i.indexrelid
""")
"""Whole, valid indexes. One proves that its columns are unique where two values differ only where they differ for
`=`: a collation or operator class finer than the column's own treats values as distinct that are equal in the page's
order. Deferrable ones count: committed rows obey them."""
INVALID = sa.text("""
select cast(c.relname as text) from pg_index i join pg_class c on c.oid = i.indexrelid
 where i.indrelid = to_regclass(:name) and not i.indisvalid
""")


def named(table: str, schema: str | None, columns: Iterable[str]) -> dict[str, Any]:
    """The parameters of `VERSION`."""
    return {"name": quoted(table, schema), "columns": sorted(set(columns))}


# ----------------------------------------------------------------------------------------- the names of a configuration
# Which database, schema, table and server PostgreSQL means by the names of a configuration.

SERVER = """
(SELECT system_identifier FROM pg_control_system()) || '/' || CASE WHEN NOT pg_is_in_recovery()
  THEN CAST(CAST(CAST('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8) AS bit(32)) AS integer) AS text) END
"""
"""The cluster and its timeline. Any role may ask; a managed server may forbid it."""
TABLE = """
SELECT current_database(), n.nspname, 'oid ' || c.oid, {server}
  FROM (SELECT to_regclass(:name) AS found) AS t
  LEFT JOIN pg_class c ON c.oid = t.found LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
"""
QUERY = """
SELECT current_database(),
       CASE WHEN :whole OR EXISTS (SELECT FROM unnest(CAST(:functions AS text[])) AS f (name)
                                    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = f.name
                                                         AND p.pronamespace = CAST('pg_catalog' AS regnamespace)))
            THEN array_to_string(current_schemas(false), ', ')
            ELSE (SELECT string_agg(DISTINCT n.nspname, ', ' ORDER BY n.nspname)
                    FROM unnest(CAST(:names AS text[])) AS t (name)
                    JOIN pg_class c ON c.oid = to_regclass(t.name) JOIN pg_namespace n ON n.oid = c.relnamespace)
       END, NULL, {server}
"""


def unqualified(query: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """What a query names without a schema: tables, quoted, and functions; None where the whole search path counts: the
    query cannot be parsed, or a function that it names with its schema may read anything.

    The name of a common table expression counts too: inside of it, it may be a table's.
    """
    try:
        tree = user_sql.parse(query, "postgresql")
    except user_sql.Unreadable:
        return None
    from sqlglot import exp

    functions = set()
    for function in tree.find_all(exp.Anonymous):
        if isinstance(function.parent, exp.Dot) or not isinstance(function.this, str):
            return None
        functions.add(_folded(function.this))
    names = set()
    for table in tree.find_all(exp.Table):
        if table.db:
            if isinstance(table.this, exp.Anonymous):
                return None
            continue
        if not isinstance(table.this, exp.Identifier):
            continue  # a function
        names.add(quoted(table.name if table.this.quoted else _folded(table.name)))
    return tuple(sorted(names)), tuple(sorted(functions))


def _folded(name: str) -> str:
    """As PostgreSQL folds an unquoted name: ASCII letters only."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)
