"""Which constraints and indexes really keep a key unique and NOT NULL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Inspector

from poller.databases import catalog

_POSTGRESQL = sa.text("""
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

_FAMILY = sa.text("""
with recursive family (oid) as (
    select c.oid from pg_class c where c.oid = to_regclass(:name)
  union
    select i.inhrelid from family f join pg_inherits i on i.inhparent = f.oid
)
select cast(a.attname as text) as name, bool_and(a.attnotnull and c.relkind <> 'f' and not exists (
           select from pg_constraint n
            where n.conrelid = f.oid and n.contype = 'n' and not n.convalidated and a.attnum = any(n.conkey))) as firm,
       bool_or(c.oid <> r.oid) and r.relkind <> 'p' as inherited
  from family f join pg_class c on c.oid = f.oid
  join pg_attribute a on a.attrelid = f.oid and a.attnum > 0 and not a.attisdropped
 cross join (select oid, relkind from pg_class where oid = to_regclass(:name)) r
 where a.attname = any(cast(:columns as text[]))
 group by a.attname, r.relkind
""")
_INVALID = sa.text("""
select cast(c.relname as text) from pg_index i join pg_class c on c.oid = i.indexrelid
 where i.indrelid = to_regclass(:name) and not i.indisvalid
""")
_SQLITE = """
SELECT l.name, x.name, x.coll FROM pragma_index_list(?) AS l, pragma_index_xinfo(l.name) AS x
 WHERE l."unique" AND NOT l.partial AND x.key ORDER BY l.seq, x.seqno
"""


def unique_sets(inspector: Inspector, table: str, schema: str | None) -> tuple[list[str], list[list[str]]]:
    """The primary key's columns, and every set of columns (the primary key first) that a constraint or a full index
    keeps unique. Raises what the driver raises."""
    if inspector.dialect.name == "postgresql":
        rows = catalog.rows(_connection(inspector), _POSTGRESQL, {"name": quoted(table, schema)})
        own = next((list(row.columns) for row in rows if row.is_primary), [])
        return own, [list(row.columns) for row in rows if row.proves]
    primary = list(inspector.get_pk_constraint(table, schema=schema).get("constrained_columns") or [])
    unique = [primary] if primary else []
    unique += [list(c["column_names"]) for c in inspector.get_unique_constraints(table, schema=schema)]
    for index in inspector.get_indexes(table, schema=schema):
        partial = any(name.endswith("_where") and value is not None for name, value in _options_of(index).items())
        if index["unique"] and not partial and None not in index["column_names"] and not index.get("expressions"):
            unique.append([str(name) for name in index["column_names"]])
    if inspector.dialect.name == "sqlite" and schema is None:
        too_fine = _too_fine(inspector, table)
        unique = [names for names in unique if names not in too_fine]
    return primary, unique


@dataclass(frozen=True, slots=True)
class Proof:
    """What constraints prove of a key; without it rows would be skipped or repeated without any error.

    Attributes:
        unique: whether a constraint or full index covers it. others: the sets of columns that are unique, for a person.
        nullable: its columns that may be NULL.
    """

    unique: bool
    others: str
    nullable: Sequence[str]


def proof_of(
    inspector: Inspector, table: str, schema: str | None, key: Sequence[str], columns: Mapping[str, Mapping[str, Any]]
) -> Proof:
    """Whether a key is unique and NOT NULL, given the table's reflected columns. Raises what the driver raises."""
    primary, unique = unique_sets(inspector, table, schema)
    return Proof(
        unique=any(names and set(names) <= set(key) for names in unique),
        others="; ".join(", ".join(names) for names in unique if names),
        # SQLite reports primary keys as nullable; rows are checked instead.
        nullable=[name for name in key if columns[name].get("nullable") and name not in primary],
    )


def weakened(
    inspector: Inspector, table: str, schema: str | None, columns: Sequence[str]
) -> tuple[Mapping[str, bool], bool]:
    """On PostgreSQL: for each column whether NOT NULL is enforced in all that a SELECT of the table reads (children may
    lack it, foreign tables only declare it, since version 18 it may be NOT VALID), and whether other tables inherit
    from it: no index spans them all."""
    if inspector.dialect.name != "postgresql":
        return {}, False
    params = {"name": quoted(table, schema), "columns": list(columns)}
    rows = catalog.rows(_connection(inspector), _FAMILY, params)
    return {row.name: row.firm for row in rows}, any(row.inherited for row in rows)


def invalid_indexes(inspector: Inspector, table: str, schema: str | None) -> set[str]:
    """PostgreSQL's indexes that a failed CREATE INDEX CONCURRENTLY left: neither enforced nor used."""
    if inspector.dialect.name != "postgresql":
        return set()
    found = catalog.rows(_connection(inspector), _INVALID, {"name": quoted(table, schema)})
    return {str(name) for (name,) in found}


def quoted(table: str, schema: str | None = None) -> str:
    """A name quoted as in standard SQL: for SQLite's statements, and for PostgreSQL's `to_regclass`, which takes it as
    a value."""
    parts = [table] if schema is None else [schema, table]
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def _too_fine(inspector: Inspector, table: str) -> list[list[str]]:
    """SQLite: unique sets whose indexes all have another collation than their column, which treats more values as
    equal. No collation is finer than BINARY."""
    connection = _connection(inspector)
    indexes: dict[str, list[tuple[str, str]]] = {}
    for index, column, collation in connection.exec_driver_sql(_SQLITE, (table,)):
        indexes.setdefault(index, []).append((column, str(collation).upper()))
    fits: dict[tuple[str, ...], bool] = {}
    for parts in indexes.values():
        names = tuple(column for column, _ in parts)
        if None in names:
            continue
        fit = all(_collation(inspector, table, column) in {"BINARY", collation} for column, collation in parts)
        fits[names] = fits.get(names, False) or fit
    return [list(names) for names, fit in fits.items() if not fit]


def _collation(inspector: Inspector, table: str, column: str) -> str:
    """The collation by which SQLite compares a column: no pragma shows it, the compiled comparison does."""
    quote = inspector.dialect.identifier_preparer.quote
    sql = f"EXPLAIN SELECT {quote(column)} = '' FROM {quote(table)}"  # noqa: S608 - quoted names
    for row in _connection(inspector).exec_driver_sql(sql):
        if row[1] == "Eq" and isinstance(row[5], str):
            return row[5].rpartition("-")[0].upper()
    return "BINARY"


def _connection(inspector: Inspector) -> Connection:
    assert isinstance(inspector.bind, Connection)  # noqa: S101 - inspected over the held connection
    return inspector.bind


def _options_of(index: Any) -> dict[str, Any]:
    return dict(index.get("dialect_options") or {})
