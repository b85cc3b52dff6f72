"""What PostgreSQL's catalog says of a table's columns and keys, in our own words: SQLAlchemy's come with JSON in them,
which a connection may return as text, or by a parser of the application's own."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases import catalog
from poller.sources.columns.uniqueness import Reflected, quoted

_COLUMNS = sa.text("""
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
       r.relkind <> 'p' and exists (select from family f where f.oid <> r.oid) as inherited
  from made m join pg_class r on r.oid = to_regclass(:name)
  join pg_attribute a on a.attrelid = r.oid and a.attnum = m.number
  left join kept k on k.name = a.attname
 group by a.attname, m.number, r.oid, r.relkind order by m.number
""")
"""Of each column: its name, whether it or its domain is NOT NULL, the number in parentheses after its type, and whether
NOT NULL is enforced in all that a SELECT of the table reads: children may lack it, foreign tables only declare it, and
it may be NOT VALID."""
_UNIQUE = sa.text("""
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
_INVALID = sa.text("""
select cast(c.relname as text) from pg_index i join pg_class c on c.oid = i.indexrelid
 where i.indrelid = to_regclass(:name) and not i.indisvalid
""")


def reflected(connection: Connection, table: str, schema: str | None, names: Sequence[str]) -> Reflected:
    """Of each column whether it is NOT NULL, and the digits of a second, for drivers that do not report them; the
    server's description of a result has the types."""
    rows = catalog.rows(connection, _COLUMNS, {"name": quoted(table, schema), "columns": sorted(set(names))})
    columns = {
        row.name: {"name": row.name, "nullable": None if row.firm > row.kept else not row.firm, "digits": row.digits}
        for row in rows
    }
    return Reflected(columns, any(row.is_base for row in rows), any(row.inherited for row in rows))


def unique_sets(connection: Connection, table: str, schema: str | None) -> tuple[list[str], list[list[str]]]:
    """See `Dialect.unique_sets`."""
    rows = catalog.rows(connection, _UNIQUE, {"name": quoted(table, schema)})
    own = next((list(row.columns) for row in rows if row.is_primary), [])
    return own, [list(row.columns) for row in rows if row.proves]


def invalid_indexes(connection: Connection, table: str, schema: str | None) -> set[str]:
    """See `Dialect.invalid_indexes`."""
    return {str(name) for (name,) in catalog.rows(connection, _INVALID, {"name": quoted(table, schema)})}
