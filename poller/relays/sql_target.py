"""A table that rows are brought into: its columns and keys, and the upsert in its database's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from math import ceil
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    JSON,
    TEXT,
    VARCHAR,
    Column,
    Connection,
    Insert,
    MetaData,
    Table,
    case,
    event,
    false,
    func,
    inspect,
    literal_column,
    or_,
)
from sqlalchemy import text as sql_text
from sqlalchemy.engine import URL
from sqlalchemy.exc import NoSuchTableError, SQLAlchemyError

from poller import tls
from poller.config.sqlite_paths import anchored
from poller.databases import tokens
from poller.databases.urls import abandon, read_url, use_utf8mb4
from poller.errors import ConfigError
from poller.model.captured import CHANGE, OP, RESERVED
from poller.model.finding import Finding, ok, warn
from poller.relays.sql_upsert import Upsert, key_is, sweeping
from poller.relays.sql_values import MAKERS
from poller.sinks.schema import family_of

if TYPE_CHECKING:
    from poller.relays.sql_settings import SqlSettings

MOST_CONNECTIONS = 64
"""As many as a poller has lanes at most."""
CONNECT = 10
"""Seconds."""


class Target:
    """A table of a database. May be used by several threads.

    Raises: ConfigError, with the setting as its key.
    """

    def __init__(self, text: str, settings: SqlSettings, *, environ: Mapping[str, str], folder: Path) -> None:
        key = "url" if settings.url_env is None else "url_env"
        try:
            url = read_url(anchored(text.strip(), folder), key="url")
            self._family = family_of(url.get_backend_name())
            self.engine = tokens.open_engine(
                url,
                partial(_connect_args, self._family, settings.timeout.total_seconds()),
                key="url",
                identity=tokens.chosen(settings.identity, environ, key="identity"),
                hide_parameters=True,
                pool_pre_ping=self._family != "sqlite",
                **({} if self._family == "sqlite" else {"max_overflow": MOST_CONNECTIONS}),
            )
        except ConfigError as refused:
            wrong = refused.key if refused.key == "identity" else key
            raise ConfigError(refused.message, key=wrong, next_step=refused.next_step) from None
        self._settings = settings
        self._limit = ceil(settings.timeout.total_seconds())
        self._lock = Lock()
        self._made: dict[tuple[str, ...], Upsert] = {}
        event.listen(self.engine, "connect", self._set_up)

    @property
    def place(self) -> str:
        """Which table it is, for a person: no user, no password, no options."""
        url, table = self.engine.url, self._settings.table
        if self._family == "sqlite":
            return f"table {table} in the SQLite file {url.database}"
        return f"table {table} in the database {url.database or '(default)'} at {url.host or 'this machine'}"

    @property
    def name(self) -> str:
        """The table, with its schema if one is set."""
        return ".".join(filter(None, [self._settings.schema_name, self._settings.table]))

    def upsert(self, columns: tuple[str, ...]) -> Upsert:
        """The statement for rows with these columns. Raises: ConfigError, SQLAlchemyError."""
        with self._lock:
            if columns not in self._made:
                with self.engine.connect() as connection:
                    self._made[columns] = self._upsert(connection, columns)
            return self._made[columns]

    def forget(self) -> None:
        """Look at the table again: it may have been changed."""
        with self._lock:
            self._made.clear()

    def security(self, environ: Mapping[str, str]) -> list[Finding]:
        """Check that the connection verifies the server, and who signs in."""
        return [*tls.of_database(self.engine.url, environ), *tokens.findings(self.engine)]

    def checkup(self) -> list[Finding]:
        """Check that the table is there with its key. Raises: ConfigError, SQLAlchemyError."""
        with self.engine.connect() as connection:
            found = _Found(connection, self._settings)
        if self._family == "mysql" and len(found.keys) > 1 and self._settings.mode == "upsert":
            message = (
                f"The {self.place} has further unique keys: a row that meets one of them updates the row that is there."
            )
            return [warn("relay", message, "Drop them, or give the relay a table without.")]
        if len(found.keys) > 1 and self._settings.on_snapshot == "sweep":
            message = (
                f"The {self.place} has further unique keys: a row waits for one with its value in such a key that is no"
                " longer in the source, and so does the snapshot's end."
            )
            return [warn("relay", message, 'Drop them, or set on_snapshot = "delete", which empties the table first.')]
        return [ok("relay", f"{self.place}: it is there, and {', '.join(self._settings.key_columns)} identify a row")]

    def check_columns(self, columns: tuple[str, ...]) -> list[Finding]:
        """Nothing, if the table takes rows with these columns. Raises: as `upsert`."""
        self.forget()
        self.upsert(columns)
        return []

    def end_stalled(self) -> None:
        """End the transactions of relays whose client has sent nothing for as long as a statement may take, in the
        middle of a pipeline of statements: a worker that was stopped there. PostgreSQL itself ends neither those, which
        are not idle, nor a statement, as none runs. Raises nothing of the driver's: the batch comes again anyway."""
        if self._family != "postgresql":
            return
        with suppress(SQLAlchemyError, OSError), self.engine.connect() as connection:
            connection.execute(_END_STALLED, {"seconds": self._limit})

    def close(self) -> None:
        """Let go of connections; the next call makes others."""
        self.engine.dispose()

    def before_a_fork(self) -> None:
        """SQLite's locks are lost where a file is open across a fork."""
        if self._family == "sqlite":
            self.engine.dispose()

    def abandon(self) -> None:
        """In a child process."""
        self._lock = Lock()
        abandon(self.engine)

    # ------------------------------------------------------------------------------------------------ the statement

    def _upsert(self, connection: Connection, columns: tuple[str, ...]) -> Upsert:
        found = _Found(connection, self._settings)
        changes = OP in columns and CHANGE in columns
        own = (name for name in columns if not changes or name not in RESERVED)
        taken = self._settings.columns or {name: name for name in own}
        if changes and self._settings.mode == "insert" and OP not in taken.values():
            raise ConfigError(
                f'names no column for {OP}: with mode = "insert" nothing else tells deletes from inserts.',
                key="columns",
                next_step=f'Name one, such as {{id = "id", change = "{CHANGE}", op = "{OP}"}}, or leave out `mode`.',
            )
        for name, source in taken.items():
            if name not in found.types:
                step = "Name those that it has in `columns`."
                raise ConfigError(f'names no column of the {self.place}: "{name}".', key="columns", next_step=step)
            found.check_filled(name, key="columns")
            if source not in columns:
                raise ConfigError(f'names "{source}", which the rows do not have.', key="columns")
        missing = next((name for name in (*self._settings.key_columns, *self._version) if name not in taken), None)
        if missing is not None:
            step = "Name the column of the row that it is taken from in `columns`."
            raise ConfigError(
                f'"{missing}" of the {self.place} is not a column of the rows.', key="columns", next_step=step
            )
        makers = MAKERS[self._family]
        carried_out = changes and self._settings.mode == "upsert"
        marked = [name for name in (self._settings.snapshot_column,) if name is not None and carried_out]
        if taken.keys() & {*marked}:
            step = "Name the columns of the row that the table takes in `columns`, or another column here."
            raise ConfigError("is a column that rows fill.", key="snapshot_column", next_step=step)
        names = [*taken, *marked]
        table = Table(self._settings.table, MetaData(), *map(Column, names), schema=self._settings.schema_name)
        own_text = (VARCHAR, TEXT) if self._family == "postgresql" else ()
        texts = {name for name in self._settings.key_columns if isinstance(found.types[name], own_text)}
        key = key_is(table, self._settings.key_columns, texts)
        return Upsert(
            self._statement(table, marked),
            {name: (source, partial(makers, found.types[name])) for name, source in taken.items()},
            self._settings.key_columns,
            table.delete().where(key) if carried_out else None,
            table.delete() if carried_out else None,
            sweeping(table, marked[0], key) if marked else None,
            connection.exec_driver_sql("SELECT @@max_allowed_packet").scalar() if self._family == "mysql" else None,
        )

    @property
    def _version(self) -> list[str]:
        return [] if self._settings.version_column is None else [self._settings.version_column]

    def _statement(self, table: Table, marked: list[str]) -> Insert:
        """Every column but those of the key, the version last: MySQL assigns from left to right. The mark of a snapshot
        is set even if the row is an older version."""
        if self._settings.mode == "insert":
            return table.insert()
        keys, version = self._settings.key_columns, self._version
        others = [*(name for name in table.c.keys() if name not in (*keys, *version, *marked)), *version]  # noqa: SIM118
        if self._family == "mysql":
            from sqlalchemy.dialects.mysql import insert as for_mysql

            adding = for_mysql(table)
            new = {name: _of_the_row(adding.inserted, name) for name in (*marked, *others)}
            if not new:
                return adding.on_duplicate_key_update({keys[0]: table.c[keys[0]]})
            if not version:
                return adding.on_duplicate_key_update([*new.items()])
            # false() and no value: the driver takes none behind the rows of a batch.
            older = func.coalesce(table.c[version[0]] > new[version[0]], false())
            kept = [(name, func.IF(older, table.c[name], new[name])) for name in others]
            return adding.on_duplicate_key_update([*((name, new[name]) for name in marked), *kept])
        if self._family == "sqlite":
            from sqlalchemy.dialects.sqlite import insert as adding_to
        else:
            from sqlalchemy.dialects.postgresql import insert as adding_to  # type: ignore[assignment]
        upsert = adding_to(table)
        if not others and not marked:
            return upsert.on_conflict_do_nothing(index_elements=[*keys])
        new = {name: upsert.excluded[name] for name in (*others, *marked)}
        guard = [
            or_(table.c[name].is_(None), upsert.excluded[name].is_(None), table.c[name] <= upsert.excluded[name])
            for name in version
        ]
        if not guard or not marked:
            return upsert.on_conflict_do_update(index_elements=[*keys], set_=new, where=guard[0] if guard else None)
        newest = {name: case((guard[0], new[name]), else_=table.c[name]) for name in others}
        return upsert.on_conflict_do_update(index_elements=[*keys], set_={**new, **newest})

    # ----------------------------------------------------------------------------------------------- the connection

    def _set_up(self, raw: Any, _record: object) -> None:
        """Each connection: times are in UTC, nothing is cut off silently, and nothing takes for ever."""
        if self._family == "sqlite":
            return
        if self._family == "mysql":
            use_utf8mb4(raw)
        cursor = raw.cursor()
        try:
            for statement in self._settings_of_session(raw):
                cursor.execute(statement)
        finally:
            cursor.close()
        raw.commit()

    def _settings_of_session(self, raw: Any) -> Iterator[str]:
        """A wait for a lock ends before the statement would, so that the two can be distinguished."""
        limit = max(self._limit, 2)
        if self._family == "postgresql":
            yield "SET TIME ZONE 'UTC'"
            yield f"SET statement_timeout = {self._limit * 1000}"
            yield f"SET lock_timeout = {self._limit * 800}"
            yield f"SET idle_in_transaction_session_timeout = {self._limit * 1000}"
            return
        # SPACE(0): an empty literal is NULL in the very mode that is taken out, and would clear the others
        modes = "CONCAT(REPLACE(@@sql_mode, 'EMPTY_STRING_IS_NULL', SPACE(0)), ',STRICT_ALL_TABLES')"
        yield f"SET SESSION time_zone = '+00:00', sql_mode = {modes}"
        yield f"SET SESSION innodb_lock_wait_timeout = {limit // 2}, lock_wait_timeout = {limit // 2}"
        if "mariadb" in str(getattr(raw, "server_version", "")).lower():
            yield f"SET SESSION idle_transaction_timeout = {self._limit}, max_statement_time = {limit}"


class _Found:
    """The table as its database describes it.

    Attributes:
        types: of its columns, by name. keys: its unique keys, the primary one among them.

    Raises: ConfigError if there is no such table, or if it cannot take rows by these keys.
    """

    def __init__(self, connection: Connection, settings: SqlSettings) -> None:
        look, self._settings = inspect(connection), settings
        named: Any = {"schema": settings.schema_name}
        try:
            described = look.get_columns(settings.table, **named)
        except NoSuchTableError:
            step = "Create it, or correct `table` and `schema`."
            raise ConfigError("names no table of that database.", key="table", next_step=step) from None
        # SQLAlchemy gives names as MySQL's statements have them
        plain = str if connection.dialect.name not in ("mysql", "mariadb") else lambda name: name.replace("``", "`")
        self.types: dict[str, Any] = {plain(one["name"]): _base_of(one["type"]) for one in described}
        for name in _json_of_mariadb(connection, settings):
            self.types[name] = JSON()
        self._filled = {plain(one["name"]): bool(one.get("computed")) for one in described if _is_filled(one)}
        """The columns that the database fills, and whether by an expression; else from a sequence."""
        unique = [one["column_names"] for one in look.get_unique_constraints(settings.table, **named)]
        unique += [
            [name or "" for name in index["column_names"]]
            for index in look.get_indexes(settings.table, **named)
            if index["unique"] and not any("where" in option for option in index.get("dialect_options", {}))
        ]
        primary = look.get_pk_constraint(settings.table, **named)["constrained_columns"]
        self.keys = {frozenset(map(plain, names)) for names in (primary, *unique) if names}
        self._name = connection.dialect.identifier_preparer.format_table(
            Table(settings.table, MetaData(), schema=settings.schema_name)
        )
        self._quote = connection.dialect.identifier_preparer.quote
        self._check_key()
        self._check_deferrable(connection)
        self._check_engine(connection)
        for name in settings.key_columns:
            self.check_filled(name, key="key_columns")
        for name in settings.columns:
            self.check_filled(name, key="columns")
        if settings.snapshot_column is not None:
            self._check_sweep(settings.snapshot_column, connection.dialect.name)

    def check_filled(self, name: str, *, key: str) -> None:
        """Raises: ConfigError naming the setting, if the database itself fills the column."""
        if name not in self._filled:
            return
        computed, quoted = self._filled[name], self._quote(name)
        always = "GENERATED ALWAYS AS (...)" if computed else "GENERATED ALWAYS AS IDENTITY"
        step = f"ALTER TABLE {self._name} ALTER COLUMN {quoted} SET GENERATED BY DEFAULT"
        if computed:
            step = "Give the table an ordinary column in its place."
        if key == "columns":
            step = f"Name the other columns in `columns`{', or run ' + step if not computed else '.'}"
        raise ConfigError(
            f'names "{name}" of the table {self._name}, which is {always}: it takes no value of a row.',
            key=key,
            next_step=step,
        )

    def _check_key(self) -> None:
        if frozenset(self._settings.key_columns) in self.keys:
            return
        there = " or ".join(sorted(", ".join(sorted(key)) for key in self.keys)) or "none"
        raise ConfigError(
            f"is not a primary or unique key of {self._settings.table}; its keys: {there}.",
            key="key_columns",
            next_step="Name one of them, or add a unique constraint on these columns.",
        )

    def _check_sweep(self, name: str, dialect: str) -> None:
        """A snapshot can mark rows, and marks none in the place of another."""
        if type(self.types.get(name)).__name__ not in ("INTEGER", "BIGINT"):
            is_there = "which is not INTEGER" if name in self.types else "which is not there"
            step = f"ALTER TABLE {self._name} ADD COLUMN {self._quote(name)} INTEGER"
            if name in self.types:
                step = "Name a column of that type there, which you add to the table."
            raise ConfigError(
                f'names "{name}" of the table {self._name}, {is_there}.', key="snapshot_column", next_step=step
            )
        self.check_filled(name, key="snapshot_column")
        if len(self.keys) > 1 and dialect in ("mysql", "mariadb"):
            raise ConfigError(
                f'is "sweep", and the table {self._name} has further unique keys: a row would take the place of one'
                " that is perhaps no longer in the source.",
                key="on_snapshot",
                next_step='Set on_snapshot = "delete", which empties the table first, or drop those keys.',
            )

    def _check_deferrable(self, connection: Connection) -> None:
        """PostgreSQL finds the row that is there by no key that may be violated until the commit."""
        if connection.dialect.name != "postgresql":
            return
        for name, columns in connection.execute(_DEFERRABLE, {"name": self._name}):
            if frozenset(columns) == frozenset(self._settings.key_columns):
                raise ConfigError(
                    f"is {', '.join(self._settings.key_columns)} of the table {self._name}, whose constraint {name} is"
                    " DEFERRABLE: no upsert can rely on it.",
                    key="key_columns",
                    next_step=f"Drop {name}, and add it again as NOT DEFERRABLE.",
                )

    def _check_engine(self, connection: Connection) -> None:
        """MariaDB and MySQL: a row that was written stays although its transaction was rolled back."""
        if connection.dialect.name not in ("mysql", "mariadb"):
            return
        given = {"schema": self._settings.schema_name, "name": self._settings.table}
        for engine, transactions in connection.execute(_ENGINE, given):
            if transactions != "YES":
                raise ConfigError(
                    f"is {self._name}, whose engine {engine} has no transactions: rows could not be applied once each.",
                    key="table",
                    next_step=f"ALTER TABLE {self._name} ENGINE=InnoDB",
                )


_END_STALLED = sql_text(
    "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a"
    " WHERE a.datname = current_database() AND a.usename = current_user"
    " AND a.state = 'active' AND a.wait_event = 'ClientRead'"
    " AND a.state_change < clock_timestamp() - make_interval(secs => :seconds)"
    " AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.relation = to_regclass('poller_fence'))"
)
"""Sessions of the relay's own user that have locked the fence: a COPY of another program waits as these do."""
_DEFERRABLE = sql_text(
    "SELECT c.conname, array_agg(CAST(a.attname AS text)) FROM pg_constraint c"
    " JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY(c.conkey)"
    " WHERE c.conrelid = to_regclass(:name) AND c.contype IN ('p', 'u') AND c.condeferrable GROUP BY c.conname"
)
_ENGINE = sql_text(
    "SELECT t.engine, e.transactions FROM information_schema.tables t JOIN information_schema.engines e"
    " ON e.engine = t.engine WHERE t.table_schema = coalesce(:schema, database()) AND t.table_name = :name"
)


_JSON = sql_text(
    "SELECT constraint_name, check_clause FROM information_schema.check_constraints"
    " WHERE constraint_schema = coalesce(:schema, database()) AND table_name = :name"
)


def _json_of_mariadb(connection: Connection, settings: SqlSettings) -> Iterator[str]:
    """The columns of JSON, which is LONGTEXT with a check there."""
    if not getattr(connection.dialect, "is_mariadb", False):
        return
    for name, clause in connection.execute(_JSON, {"schema": settings.schema_name, "name": settings.table}):
        quoted = str(name).lower().replace("`", "``")
        if str(clause).lower() == f"json_valid(`{quoted}`)":
            yield str(name)


def _base_of(kind: Any) -> Any:
    """What a domain is made of; any other type itself."""
    while getattr(kind, "data_type", None) is not None:
        kind = kind.data_type
    return kind


def _is_filled(column: Mapping[str, Any]) -> bool:
    return bool(column.get("computed")) or bool((column.get("identity") or {}).get("always"))


def _of_the_row(inserted: Any, name: str) -> Any:
    """What the row has for a column of MySQL's. SQLAlchemy escapes a `%` in the name of an inserted column twice."""
    return inserted[name] if "%" not in name else literal_column(f"VALUES(`{name.replace('`', '``')}`)")


def _connect_args(family: str, limit: float, url: URL) -> dict[str, Any]:
    if family == "sqlite":
        return {"timeout": min(CONNECT, limit)}
    match url.get_driver_name():
        case "psycopg":
            alive = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
            return {"connect_timeout": CONNECT, "prepare_threshold": None, **alive}  # poolers lose prepared statements
        case "pymysql":
            return {"connect_timeout": CONNECT, "read_timeout": limit + 5, "write_timeout": limit + 5}
        case "psycopg2" | "mysqldb":
            return {"connect_timeout": CONNECT}
        case _:
            return {}
