"""The interface of a dialect: how one family of databases renders a cursor, reads it back, and selects a page."""

from __future__ import annotations

import contextlib
import enum
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, CursorResult, Engine, Inspector
from sqlalchemy.exc import DBAPIError, NoSuchTableError, SAWarning

from poller.databases import samplers
from poller.databases.kinds import KINDS
from poller.databases.pools import PooledSession
from poller.databases.samplers import (
    FOUR_BYTES,
    Maker,
    ReadingConnection,
    Remembering,
    Sample,
    SharedSampler,
    session_of,
)
from poller.databases.urls import names_host
from poller.errors import ConfigError, SourceError
from poller.model.cursor import KeyValue
from poller.model.fingerprint import DatabaseIdentity
from poller.ports import Bound
from poller.sources.bound import Marked, Rule, Sampled
from poller.sources.changes import ChangeTable
from poller.sources.columns import MOMENTS, NUMBERS, CursorColumn, Family, Reflected, ValueFormat, reflected_sets
from poller.sources.facts import Watch
from poller.sources.faults import Fault
from poller.sources.options import ReadOptions
from poller.sources.rows import CONVERSION_ERRORS, JsonValues, Reread, plain

Form: TypeAlias = Literal["parsed", "text", "exact"]
"""How values come: as Python's; with JSON as plain text; with JSON and intervals as marked text (`ports.JsonText`)."""


class PageForm(enum.Enum):
    """How "after this cursor" is written, so that the index is used deep inside a tie too (sources.md)."""

    ROW_VALUES = "row values"
    AND_OR = ">= AND (OR)"
    """For counts, and for composite keys inside a tie."""
    TWO_RANGES = "two ranges"


@dataclass(frozen=True)
class Records:
    """What a statement returned: column names, rows, the driver's own description of the columns, and what was JSON in
    them; `any_text` and `escaped` as in `Reread`."""

    names: tuple[str, ...]
    rows: Sequence[Any]
    description: Sequence[Sequence[Any]] = ()
    any_text: bool = False
    escaped: frozenset[tuple[int, int]] = frozenset()
    documents: JsonValues = field(default_factory=JsonValues)
    origins: Sequence[int] = ()
    """The number of the relation that each column comes from, if the server says it."""


@dataclass(frozen=True)
class TypeLookup:
    """Where a dialect learns the columns' types.

    `options`: of the source. `reflected` is SQLAlchemy's view of its columns, None for a query; `columns` are the
    quoted, qualified names; `condition` is the checked filter; `described` a result without rows of these columns;
    `proven`: the table, if constraints prove its key.
    """

    options: ReadOptions
    relation: str
    columns: Mapping[str, str]
    reflected: Mapping[str, Mapping[str, Any]] | None
    condition: str | None
    described: Records | None
    proven: Reflected | None


@dataclass(frozen=True)
class Settings:
    """A SELECT of settings, and what it must find."""

    sql: str
    values: Mapping[str, str]


class ServerPlace(NamedTuple):
    """Where a session leads: the server with its start, database, user, the settings that names, texts and times depend
    on, and the privileges that a session keeps from when it was opened. What a source learned on one session is true on
    another one of an equal place; on any other it is learned again.

    Attributes:
        reading: for sharing samples; None if they cannot be shared.
    """

    place: Hashable
    reading: ReadingConnection | None


@dataclass(frozen=True)
class NameQuestion:
    """What asks a server which database, schema and table the names of a configuration mean there: with a URL without a
    database, a table without a schema, a query with unqualified names or a service file, a role's setting or a changed
    file makes the same configuration mean another table (sources.md, "Fingerprint").

    Attributes:
        sql: a SELECT of the database in use, the schema, which object has the table's name, and `{server}`. params: its
            parameters.
        servers: expressions for which server it is, on which timeline, each tried if the one before it is forbidden.
        finds_table: without a schema in the answer there is no such table.
    """

    sql: str
    params: Mapping[str, Any] = field(default_factory=dict)
    servers: tuple[str, ...] = ("NULL",)
    finds_table: bool = False


@dataclass(frozen=True)
class ResolvedNames:
    """What the server says of that.

    Attributes:
        said: the database, the schema (of a query: of all it names without one), host and port, as fields of the
            description; None if it does not know. object: which object has the table's name, and server: which
            server it is, on which timeline; None if that is not known.
    """

    said: Mapping[str, Any] = field(default_factory=dict)
    object: str | None = None
    server: str | None = None


class StatementRunner(Protocol):
    """Runs one statement in autocommit: SQL for `sqlalchemy.text`, or one that is built."""

    def __call__(self, sql: str | sa.Executable, params: Mapping[str, Any] | None = None) -> Records: ...


class Dialect:
    """The rules that most families share; each module overrides the others."""

    family: ClassVar[str] = ""
    form: ClassVar[PageForm] = PageForm.TWO_RANGES
    clock: ClassVar[str] = ""
    """An expression: the server's clock in UTC as text, `YYYY-MM-DDTHH:MM:SS.ffffffZ`."""
    key_form: ClassVar[PageForm] = PageForm.AND_OR
    """How two keys are compared inside a tie, if the page is two ranges."""
    ties_are_ranges: ClassVar[bool] = False
    """True if an equality would use the index by the cursor alone, from the tie's first row on, and a range of this one
    value uses the key too."""
    types_belong_to_values: ClassVar[bool] = False
    """True if each row may hold another type in the same column."""
    holds_impossible_dates: ClassVar[bool] = False
    """True if a date that no calendar has may be stored; its text may be read back as NULL."""
    forced: ClassVar[frozenset[str]] = frozenset()
    """Driver arguments that a URL cannot change: with another value, values are read wrongly."""
    catalog_first: ClassVar[str] = ""
    """A statement after which the catalog is shown whole, whatever a function in a view has set."""
    conversion_breaks: ClassVar[bool] = True
    """True if a connection is unusable after a value that the driver could not convert: the rest was not read."""
    scalar_codes: ClassVar[frozenset[int]] = frozenset()
    """Codes by which drivers name types in a description, of types whose values are immutable."""
    takes_z: ClassVar[bool] = True
    """True if the text of an instant may end with `Z` where a time is bound."""
    keeps_privileges: ClassVar[bool] = False
    """True if a session has the privileges of the moment when it was opened, for as long as it lasts."""
    session_number: ClassVar[str] = ""
    """A SELECT of the server's number of this session; empty where drivers do not know theirs."""
    keeps_objects: ClassVar[bool] = True
    """True if a table stays the same object (`TableFacts.object`) when it is rebuilt, as maintenance does."""
    is_file: ClassVar[bool] = False
    """True if a database is a file: connections cost nothing, and its locks are per process."""
    sets_values: ClassVar[bool] = False
    """True if a connection is set to how values come (`read_values`)."""
    knows_other_times: ClassVar[bool] = False
    """True if a time may be one that Python does not know: an infinity, a year before 1."""
    has_adbc: ClassVar[bool] = False
    """True if pages are read as Arrow tables by ADBC, beside each connection."""
    is_untried: ClassVar[bool] = False
    """True if no server ever ran its rules: a question of ours may fail there in any way."""
    schemas_are_databases: ClassVar[bool] = False
    """True if a schema is a database of the server."""
    files_of_places: ClassVar[tuple[str, ...]] = ()
    """Options of a URL with which the driver reads host, port and database from a file."""
    host_option: ClassVar[str] = ""
    """The option of a URL that names the host beside the one that a certificate must say."""

    # ------------------------------------------------------------------------------------------------- the session

    def connect_args(self, driver: str, timeout: timedelta) -> dict[str, Any]:
        """Driver arguments that limit how long connecting and waiting may take."""
        return {}

    def session(self, connection: Connection, timeout: timedelta) -> list[str]:
        """Statements that set up a new session, the server's own query timeout among them."""
        return []

    def adopt(self, dbapi: Any, timeout: timedelta) -> None:
        """Set up the driver's connection where a statement cannot."""

    def set_up(self, connection: Connection, timeout: timedelta) -> None:
        """Set up a new session, read-only if it is ours (security.md). Raises what the driver raises."""
        for statement in self.session(connection, timeout):
            connection.exec_driver_sql(statement)

    def limit(self, connection: Connection, dbapi: Any, timeout: timedelta) -> list[str]:
        """Statements that give a session which is set up another query timeout; what is the driver's is set here."""
        self.adopt(dbapi, timeout)
        return []

    def settings(self, connection: Connection) -> Any:
        """A session's settings, before anything of the users' ran in it: for `restore`."""
        return None

    def restore(self, connection: Connection, timeout: timedelta, before: Any) -> bool:
        """Give a session its settings back, that it may only read among them; `before`: what `settings` said, None
        where it was not asked. False if they may be others now, and the session must not be used again."""
        return True

    def read_values(self, dbapi: Any, form: Form) -> None:
        """Set up how the driver's connection returns JSON and intervals, again where it was set up otherwise; `exact`
        as far as the driver can. Raises: ConfigError naming `json`, if the driver cannot return text."""

    def json_columns(self, table: str, schema: str | None, run: StatementRunner) -> frozenset[str]:
        """The columns of JSON that the driver returns as plain text; `table`, `schema`: quoted. Empty if the driver's
        values say it themselves."""
        return frozenset()

    def before(self, dbapi: Any, timeout: timedelta) -> None:
        """Called before each statement."""

    def holds_session(self, connection: Connection) -> bool:
        """True if all statements of this connection surely reach one session of one server: what was sampled on it may
        then be used again. Behind a pooler the driver's number of the session differs from the server's."""
        if not self.session_number:
            return False
        number = connection.execute(sa.text(self.session_number)).scalar()
        driver = session_of(connection)
        return number is not None and driver is not None and (int(number) - driver) % FOUR_BYTES == 0

    def resume(self, connection: Connection) -> None:
        """The same session comes in another connection of SQLAlchemy."""

    def is_pooled(self, connection: Connection) -> bool:
        """True if each statement is a transaction, since the next one may run in another client's session."""
        return False

    def place(self, connection: Connection) -> ServerPlace:
        """Where a session of a pool leads; asked once. A database that is not asked makes each session a place of its
        own: that is always right, and costs the learning. Raises what the driver raises if the connection broke."""
        return ServerPlace(object(), None)

    def in_memory(self, engine: Engine) -> bool:
        """True if the database ends with its connections: the program's own are then used, with their right to write.
        Any other connection is detached from the engine's pool."""
        return False

    def file(self, engine: Engine) -> Hashable:
        """Which file the engine leads to now; None for a database that is none. Raises: SourceUnavailable."""
        return None

    def tables(self, what: str, *, own_engine: bool) -> Any:
        """How pages become Arrow tables: `poller.sources.arrow.ArrowTables`.

        Args:
            what: the table's name, for errors. own_engine: whether poller made the engine.
        Raises: ConfigError naming `format`, if a package is missing.
        """
        return import_module("poller.sources.arrow").ArrowTables(what)  # not for pages of rows

    # --------------------------------------------------------------------- what the configuration leaves to the server

    def asks_where(self, options: ReadOptions, *, mariadb: bool = False) -> NameQuestion | None:
        """What asks the server which database, schema and table the names of a configuration mean; None if there is
        nothing to ask."""
        return None

    def leaves_schema(self, options: ReadOptions) -> bool:
        """True if the configuration leaves a schema to the server."""
        return options.table is not None and options.schema_name is None and not self.schemas_are_databases

    def left_open(self, url: URL, identity: DatabaseIdentity, options: ReadOptions) -> tuple[str, ...]:
        """The fields of the description that only the server knows. Opens nothing."""
        if self.asks_where(options) is None:
            return ()
        found = []
        if identity.database is None and not (self.schemas_are_databases and options.schema_name is not None):
            found.append("database.database")
        if self.host_option in url.query:
            found.append("database.host")  # where it connects to; `host` is then only what a certificate must say
        elif any(name in url.query for name in self.files_of_places) and not names_host(url):
            found += ["database.host", "database.port"] if url.port is None else ["database.host"]
        if self.leaves_schema(options):
            found.append("schema")
        return tuple(found)

    def reached(self, driver: Any) -> dict[str, Any]:
        """Host and port as the driver's connection knows them, as fields of the description; empty if it does
        not."""
        return {}

    # --------------------------------------------------------------------------------------------------- the bound

    def sampler(self, asked: Asked, connection: Connection) -> Sampler | str:
        """How samples are taken for the bound that is asked for, for `auto` the best that this database and the user's
        privileges allow; or the reason why only a delay is left.

        Raises: ConfigError naming `bound`, SourceError (a copy of a database), what the driver raises.
        """
        found: Sampler | str = import_module(f"poller.sources.{self.family}.bound").sampler(asked, connection)
        return found

    # ------------------------------------------------------------------------------------------- a captured table

    def changes(self, table: str, schema: str | None, quote: Callable[[str], str]) -> ChangeTable:
        """How the changes of a captured table are read.

        Args:
            table, schema: as configured. quote: quotes a name for `sqlalchemy.text`.
        Raises: ConfigError naming `capture`, if there is no capture.
        """
        kind = KINDS.get(self.family)
        if kind is None or not kind.capture:
            raise ConfigError(
                f"`capture` is true, and poller captures no changes in {self.family} databases.",
                key="capture",
                next_step="Follow a column that grows with every change: cursor_column.",
            )
        home = import_module(f"poller.sources.{self.family}.changes")
        made: ChangeTable = getattr(home, kind.reader + "Changes")(table, schema, quote)
        return made

    # --------------------------------------------------------------------------- what is not known for lack of a row

    def emptiness(self, relation: str, cursor: str, run: StatementRunner) -> tuple[str, Any] | None:
        """A SELECT of one value, and that value now: while it stays, no row has a cursor, and no definition of a table
        or view changed. Cheaper than an inspection that finds no row. None if it has a row, or there is no such
        SELECT.

        Args:
            relation: what is read; cursor: its column, quoted and qualified.
        """
        return None

    # --------------------------------------------------------------------------- values that the driver cannot convert

    def unreadable(self, error: BaseException) -> bool:
        """True if the driver failed on a value that the database sent."""
        return isinstance(error, CONVERSION_ERRORS)

    def lenient(self, dbapi: Any) -> AbstractContextManager[None]:
        """While open, the driver returns as text what it cannot convert, if it supports that."""
        return contextlib.nullcontext()

    def keeping(self) -> AbstractContextManager[JsonValues]:
        """While open, what the driver parses as JSON is kept with its text, if it can be."""
        return contextlib.nullcontext(JsonValues())

    def fetch_leniently(self, result: CursorResult[Any]) -> Reread:
        """The rows of a statement that ran while `lenient` was open. Raises what the driver raises."""
        return plain(result.all())

    # ------------------------------------------------------------------------------------------------- the columns

    def seen(self, dbapi: Any, found: Records, columns: Collection[str]) -> Hashable:
        """What a result shows of the types that these of its columns have, at no cost: a change of a type raises no
        error in the database."""
        described = zip(found.names, found.description, strict=False)
        return tuple(sorted((str(name), one[1], *one[4:6]) for name, one in described if name in columns))

    def origins(self, cursor: Any) -> Sequence[int]:
        """See `Records.origins`; `cursor`: the driver's."""
        return ()

    def watch(self, look: TypeLookup, texts: Sequence[str], run: StatementRunner, connection: Connection) -> Watch:
        """What a page rests on and no result shows; `texts`: the key columns that hold text."""
        return Watch()

    def reflected(self, inspector: Inspector, table: str, schema: str | None, names: Sequence[str]) -> Reflected:
        """What the catalog says of a table or view; no columns without such a table. `names`: the columns that must be
        NOT NULL. Raises what the driver raises."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SAWarning)  # the dialect distinguishes unknown types
                found = {column["name"]: dict(column) for column in inspector.get_columns(table, schema=schema)}
        except NoSuchTableError:
            found = {}
        return Reflected(found, bool(found) and table in inspector.get_table_names(schema=schema))

    def unique_sets(self, inspector: Inspector, table: str, schema: str | None) -> tuple[list[str], list[list[str]]]:
        """The primary key's columns, and every set of columns (the primary key first) that a constraint or a full index
        keeps unique. Raises what the driver raises."""
        return reflected_sets(inspector, table, schema)

    def invalid_indexes(self, inspector: Inspector, table: str, schema: str | None) -> set[str]:
        """Indexes that are neither enforced nor used, as a failed CREATE INDEX CONCURRENTLY leaves them."""
        return set()

    def columns(self, look: TypeLookup, run: StatementRunner) -> dict[str, CursorColumn] | None:
        """The cursor's and key's columns by name; None if they are not known until a row exists."""
        names = ", ".join(look.columns.values())
        if look.reflected is not None:
            return {
                name: self.from_type(name, look.reflected[name]["type"], look.reflected[name].get("nullable"))
                for name in look.columns
            }
        records = run(self.limited(names, f"FROM {look.relation}", 1))
        if records.rows and any(value is None for value in records.rows[0]):
            records = self._with_values(look, names, run)
        if not records.rows:
            return None
        first = records.rows[0]
        return {
            name: self.from_value(name, value, description)
            for name, value, description in zip(look.columns, first, records.description, strict=True)
        }

    def _with_values(self, look: TypeLookup, names: str, run: StatementRunner) -> Records:
        """A row of a query without a NULL in these columns, since a NULL shows no type. Else a row that would be read,
        if there is one, so that its key is refused."""
        every = " AND ".join(f"{column} IS NOT NULL" for column in look.columns.values())
        records = run(self.limited(names, f"FROM {look.relation} WHERE {every}", 1))
        if records.rows:
            return records
        filtered = f"{look.condition} AND " if look.condition else ""
        rest = f"FROM {look.relation} WHERE {filtered}{look.columns[look.options.cursor_column]} IS NOT NULL"
        return run(self.limited(names, rest, 1))

    def types(self, look: TypeLookup, run: StatementRunner) -> dict[str, CursorColumn]:
        """Columns whose values are only ever read as text, by name. What is found depends on no row: the text of a
        value must be the same in every process."""
        if look.reflected is not None:
            return {name: self.from_type(name, look.reflected[name]["type"], None) for name in look.columns}
        described = run(self.limited(", ".join(look.columns.values()), f"FROM {look.relation}", 0)).description
        return {name: self.from_value(name, None, one) for name, one in zip(look.columns, described, strict=True)}

    def is_instant(self, kind: Any) -> bool:
        """True if values of a SQLAlchemy type of times have a zone, or are instants."""
        return bool(getattr(kind, "timezone", False))

    def from_type(self, name: str, kind: Any, nullable: bool | None) -> CursorColumn:
        """A column from its SQLAlchemy type."""
        raise NotImplementedError

    def from_value(self, name: str, value: Any, description: Sequence[Any]) -> CursorColumn:
        """A column of a query, from a value of it and the driver's description."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------- expressions

    def render(self, sql: str, column: CursorColumn) -> str:
        """An expression: the value's text in the form of sources.md, "Cursor fidelity"."""
        raise NotImplementedError

    def exact(self, column: CursorColumn, dbapi: Any) -> ValueFormat | None:
        """How the text that `render` gives is made of the value that this connection's driver returns; None where only
        the database can make it."""
        return None

    def rests_on(self, columns: Iterable[CursorColumn]) -> Settings | None:
        """The settings of the session that the texts of these columns depend on, as `session` makes them; None where
        there are none."""
        return None

    def text(self, sql: str, column: CursorColumn) -> str:
        """An expression: the text of a value that is not read back, whatever its type is; NULL for NULL."""
        return self.render(sql, column)

    def casts(self, column: CursorColumn) -> tuple[str, ...]:
        """The types through which a bound text becomes the value that it was made of, one after the other."""
        return (column.sql_type,) if column.sql_type else ()

    def bind(self, value: KeyValue, column: CursorColumn) -> Any:
        """What is bound for a stored text or number, inside of `casts`."""
        if column.family is Family.BYTES:
            return bytes.fromhex(str(value))
        if column.family is Family.INTEGER or (column.family in NUMBERS and not column.sql_type):
            return int(value)
        if column.family in MOMENTS and not self.takes_z:
            return str(value).removesuffix("Z")
        return value

    def is_null(self, sql: str) -> str:
        """The condition for NULL in a column that is declared NOT NULL, if that may not be enforced."""
        return f"{sql} IS NULL"

    def limited(self, select: str, rest: str, limit: int) -> str:
        """A SELECT of at most `limit` rows."""
        return f"SELECT {select} {rest} LIMIT {limit:d}"

    # ------------------------------------------------------------------------------------------------------ errors

    def hidden_by(self, error: DBAPIError, run: StatementRunner) -> str:
        """What would have hidden rows, if the server refused a statement for that; empty for any other error. Raises
        what the driver raises."""
        return ""

    def classify(self, error: DBAPIError) -> Fault:
        """What a driver's error means."""
        raise NotImplementedError


def dialect_for(family: str) -> Dialect:
    """The dialect of a family as `identity.family_of` names it. Its folder is imported with the first source of it:
    SQLAlchemy's dialects of other databases would slow down the start of every command.

    Raises: ConfigError naming `url` for a database that poller has no rules for.
    """
    if family not in KINDS:
        raise ConfigError(
            f"`url` names a {family} database, and poller has no rules for reading one without skipping rows.",
            key="url",
            next_step=f"Supported: {', '.join(sorted(KINDS))} (MariaDB as mysql).",
        )
    home = import_module(f"poller.sources.{family}.database")
    made: Dialect = getattr(home, KINDS[family].reader)()
    return made


def family_by_type(kind: Any) -> Family:
    """The family of a SQLAlchemy type, as far as it is the same in all databases."""
    if isinstance(kind, sa.DateTime):
        return Family.TIMESTAMPTZ if getattr(kind, "timezone", False) else Family.TIMESTAMP
    simple: tuple[tuple[Any, Family], ...] = (
        (sa.Date, Family.DATE),
        (sa.Enum, Family.UNFIT),
        (sa.Boolean, Family.UNFIT),
        (sa.Integer, Family.INTEGER),
        (sa.Uuid, Family.UUID),
        (sa.Float, Family.UNFIT),
        (sa.Numeric, Family.NUMERIC),
        (sa.String, Family.TEXT),
        (sa.LargeBinary, Family.BYTES),
        (sa.types._Binary, Family.BYTES),
    )
    return next((family for base, family in simple if isinstance(kind, base)), Family.UNFIT)


_KINDS = ((int, Family.INTEGER, ""), (str, Family.TEXT, ""), (bytes, Family.BYTES, ""))


def by_value(name: str, value: Any, kinds: Sequence[tuple[type, Family, str]] = ()) -> CursorColumn:
    """A query's column by its value: the first of `kinds` (Python type, family, type for a CAST), or of those that are
    the same in all databases, that fits; else unfit."""
    for kind, family, sql_type in (*kinds, *_KINDS):
        if isinstance(value, kind):
            return CursorColumn(name=name, family=family, sql_type=sql_type)
    return CursorColumn(name=name, family=Family.UNFIT)


# ------------------------------------------------------------------------------------------------ how samples are taken
# What a dialect is asked for the bound, what it answers with, and the answers that several give.

BLOCKS = "an application may take a block of numbers and write the lower ones later"
"""Why a step other than 1 is a guess: Hibernate and others ask the sequence once for many rows."""


@dataclass(frozen=True)
class Asked:
    """What a sampler may know of the source.

    Attributes:
        column: the cursor's. clock: a SELECT of the server's clock in UTC as text; highest: a SELECT of the greatest
            cursor as text; highest_below: the same, of those below `:below`.
    """

    options: ReadOptions
    column: CursorColumn
    clock: sa.Executable
    highest: sa.Executable
    highest_below: sa.Executable


@dataclass(frozen=True)
class Sampler:
    """How samples are taken on connections that lead to one place, and what the bound of them rests on.

    Attributes:
        take: one or more statements on an autocommit connection, BEFORE the page, each transaction ended. May raise
            what the driver raises; the source translates it.
        memory: what earlier samples showed, beside `bound.Memory`.
    """

    rule: Rule
    take: Callable[[Connection], Sampled]
    memory: Remembering | None = None


def no_bound(asked: Asked, reason: str) -> Sampler:
    """Every committed row is read: for tables with a single writer, and for measuring what a bound costs."""
    rule = Rule("none", f"{reason}; rows that commit late are missed", asked.column)
    return Sampler(rule, lambda _: Bound(kind="none", reason=rule.reason))


def delayed(asked: Asked, reason: str) -> Sampler:
    """The fallback: what is older than `settle`. Safe only while no transaction stays open longer."""
    reason, delay = f"{reason}; rows of transactions open longer than `settle` are missed", asked.options.delay
    if not asked.options.is_timed:
        return greatest(asked, Rule("heuristic", reason, asked.column, delay, "seen"))
    return Sampler(Rule("heuristic", reason, asked.column, delay), lambda c: _now(asked, c))


def greatest(asked: Asked, rule: Rule, handed_out: Callable[[Connection], int] | None = None) -> Sampler:
    """For cursors that are not times, or come in order: up to the greatest value that was there long enough ago.
    `handed_out`: the greatest number that the database has handed out, if it keeps count."""

    def take(connection: Connection) -> Marked:
        following = None if handed_out is None else handed_out(connection) + 1
        now = _now(asked, connection)
        value = connection.execute(asked.highest).scalar()
        return Marked(None if value is None else str(value), now, following)

    return Sampler(rule, take)


def _now(asked: Asked, connection: Connection) -> Sample:
    """The server's clock, as if nothing were open."""
    clock = datetime.fromisoformat(connection.execute(asked.clock).scalar_one())
    return Sample(clock, clock, clock)


def shared(
    asked: Asked,
    kind: str,
    reading_of: Callable[[Connection], ReadingConnection | None],
    make: Maker,
    connection: Connection,
) -> SharedSampler:
    """Samples of what is open on a server, shared by all sources of this process. `reading_of`: see
    `ReadingConnection`."""
    session, o = PooledSession.of(connection), asked.options
    reading = reading_of(connection) if session is None else session.reading
    home = samplers.Samplers() if reading is None else samplers.SHARED
    return home.join(
        reading or samplers.ALONE,
        make,
        connection,
        kind=kind,
        ignored=o.bound_ignore_users,
        numbers=not o.is_timed,
        table=o.table or "",
    )


def on_copy(kind: str, table: str | None) -> SourceError:
    """The error for a copy of a database, such as `a standby`, which does not show transactions of its primary."""
    return SourceError(
        f"The database is {kind}: transactions that are open on its primary cannot be seen here.",
        table=table or "",
        next_step='Connect to the primary, or accept the risk with bound = "delay".',
    )
