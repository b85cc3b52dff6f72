"""Which unique indexes of SQLite treat as different what their column's comparison treats as equal."""

from __future__ import annotations

from sqlalchemy.engine import Connection

_SQLITE = """
SELECT l.name, x.name, x.coll FROM pragma_index_list(?) AS l, pragma_index_xinfo(l.name) AS x
 WHERE l."unique" AND NOT l.partial AND x.key ORDER BY l.seq, x.seqno
"""


def too_fine(connection: Connection, table: str) -> list[list[str]]:
    """Unique sets whose indexes all have another collation than their column, which treats more values as
    equal. No collation is finer than BINARY."""
    indexes: dict[str, list[tuple[str, str]]] = {}
    for index, column, collation in connection.exec_driver_sql(_SQLITE, (table,)):
        indexes.setdefault(index, []).append((column, str(collation).upper()))
    fits: dict[tuple[str, ...], bool] = {}
    for parts in indexes.values():
        names = tuple(column for column, _ in parts)
        if None in names:
            continue
        fit = all(_collation(connection, table, column) in {"BINARY", collation} for column, collation in parts)
        fits[names] = fits.get(names, False) or fit
    return [list(names) for names, fit in fits.items() if not fit]


def _collation(connection: Connection, table: str, column: str) -> str:
    """The collation by which SQLite compares a column: no pragma shows it, the compiled comparison does."""
    quote = connection.dialect.identifier_preparer.quote
    sql = f"EXPLAIN SELECT {quote(column)} = '' FROM {quote(table)}"  # noqa: S608 - quoted names
    for row in connection.exec_driver_sql(sql):
        if row[1] == "Eq" and isinstance(row[5], str):
            return row[5].rpartition("-")[0].upper()
    return "BINARY"
