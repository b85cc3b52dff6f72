"""What a configuration leaves to the server: which database, schema and table its names mean there.

With a URL without a database, a table without a schema, a query with unqualified names or a service file, a role's
setting or a changed file makes the same configuration mean another table. So the server is asked, once per connection,
and its answer is part of the fingerprint (sources.md, "Fingerprint").
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, ProgrammingError

from poller.model.fingerprint import DatabaseIdentity
from poller.sources import user_sql
from poller.sources.columns.uniqueness import quoted
from poller.sources.connection import Database
from poller.sources.identity import identify, names_host
from poller.sources.options import Options

_BY_FILE = {"postgresql": ("service",), "mysql": ("read_default_file", "read_default_group")}
"""Options with which the driver reads host, port and database from a file."""
_POSTGRESQL_SERVER = """
(SELECT system_identifier FROM pg_control_system()) || '/' || CASE WHEN NOT pg_is_in_recovery()
  THEN CAST(CAST(CAST('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8) AS bit(32)) AS integer) AS text) END
"""
"""The cluster and its timeline. Any role may ask; a managed server may forbid it."""
_TABLE = {
    "postgresql": """
SELECT current_database(), n.nspname, 'oid ' || c.oid, {server}
  FROM (SELECT to_regclass(:name) AS found) AS t
  LEFT JOIN pg_class c ON c.oid = t.found LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
""",
    "mysql": "SELECT database(), NULL, NULL, {server}",
    "mssql": """
SELECT DB_NAME(), OBJECT_SCHEMA_NAME(OBJECT_ID(:name)),
       (SELECT CONCAT('object ', object_id, ', created ', CONVERT(varchar(23), create_date, 126))
          FROM sys.objects WHERE object_id = OBJECT_ID(:name)), NULL
""",
}
_QUERY = {
    "postgresql": """
SELECT current_database(),
       CASE WHEN :whole OR EXISTS (SELECT FROM unnest(CAST(:functions AS text[])) AS f (name)
                                    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = f.name
                                                         AND p.pronamespace = CAST('pg_catalog' AS regnamespace)))
            THEN array_to_string(current_schemas(false), ', ')
            ELSE (SELECT string_agg(DISTINCT n.nspname, ', ' ORDER BY n.nspname)
                    FROM unnest(CAST(:names AS text[])) AS t (name)
                    JOIN pg_class c ON c.oid = to_regclass(t.name) JOIN pg_namespace n ON n.oid = c.relnamespace)
       END, NULL, {server}
""",
    "mysql": "SELECT database(), NULL, NULL, {server}",
    "mssql": "SELECT DB_NAME(), NULL, NULL, NULL",
}
_UNTRIED = frozenset({"mssql"})
"""Not tested on a server: there the question may fail in any way."""


@dataclass(frozen=True)
class Whereabouts:
    """What the server says.

    Attributes:
        said: the database, the schema (of a query: of all it names without one), host and port, as fields of the
            description; None where it does not know. object: which object has the table's name, and server: which
            server it is, on which timeline; None where that is not known.
    """

    said: Mapping[str, Any] = field(default_factory=dict)
    object: str | None = None
    server: str | None = None


def left_open(url: URL, identity: DatabaseIdentity, options: Options) -> tuple[str, ...]:
    """The fields of the description that only the server knows. Opens nothing."""
    family = identity.dialect
    if family not in _TABLE:
        return ()
    found = []
    named_by_schema = family == "mysql" and options.schema_name is not None  # where schemas are databases
    if identity.database is None and not named_by_schema:
        found.append("database.database")
    if family == "postgresql" and "hostaddr" in url.query:
        found.append("database.host")  # where it connects to; `host` is then only what a certificate must say
    elif any(name in url.query for name in _BY_FILE.get(family, ())) and not names_host(url):
        found += ["database.host", "database.port"] if url.port is None else ["database.host"]
    if options.table is not None and options.schema_name is None and family != "mysql":
        found.append("schema")
    if options.query is not None and family == "postgresql" and unqualified(options.query) != ((), ()):
        found.append("schema")
    return tuple(found)


def unqualified(query: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """What a query of PostgreSQL names without a schema: tables, quoted, and functions; None where the whole search
    path counts: the query cannot be parsed, or a function that it names with its schema may read anything.

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


def ask(database: Database, options: Options) -> Whereabouts | None:
    """Ask in one statement. None where there is nothing to ask, no such table, or a server that does not support the
    question, as some with PostgreSQL's protocol: then the source is what the configuration says. Raises what the driver
    raises."""
    family = database.dialect.family
    sql = (_TABLE if options.query is None else _QUERY).get(family)
    if sql is None:
        return None
    parameters: dict[str, Any]
    if options.table is None:
        parameters = _named(options.query or "") if family == "postgresql" else {}
    elif family == "mysql":
        parameters = {}
    elif family == "mssql":
        parameters = {"name": ".".join(f"[{part}]" for part in (options.schema_name, options.table) if part)}
    else:
        parameters = {"name": quoted(options.table, options.schema_name)} if family == "postgresql" else {}
    for server in _servers(database, family):
        with contextlib.suppress(DBAPIError if family in _UNTRIED else ProgrammingError):
            in_use, schema, made, which = database.run(sql.replace("{server}", server), parameters).rows[0]
            if options.table is not None and family == "postgresql" and schema is None:
                return None
            said = {"database.database": in_use, "schema": schema, **_reached(database.driver_connection(), family)}
            return Whereabouts(said, None if made is None else str(made), None if which is None else str(which))
    return None


def _servers(database: Database, family: str) -> tuple[str, ...]:
    """Expressions for which server it is, each tried where the one before it is forbidden. MariaDB has none."""
    if family == "postgresql":
        return _POSTGRESQL_SERVER, "NULL"
    if family == "mysql" and not getattr(database.engine.dialect, "is_mariadb", False):
        return "@@server_uuid", "NULL"
    return ("NULL",)


def _named(query: str) -> dict[str, Any]:
    found = unqualified(query)
    names, functions = found or ((), ())
    return {"whole": found is None, "names": list(names), "functions": list(functions)}


def _reached(driver: Any, family: str) -> dict[str, Any]:
    """Host and port as the driver knows them; empty where it does not."""
    if family == "postgresql":
        return _asked_for(getattr(driver, "info", None))
    socket = getattr(driver, "unix_socket", None) if family == "mysql" else None
    host, port = socket or getattr(driver, "host", None), getattr(driver, "port", None)
    if not isinstance(host, str) or not host:
        return {}
    path = host.startswith("/")
    return {
        "database.host": host if path else host.lower(),
        "database.port": port if isinstance(port, int) and not socket else None,
    }


def _asked_for(info: Any) -> dict[str, Any]:
    """All hosts given to libpq, not the one that answered: after a fail-over that is another."""
    given = info.get_parameters() if hasattr(info, "get_parameters") else getattr(info, "dsn_parameters", {})
    host = given.get("hostaddr") or given.get("host")
    if not host:
        return {}
    found = identify(URL.create("postgresql", query={"host": host, "port": given.get("port") or ""}))
    return {"database.host": found.host, "database.port": found.port}
