"""The kinds of databases that are known, by family: the one table of their names (another is in no other module)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One family of databases.

    Attributes:
        extra: our extra that installs the recommended driver. drivers: SQLAlchemy's names of its drivers, that one
            first. aliases: other names of it in URLs. port: its default port; None for a file.
        database_option: the option of a URL that names the database. parser: what sqlglot calls it.
        reader: the class in `poller.sources.FAMILY.database` that reads tables.
        socket_option: the option of a URL that names a socket's file. names_instances: whether a host may name an
            instance of a server. operators: whether `?` and `:` may be operators, and users make more.
        placeholders: of `$1`, `$x` and `@x` those that stand for a value. limit: the word for it.
        bounds: which may be asked for by name. own_cursor: the kind of cursor that only it has, and bounds itself.
        capture: the class in `poller.databases.FAMILY.capture` that captures changes; empty if there is none.
    """

    extra: str
    drivers: tuple[str, ...]
    port: int | None
    database_option: str
    parser: str
    reader: str
    aliases: tuple[str, ...] = ()
    socket_option: str = ""
    names_instances: bool = False
    operators: bool = False
    placeholders: tuple[str, ...] = ()
    limit: str = "LIMIT"
    bounds: tuple[str, ...] = ("exact",)
    own_cursor: str = ""
    capture: str = ""

    @property
    def is_file(self) -> bool:
        """True if a database is a file."""
        return self.port is None


KINDS = {
    "postgresql": Kind(
        "postgres",
        ("psycopg", "psycopg2"),
        5432,
        "dbname",
        "postgres",
        "PostgreSql",
        ("postgres",),
        operators=True,
        placeholders=("$1",),
        bounds=("exact", "strict"),
        own_cursor="xid8+pk",
        capture="PostgreSqlCapture",
    ),
    "mysql": Kind(
        "mysql",
        ("pymysql", "mysqldb", "mariadbconnector", "mysqlconnector"),
        3306,
        "database",
        "mysql",
        "MySql",
        ("mariadb",),
        socket_option="unix_socket",
        placeholders=("$1",),
        capture="MySqlCapture",
    ),
    "sqlite": Kind("", (), None, "database", "sqlite", "Sqlite", placeholders=("$x", "@x"), capture="SqliteCapture"),
    "mssql": Kind(
        "mssql",
        ("pyodbc", "pymssql"),
        1433,
        "database",
        "tsql",
        "SqlServer",
        names_instances=True,
        limit="TOP",
        own_cursor="rowversion+pk",
    ),
}


def family_named(name: str) -> str:
    """The family that SQLAlchemy's name of a backend means; the name itself if it is not known."""
    return next((family for family, kind in KINDS.items() if name in kind.aliases), name)


def kind_of(name: str) -> Kind | None:
    """The kind that SQLAlchemy's name of a backend means; None if it is not known."""
    return KINDS.get(family_named(name))
