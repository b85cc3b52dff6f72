"""PostgreSQL: row values, and texts of times that no setting of the session changes."""

from __future__ import annotations

import contextlib
import importlib
import re
import time
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, CursorResult, Inspector
from sqlalchemy.exc import DataError, DBAPIError

from poller.databases import catalog
from poller.databases.errors import codes
from poller.databases.samplers import session_of
from poller.databases.urls import identify
from poller.errors import ConfigError
from poller.sources.columns import CursorColumn, Family, Reflected, ValueFormat, connection_of, exact_of, quoted
from poller.sources.database import (
    Dialect,
    Form,
    NameQuestion,
    PageForm,
    Records,
    ServerPlace,
    Settings,
    StatementRunner,
    TypeLookup,
)
from poller.sources.facts import Watch
from poller.sources.faults import Fault
from poller.sources.options import ReadOptions
from poller.sources.postgresql import json as json_values
from poller.sources.postgresql import keys
from poller.sources.postgresql.bound import here
from poller.sources.rows import JsonValues, Reread, converted, plain

_KINDS_OF = {
    Family.TIMESTAMPTZ: {1184: "timestamp with time zone"},
    Family.TIMESTAMP: {1114: "timestamp without time zone"},
    Family.DATE: {1082: "date"},
    Family.INTEGER: {21: "smallint", 23: "integer", 20: "bigint", 26: "oid"},
    Family.NUMERIC: {1700: "numeric"},
    Family.TEXT: {25: "text", 1043: "character varying", 1042: "bpchar", 19: "name"},
    Family.UUID: {2950: "uuid"},
    Family.BYTES: {17: "bytea"},
    # The text of money depends on lc_monetary.
    Family.UNFIT: {700: "real", 701: "double precision", 114: "json", 3802: "jsonb", 16: "boolean", 2249: "record",
                   790: "money"},
    Family.OTHER: {5069: "xid8"},
}  # fmt: skip
"""What `format_type` calls the types of these oids (pg_type.dat): they are the same in every server."""
_KINDS = {oid: kind for kinds in _KINDS_OF.values() for oid, kind in kinds.items()}
_FAMILIES = {"citext": Family.TEXT, **{kind: one for one, kinds in _KINDS_OF.items() for kind in kinds.values()}}

_SQLSTATES = {
    "57014": Fault.TIMEOUT,
    "42P01": Fault.NO_TABLE,
    "3F000": Fault.NO_TABLE,
    "42703": Fault.NO_COLUMN,
    "28P01": Fault.LOGIN,
    "28000": Fault.LOGIN,
    "3D000": Fault.NO_DATABASE,
    "42501": Fault.FORBIDDEN,
    "25006": Fault.WRITES,
    "55P03": Fault.BUSY,
    "57P03": Fault.UNREACHABLE,
    "53300": Fault.UNREACHABLE,
}

_CONNECTING = (
    ("too many connections for", Fault.UNREACHABLE),  # role "x", or database "x"
    ("password authentication failed", Fault.LOGIN),
    ("no password supplied", Fault.LOGIN),
    ("no pg_hba.conf entry", Fault.LOGIN),
    ("authentication failed", Fault.LOGIN),
    ("role ", Fault.LOGIN),
    ("database ", Fault.NO_DATABASE),
)

_TEXTS = {"datestyle": "ISO", "intervalstyle": "postgres", "extra_float_digits": "1", "bytea_output": "hex"}
"""What the texts of intervals, ranges, arrays and floating point depend on."""
_FORMS = {**_TEXTS, "client_encoding": "UTF8"}
_TEXTS_NOW = "SELECT " + ", ".join(f"split_part(current_setting('{name}'), ',', 1)" for name in _TEXTS)
_FIXED = frozenset({"inet", "cidr", "macaddr", "macaddr8", "time without time zone", "xid", "xid8", "pg_lsn"})
"""Types of the family OTHER whose text is the same in any session."""
_LOADERS = {
    Family.TIMESTAMPTZ: (1184, "TimestamptzLoader"),
    Family.TIMESTAMP: (1114, "TimestampLoader"),
    Family.DATE: (1082, "DateLoader"),
}
"""Oids (pg_type.dat) and psycopg's loaders of them."""
_OWN_LOADERS = frozenset({"psycopg", "psycopg_binary", "psycopg_c"})
_CYCLE = 146_097
"""The days of 400 years."""
_MOMENT = 'YYYY-MM-DD"T"HH24:MI:SS.US'
_INTERVAL, _INTERVALS = 1186, 1187
"""The oids of `interval` and its arrays (pg_type.dat)."""
_CHECKED = "POLLER_INTERVAL"
_SCALARS = frozenset(
    {16, 18, 19, 20, 21, 23, 25, 26, 700, 701, 1042, 1043, 1082, 1083, 1114, 1184, 1186, 1266, 1700, 2950}
)
"""The oids of what is a bool, a number, a text, a time or a UUID."""
_HIDDEN = re.compile(r'row-level security policy for table "(.+)"')
_POLICIES = """
SELECT current_user, string_agg(p.polname, ', ' ORDER BY p.polname)
  FROM pg_class c LEFT JOIN pg_policy p ON p.polrelid = c.oid WHERE c.relname = :table
"""
_DATABASE = "(SELECT oid FROM pg_database WHERE datname = current_database())"
_NUMERIC = 1700
_TYPES = "SELECT CAST(t AS bigint), format_type(t, -1) FROM unnest(CAST(:types AS oid[])) AS t"
_EACH = "poller_each_statement"


class PostgreSql(Dialect):
    """Row values use an index at any depth; `statement_timeout` ends a query on the server."""

    family: ClassVar[str] = "postgresql"
    session_number: ClassVar[str] = "SELECT pg_backend_pid()"
    files_of_places: ClassVar[tuple[str, ...]] = ("service",)
    host_option: ClassVar[str] = "hostaddr"
    sets_values: ClassVar[bool] = True
    knows_other_times: ClassVar[bool] = True
    has_adbc: ClassVar[bool] = True
    form: ClassVar[PageForm] = PageForm.ROW_VALUES
    forced: ClassVar[frozenset[str]] = frozenset({"client_encoding"})
    conversion_breaks: ClassVar[bool] = False
    scalar_codes: ClassVar[frozenset[int]] = _SCALARS
    clock: ClassVar[str] = "to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"

    def reflected(self, inspector: Inspector, table: str, schema: str | None, names: Sequence[str]) -> Reflected:
        """For each column, whether it is NOT NULL, and the digits of a second, for drivers that do not report them; the
        server's description of a result has the types."""
        rows = catalog.rows(connection_of(inspector), keys.COLUMNS, keys.named(table, schema, names))
        if not rows:
            return Reflected({}, is_base=False)
        columns = {
            row.name: {
                "name": row.name,
                "nullable": None if row.firm > row.kept else not row.firm,
                "digits": row.digits,
            }
            for row in rows
        }
        one, own = rows[0], tuple(rows[0].primary_key or ())
        return Reflected(columns, one.is_base, one.inherited, str(one.version), own, one.key_index)

    def unique_sets(self, inspector: Inspector, table: str, schema: str | None) -> tuple[list[str], list[list[str]]]:
        """By whole, valid indexes."""
        rows = catalog.rows(connection_of(inspector), keys.UNIQUE, {"name": quoted(table, schema)})
        own = next((list(row.columns) for row in rows if row.is_primary), [])
        return own, [list(row.columns) for row in rows if row.proves]

    def invalid_indexes(self, inspector: Inspector, table: str, schema: str | None) -> set[str]:
        """As the catalog says it."""
        rows = catalog.rows(connection_of(inspector), keys.INVALID, {"name": quoted(table, schema)})
        return {str(name) for (name,) in rows}

    def tables(self, what: str, *, own_engine: bool) -> Any:
        """By ADBC, beside each connection."""
        home = importlib.import_module("poller.sources.postgresql.arrow")  # not for pages of rows
        return home.ArrowPages(what, own_engine=own_engine)

    def asks_where(self, options: ReadOptions, *, mariadb: bool = False) -> NameQuestion | None:
        """Also which server, on which timeline of it."""
        servers = (keys.SERVER, "NULL")
        if options.table is not None:
            name = {"name": quoted(options.table, options.schema_name)}
            return NameQuestion(keys.TABLE, name, servers, finds_table=True)
        found = keys.unqualified(options.query or "")
        names, functions = found or ((), ())
        params = {"whole": found is None, "names": list(names), "functions": list(functions)}
        return NameQuestion(keys.QUERY, params, servers)

    def leaves_schema(self, options: ReadOptions) -> bool:
        """Also if a query names tables or functions without one."""
        if options.query is not None:
            return keys.unqualified(options.query) != ((), ())
        return super().leaves_schema(options)

    def reached(self, driver: Any) -> dict[str, Any]:
        """As they were given to libpq, all of them, not the one that answered: after a fail-over that is another."""
        info: Any = getattr(driver, "info", None)
        given = info.get_parameters() if hasattr(info, "get_parameters") else getattr(info, "dsn_parameters", {})
        host = given.get("hostaddr") or given.get("host")
        if not host:
            return {}
        found = identify(URL.create("postgresql", query={"host": host, "port": given.get("port") or ""}))
        return {"database.host": found.host, "database.port": found.port}

    def connect_args(self, driver: str, timeout: timedelta) -> dict[str, Any]:
        """Keepalives end the wait for a server that vanished; no prepared statements: a new column would break them."""
        if driver not in ("psycopg", "psycopg2"):
            return {}
        args: dict[str, Any] = {
            "connect_timeout": 10,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "client_encoding": "utf8",  # all that a cursor or a key can hold; bytes where the database has none
        }
        if driver == "psycopg":
            args["prepare_threshold"] = None
        return args

    def set_up(self, connection: Connection, timeout: timedelta) -> None:
        """The timeout, and the forms that drivers can read, whatever a role or a database sets for its sessions. Time
        zone and order of day and month stay as they are: only a filter may depend on them.

        Read-only whatever the URL, the role or the database sets, if the session is our own. Behind a pooler the next
        statement may run in another client's session, whose writes would fail: there each statement is a transaction.
        """
        if connection.exec_driver_sql(_settings(connection, timeout)).one()[-1] != "on":
            connection.info[_EACH] = True
            _each_statement(connection)

    def restore(self, connection: Connection, timeout: timedelta, before: Any) -> bool:
        """Restore the session as it began. Its locks go too: nothing else would release them."""
        again = ["RESET SESSION AUTHORIZATION", "RESET ALL", "SELECT pg_advisory_unlock_all()"]
        connection.exec_driver_sql("; ".join([*again, _settings(connection, timeout)]))
        return True

    def resume(self, connection: Connection) -> None:
        """Behind a pooler each statement is still a transaction."""
        if self.is_pooled(connection):
            _each_statement(connection)

    def is_pooled(self, connection: Connection) -> bool:
        """As `set_up` found it."""
        return bool(connection.info.get(_EACH))

    def place(self, connection: Connection) -> ServerPlace:
        """By the server's own word. A server that only has the protocol is not asked."""
        try:
            reading, said = here(connection)
            driver: Any = connection.connection.driver_connection
            info = getattr(driver, "info", None)
            asked_for = getattr(info, "host", None), getattr(info, "port", None)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            return super().place(connection)
        return ServerPlace((self.family, asked_for, said, reading is None), reading)

    def limit(self, connection: Connection, dbapi: Any, timeout: timedelta) -> list[str]:
        """The server's and the driver's."""
        super().limit(connection, dbapi, timeout)
        return [f"SELECT set_config('statement_timeout', '{_milliseconds(timeout)}', false)"]

    def adopt(self, dbapi: Any, timeout: timedelta) -> None:
        """A server that acknowledges and never answers (stopped, or behind a pooler) must not hold up a tick for ever:
        the driver itself waits a little longer than the server's own timeout."""
        getattr(dbapi, "__dict__", {}).pop("wait", None)  # of another timeout
        consume = getattr(dbapi, "wait", None)
        if consume is not None:  # psycopg; psycopg2 waits inside libpq, where only keepalives help
            seconds = timeout.total_seconds()
            limit = seconds + min(5.0, seconds)
            dbapi.wait = lambda generator, *args, **kwargs: consume(_bounded(generator, limit), *args, **kwargs)

    def read_values(self, dbapi: Any, form: Form) -> None:
        """Other drivers than psycopg parse JSON as they do."""
        adapters = getattr(dbapi, "adapters", None)
        if adapters is not None:
            if form == "exact":
                json_values.as_marked_text(adapters)
                return
            json_values.check_intervals(adapters)
            if form == "text":
                json_values.as_text(adapters)
            else:
                json_values.parse_again(adapters)
                json_values.use(dbapi)
            return
        if hasattr(dbapi, "string_types"):
            _check_intervals(dbapi)
        if form == "text":
            raise ConfigError(
                "`json` is text, and this driver returns JSON parsed.",
                key="json",
                next_step="Use psycopg (postgresql+psycopg://), or a `query` that casts the column to text.",
            )

    def origins(self, cursor: Any) -> Sequence[int]:
        """The oid of each column's table or view."""
        kept = getattr(cursor, "pgresult", None)
        if kept is not None:  # psycopg
            return [kept.ftable(at) for at in range(kept.nfields)]
        return [getattr(one, "table_oid", None) or 0 for one in cursor.description or ()]

    def seen(self, dbapi: Any, found: Records, columns: Collection[str]) -> Hashable:
        """Also which tables they come from: another one may have the name."""
        tables = (of for name, of in zip(found.names, found.origins, strict=False) if name in columns)
        return super().seen(dbapi, found, columns), frozenset(tables)

    def watch(self, look: TypeLookup, texts: Sequence[str], run: StatementRunner, connection: Connection) -> Watch:
        """The rows of the catalog that say what a table's key is, so that a key that is unique no longer is seen; of a
        primary key the page itself asks for its index. Which collation each text has, as the server derives it, also
        without a row; a version may change when the server is restarted."""
        types = _with_places(look)
        watch = Watch(types=types)
        if look.proven is not None:
            table, wanted = look.proven, keys.named(look.options.table or "", look.options.schema_name, look.columns)
            guarded = table.index is not None and set(table.primary) == set(look.options.pk_columns)
            guard = keys.GUARD.format(index=table.index) if guarded else ""
            watch = replace(watch, sql=keys.VERSION, params=wanted, found=(table.version,), guard=guard)
        if not texts:
            return watch
        columns = [look.columns[name] for name in texts]
        derived = [f"pg_collation_for((SELECT {column} FROM {look.relation} LIMIT 0))" for column in columns]  # noqa: S608
        version = "pg_collation_actual_version(cast(cast({} as regcollation) as oid))"
        if (connection.dialect.server_version_info or (0,)) >= (15,):
            own = f"pg_database_collation_actual_version({_DATABASE})"
            version = f"coalesce({version}, CASE {{}} WHEN '\"default\"' THEN {own} END)"
        asked = [*derived, *(version.format(*[one] * version.count("{}")) for one in derived)]
        found = run(f"SELECT {', '.join(asked)}").rows[0]
        names, versions = found[: len(texts)], found[len(texts) :]
        collations = {
            name: " ".join(filter(None, (str(one).strip('"'), of)))
            for name, one, of in zip(texts, names, versions, strict=True)
        }
        if not watch.sql:
            watch = replace(watch, sql=f"SELECT {', '.join(derived)}", found=tuple(names))
        return replace(watch, collations=collations)

    def columns(self, look: TypeLookup, run: StatementRunner) -> dict[str, CursorColumn] | None:
        """The types as the server describes them, domains by their base type; also for a query without rows."""
        shown = look.described or run(self.limited(", ".join(look.columns.values()), f"FROM {look.relation}", 0))
        described = dict(zip(shown.names, shown.description, strict=False))
        types = {name: (int(described[name][1]), described[name][4]) for name in look.columns}
        kinds = _KINDS
        if others := [oid for oid, _ in types.values() if oid not in kinds]:
            kinds = kinds | {int(oid): str(kind) for oid, kind in run(_TYPES, {"types": others}).rows}
        found = {}
        for name, (oid, described_digits) in types.items():
            facts: Mapping[str, Any] = look.reflected[name] if look.reflected is not None else {}
            kind = kinds[oid]
            # Not every driver reports the digits that the server describes.
            precision = facts.get("digits") if described_digits is None else int(described_digits)
            family = _FAMILIES.get(kind, Family.OTHER)
            timed = family in {Family.TIMESTAMP, Family.TIMESTAMPTZ}
            found[name] = CursorColumn(
                name=name,
                family=family,
                sql_type=kind,
                digits=6 if precision is None or not timed else precision,
                nullable=facts.get("nullable"),
            )
        return found

    def types(self, look: TypeLookup, run: StatementRunner) -> dict[str, CursorColumn]:
        """As the server describes them."""
        return self.columns(look, run) or {}

    def render(self, sql: str, column: CursorColumn) -> str:
        """Times as timestamps of UTC: `to_char` of a date goes through the session's time zone, in which a day may be
        missing. It writes no infinities and eras: those have the text that a session in UTC with ISO dates shows."""
        match column.family:
            case Family.TIMESTAMPTZ:
                moment, first, form, zone = f"({sql} AT TIME ZONE 'UTC')", "0001-01-02Z", f'{_MOMENT}"Z"', "+00"
            case Family.TIMESTAMP:
                moment, first, form, zone = sql, "0001-01-01", _MOMENT, ""
            case Family.DATE:
                return _date(sql)
            case Family.BYTES:
                return f"encode({sql}, 'hex')"
            case _:
                return f"CAST({sql} AS text)"
        early = (
            f"to_char({moment}, 'YYYY-MM-DD HH24:MI:SS') || rtrim(rtrim(to_char({moment}, '.US'), '0'), '.')"
            f" || '{zone}' || CASE WHEN {moment} < '0001-01-01' THEN ' BC' ELSE '' END"
        )
        return (
            f"CASE WHEN {sql} >= '{first}' AND {sql} < 'infinity' THEN to_char({moment}, '{form}')"
            f" WHEN {sql} = 'infinity' THEN 'infinity' WHEN {sql} = '-infinity' THEN '-infinity' ELSE {early} END"
        )

    def rests_on(self, columns: Iterable[CursorColumn]) -> Settings | None:
        """Numbers, texts, times and bytes depend on none."""
        loose = {Family.OTHER, Family.UNFIT}
        if any(column.family in loose and column.sql_type not in _FIXED for column in columns):
            return Settings(_TEXTS_NOW, _TEXTS)
        return None

    def exact(self, column: CursorColumn, dbapi: Any) -> ValueFormat | None:
        """Psycopg's own loaders lose nothing, and fail on what Python cannot hold; psycopg2 returns infinities as the
        ends of Python's calendar."""
        found = exact_of(column)
        if found is None or column.family is Family.INTEGER:
            return found
        oid, name = _LOADERS.get(column.family, (0, ""))
        loader = dbapi.adapters.get_loader(oid, 0) if oid and hasattr(dbapi, "adapters") else None
        if loader is None or loader.__name__ != name or loader.__module__.partition(".")[0] not in _OWN_LOADERS:
            return None
        return replace(found, alike=True)

    def unreadable(self, error: BaseException) -> bool:
        """Errors of the server carry a SQLSTATE; a driver's own about a value do not."""
        if not isinstance(error, DataError):
            return super().unreadable(error)
        return not codes(error.orig)[0]

    def lenient(self, dbapi: Any) -> contextlib.AbstractContextManager[None]:
        """Psycopg keeps what the server sent; psycopg2 gets converters that cannot fail."""
        return _lenient_types(dbapi) if hasattr(dbapi, "string_types") else contextlib.nullcontext()

    def keeping(self) -> contextlib.AbstractContextManager[JsonValues]:
        return json_values.keeping()

    def fetch_leniently(self, result: CursorResult[Any]) -> Reread:
        """From what the server sent, if the driver keeps it."""
        kept = getattr(result.cursor, "pgresult", None)
        return super().fetch_leniently(result) if kept is None else _from_text(result.cursor, kept)

    def is_null(self, sql: str) -> str:
        """A NOT NULL that is not enforced (of a foreign table, say) may be wrong, and since version 17 the planner
        relies on it: a plain IS NULL would find nothing. The other server is still asked for such rows only, not for
        all."""
        return f"CASE WHEN {sql} IS NULL THEN true ELSE false END"

    def hidden_by(self, error: DBAPIError, run: StatementRunner) -> str:
        """By the table that the server names. Policies of other schemas that have a table of this name count too."""
        found = _HIDDEN.search(str(error.orig))
        if found is None:
            return ""
        role, names = run(_POLICIES, {"table": found[1]}).rows[0]
        return f"row-level security of table {found[1]} (policies: {names or 'none'}) would hide rows from role {role}"

    def classify(self, error: DBAPIError) -> Fault:
        """By SQLSTATE; errors of connecting carry none, and are recognised by the server's message."""
        original = error.orig
        state, _ = codes(original)
        if state:
            if state in _SQLSTATES:
                return _SQLSTATES[state]
            if state.startswith("22"):
                return Fault.VALUE
            return Fault.DISCONNECTED if state[:2] in {"08", "57"} else Fault.OTHER
        text = str(original)
        if "FATAL:" in text:
            said = text.partition("FATAL:")[2].strip()
            return next((fault for words, fault in _CONNECTING if words in said), Fault.UNREACHABLE)
        if "no password supplied" in text:
            return Fault.LOGIN
        if "connection failed" in text or "could not" in text or "timeout expired" in text or "timed out" in text:
            return Fault.UNREACHABLE
        if "failed to resolve host" in text or "connect to server" in text:
            return Fault.UNREACHABLE
        return Fault.DISCONNECTED if error.connection_invalidated else Fault.OTHER


def _with_places(look: TypeLookup) -> dict[str, str]:
    """The types of NUMERIC columns that round to some places, with these."""
    if look.described is None:
        return {}
    found = {}
    for name, one in zip(look.described.names, look.described.description, strict=False):
        if name not in look.columns or int(one[1]) != _NUMERIC:
            continue
        digits, scale = one[4], one[5]
        if digits is None and look.reflected is not None and (packed := look.reflected[name].get("digits")) is not None:
            digits, scale = (packed - 4) >> 16 & 0xFFFF, packed - 4  # not every driver reports what the server says
        if digits is not None and scale is not None:
            found[name] = f"numeric({digits},{(scale & 0x7FF ^ 0x400) - 0x400})"  # 11 bits, with a sign
    return found


def _date(sql: str) -> str:
    """A date's text. No timestamp holds those after the year 294276: they are moved by whole cycles of 400 years."""
    moment, cycles = f"CAST({sql} AS timestamp)", f"(({sql} - date '2000-01-01') / {_CYCLE:d})"
    near = f"CAST({sql} - {cycles} * {_CYCLE:d} AS timestamp)"
    return (
        f"CASE WHEN {sql} >= '0001-01-01' AND {sql} < '294276-01-01' THEN to_char({moment}, 'YYYY-MM-DD')"
        f" WHEN {sql} = 'infinity' THEN 'infinity' WHEN {sql} = '-infinity' THEN '-infinity'"
        f" WHEN {sql} < '0001-01-01' THEN to_char({moment}, 'YYYY-MM-DD\" BC\"')"
        f" ELSE CAST(to_char({near}, 'YYYY') AS integer) + 400 * {cycles} || to_char({near}, '-MM-DD') END"
    )


def _settings(connection: Connection, timeout: timedelta) -> str:
    """The statement that sets up a session; its last value is `on` if the session is our own."""
    settings = {"statement_timeout": _milliseconds(timeout), "row_security": "off", **_FORMS}
    asked = [f"set_config('{name}', '{value}', false)" for name, value in settings.items()]
    read_only = "set_config('default_transaction_read_only', 'on', false)"
    own = f"CASE WHEN pg_backend_pid() = {session_of(connection) or 0} THEN {read_only} END"
    return f"SELECT {', '.join([*asked, own])}"


def _milliseconds(timeout: timedelta) -> str:
    return str(max(1, round(timeout.total_seconds() * 1000)))


def _bounded(generator: Generator[Any, Any, Any], limit: float) -> Generator[Any, Any, Any]:
    """The same exchange with the server, given up after `limit` seconds. psycopg asks again every tenth of a second
    even when there is nothing to read or write, and then sends 0."""
    from psycopg.errors import QueryCanceled

    until = time.monotonic() + limit
    try:
        wanted = next(generator)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > until:
                generator.close()
                raise QueryCanceled("no answer from the server")
            wanted = generator.send(ready)
    except StopIteration as ended:
        return ended.value


def _from_text(cursor: Any, sent: Any) -> Reread:
    """The rows of psycopg's cursor, column by column: only columns with such a value are converted value by value."""
    from psycopg.adapt import Transformer

    adapter = Transformer(cursor)
    columns: list[list[Any]] = []
    any_text = False
    for column in range(sent.nfields):
        load = adapter.get_loader(sent.ftype(column), sent.fformat(column)).load
        values, odd = converted(load, [sent.get_value(row, column) for row in range(sent.ntuples)])
        columns.append(values)
        any_text = any_text or odd
    return plain(zip(*columns, strict=True), any_text=any_text)


def _check_intervals(dbapi: Any) -> None:
    """For psycopg2: an interval that counts months is returned as text, as psycopg's are."""
    extensions = importlib.import_module("psycopg2.extensions")
    usual = {**extensions.string_types, **dbapi.string_types}[_INTERVAL]
    if getattr(usual, "name", "") == _CHECKED:
        return

    def load(value: Any, cursor: Any) -> Any:
        return value if value is not None and json_values.has_months(value) else usual(value, cursor)

    one = extensions.new_type((_INTERVAL,), _CHECKED, load)
    extensions.register_type(one, dbapi)
    extensions.register_type(extensions.new_array_type((_INTERVALS,), f"{_CHECKED}[]", one), dbapi)


@contextlib.contextmanager
def _lenient_types(dbapi: Any) -> Iterator[None]:
    """For psycopg2: while open, the connection's converters give the text where they fail."""
    extensions = importlib.import_module("psycopg2.extensions")
    before = dict(dbapi.string_types)
    try:
        for oid, cast in {**extensions.string_types, **before}.items():
            extensions.register_type(extensions.new_type((oid,), "POLLER", _or_text(cast)), dbapi)
        yield
    finally:
        dbapi.string_types.clear()
        dbapi.string_types.update(before)


def _or_text(cast: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def load(value: Any, cursor: Any) -> Any:
        try:
            return cast(value, cursor)
        except Exception:  # noqa: BLE001 - a converter that the user registered may raise anything
            return value

    return load


def _each_statement(connection: Connection) -> None:
    unfinished = False

    def before(_: Any, cursor: Any, *__: Any) -> None:
        nonlocal unfinished
        if unfinished:  # the last one failed
            cursor.execute("ROLLBACK")
        cursor.execute("BEGIN READ ONLY")
        unfinished = True

    def after(held: Connection, *_: Any) -> None:
        nonlocal unfinished
        with contextlib.closing(held.connection.cursor()) as other:  # this one still holds its rows
            other.execute("COMMIT")
        unfinished = False

    sa.event.listen(connection, "before_cursor_execute", before)
    sa.event.listen(connection, "after_cursor_execute", after)
