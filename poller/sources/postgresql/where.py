"""Which database, schema, table and server PostgreSQL means by the names of a configuration."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import URL

from poller.sources import user_sql
from poller.sources.columns.uniqueness import quoted
from poller.sources.database import Question
from poller.sources.identity import identify
from poller.sources.options import Options

_SERVER = """
(SELECT system_identifier FROM pg_control_system()) || '/' || CASE WHEN NOT pg_is_in_recovery()
  THEN CAST(CAST(CAST('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8) AS bit(32)) AS integer) AS text) END
"""
"""The cluster and its timeline. Any role may ask; a managed server may forbid it."""
_TABLE = """
SELECT current_database(), n.nspname, 'oid ' || c.oid, {server}
  FROM (SELECT to_regclass(:name) AS found) AS t
  LEFT JOIN pg_class c ON c.oid = t.found LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
"""
_QUERY = """
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


def question(options: Options) -> Question:
    """What asks for them."""
    servers = (_SERVER, "NULL")
    if options.table is not None:
        return Question(_TABLE, {"name": quoted(options.table, options.schema_name)}, servers, finds_table=True)
    found = unqualified(options.query or "")
    names, functions = found or ((), ())
    params = {"whole": found is None, "names": list(names), "functions": list(functions)}
    return Question(_QUERY, params, servers)


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


def reached(info: Any) -> dict[str, Any]:
    """Host and port as given to libpq, all of them, not the one that answered: after a fail-over that is another."""
    given = info.get_parameters() if hasattr(info, "get_parameters") else getattr(info, "dsn_parameters", {})
    host = given.get("hostaddr") or given.get("host")
    if not host:
        return {}
    found = identify(URL.create("postgresql", query={"host": host, "port": given.get("port") or ""}))
    return {"database.host": found.host, "database.port": found.port}
