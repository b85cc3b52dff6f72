"""A place: one database in which the laws are tried. What a law needs of a database is here, and nothing else.

A law makes a table `followed` by a `Layout`, asks the place for a source over it by a `Reading`, and changes the table
from outside by the place's own statements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

import sqlalchemy as sa

from poller.model.cursor import CursorKind
from poller.ports import Source

TABLE, VIEW = "followed", "followed_view"
SELECT = "SELECT id, ts, v, note, part FROM followed"
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""Of the times that laws write themselves: long ago, so that each bound is above them."""

Shape = Literal["table", "view", "query"]
SHAPES: tuple[Shape, ...] = ("table", "view", "query")
Moment = Literal["before the first page", "between two pages", "before the page's statement", "across a restart"]
MOMENTS: tuple[Moment, ...] = (
    "before the first page", "between two pages", "before the page's statement", "across a restart"
)  # fmt: skip
"""When a table is changed. The third: after the bound was sampled, and before the page is read below it."""


def itself(number: int) -> Any:
    return number


def in_ties(number: int) -> datetime:
    """Thirty rows share a moment: more than four batches of a law."""
    return BEGINNING + timedelta(seconds=number // 30)


@dataclass(frozen=True)
class Layout:
    """How a table is made and filled: columns `id` (the key), `ts` (the cursor), `v`, `note`, and `part`, a number that
    may be a second part of the key.

    Attributes:
        key, cursor: the types of `id` and `ts`: names of `Place.types`, or SQL.
        key_of, moment_of: the key and the time of a row by its number, from 1; a time may be missing where `nulls`. The
            number itself is in `v`, which no change touches: the laws know rows by it.
        rows: how many. part_of: the second part of the key; None: `id` is the whole key.
    """

    key: str = "integer"
    cursor: str = "moment"
    key_of: Callable[[int], Any] = itself
    moment_of: Callable[[int], datetime | None] = in_ties
    rows: int = 45
    part_of: Callable[[int], int] | None = None
    nulls: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns."""
        return ("id",) if self.part_of is None else ("id", "part")


@dataclass(frozen=True)
class Reading:
    """What a source reads, as a configuration says it.

    Attributes:
        shape: the table, a view of it, or a query over it. cursor, keys, kind: of the cursor.
        bound: how rows that commit late are waited for, as `Place.bounds` names it; `none`: every committed row is read
            at once. where: a filter, in SQL. zone: of times without one. skip_nulls: rows without
            a cursor are left out instead of refused. timeout: of a query.
    """

    shape: Shape = "table"
    cursor: str = "ts"
    keys: tuple[str, ...] = ("id",)
    kind: CursorKind = "timestamp+pk"
    bound: str = "none"
    where: str | None = None
    zone: str | None = "UTC"
    skip_nulls: bool = False
    timeout: str = "30s"

    def options(self) -> dict[str, Any]:
        """As keywords of `poller.SqlSource`."""
        over: dict[Shape, dict[str, Any]] = {
            "table": {"table": TABLE}, "view": {"table": VIEW}, "query": {"query": SELECT}
        }  # fmt: skip
        patient = {"settle": "0s"} if self.kind == "timestamp+pk" else {}
        return {
            **over[self.shape],
            "cursor_column": self.cursor,
            "cursor_kind": self.kind,
            "pk_columns": self.keys,
            "cursor_time_zone": self.zone,
            "filter": self.where,
            "query_timeout": self.timeout,
            "on_null_cursor": "skip" if self.skip_nulls else "fail",
            "bound": self.bound,
            **({} if self.bound == "none" else patient),
        }


@dataclass(frozen=True)
class Change:
    """A change of the table, or of what the reader may do, while it is followed.

    Attributes:
        name: in the test's id. made: statements of an administrator, in order.
        undone: statements that take it back, after which every row must come. None: the values are gone, and the
            operator's step is a reset to the beginning.
        layout: of the table that is changed. shapes: over what the table is read.
    """

    name: str
    made: tuple[str, ...]
    undone: tuple[str, ...] | None = ()
    layout: Layout = Layout()
    shapes: tuple[Shape, ...] = ("table",)


def alters(
    name: str,
    made: str | tuple[str, ...],
    undone: str | tuple[str, ...] | None = (),
    layout: Layout = Layout(),
    shapes: tuple[Shape, ...] = ("table",),
) -> Change:
    """A change by what follows `ALTER TABLE followed`."""
    to, back = ((one,) if isinstance(one, str) else one for one in (made, undone or ()))
    return Change(
        name,
        tuple(f"ALTER TABLE {TABLE} {one}" for one in to),
        None if undone is None else tuple(f"ALTER TABLE {TABLE} {one}" for one in back),
        layout,
        shapes=shapes,
    )


@dataclass(frozen=True)
class Weakening:
    """What a bound rests on is lost.

    Attributes:
        name: in the test's id. made, undone: statements of an administrator.
        cursor: of the table. late: it can be lost while a transaction is open. blocks: each session is then given
            numbers of its own.
    """

    name: str
    made: tuple[str, ...]
    undone: tuple[str, ...]
    cursor: CursorKind = "timestamp+pk"
    late: bool = False
    blocks: bool = False


class Session(ABC):
    """A connection of an administrator, in autocommit; `begin` and `commit` are statements."""

    @abstractmethod
    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run them in order, and return the rows of the last one."""


class Place(ABC):
    """One database. A context manager: at its end nothing of it is left.

    What a place must have is abstract; the rest has a default with which the laws in question are not run.

    Class attributes:
        name: in test ids. types: SQL of the types `integer`, `moment` (microseconds, in UTC), `text` (compared byte by
            byte), and of those that the place has of `number` (a decimal), `uuid`, `bytes`, `date`, `local`.
        known: losses that are known: patterns (`fnmatch`) of `law: case` (the test's name and id), and why.
        watches: whether `source` takes `before`.
        changes: what can be done to a table.
        filled: definitions of `id` and `ts` in which the database fills a cursor of this kind: `ts` with its clock or
            its transaction id, `id` with a number that it hands out. writers: how many transactions may write at a
            time. begin: what begins one. bounds: how rows that commit late can be waited for; `auto` is the first.
        weakenings: of what a bound rests on.
        edges: literals of each type that are at its ends, or odd. times: those types that a cursor may have.
        literal_moment: a literal of `moment`.
        unreadable: pairs of a type and a literal that Python has no value for.
        idle: how many statements a tick without rows sends, once nothing is to be learned.
        cuts, stops, goes_back, fails_over: whether the place has `cut`, `outage`, `go_back` and `fail_over`.
    """

    name: ClassVar[str]
    types: ClassVar[Mapping[str, str]]
    known: ClassVar[Mapping[str, str]] = {}
    watches: ClassVar[bool] = True
    changes: ClassVar[Sequence[Change]] = ()
    filled: ClassVar[Mapping[CursorKind, str]] = {}
    writers: ClassVar[int] = 4
    begin: ClassVar[str] = "BEGIN"
    bounds: ClassVar[Sequence[str]] = ("auto",)
    weakenings: ClassVar[Sequence[Weakening]] = ()
    edges: ClassVar[Mapping[str, Sequence[str]]] = {}
    times: ClassVar[frozenset[str]] = frozenset()
    literal_moment: ClassVar[str] = "'2026-01-01 00:00:00'"
    unreadable: ClassVar[Sequence[tuple[str, str]]] = ()
    idle: ClassVar[int | None] = None
    cuts: ClassVar[bool] = False
    stops: ClassVar[bool] = False
    goes_back: ClassVar[bool] = False
    fails_over: ClassVar[bool] = False

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._admin: Session | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self.close()

    # --- what a place must have

    @abstractmethod
    def session(self) -> AbstractContextManager[Session]:
        """One more session of an administrator; rolled back at its end."""

    @abstractmethod
    def source(self, reading: Reading, *, before: Callable[[str], None] | None = None) -> Source:
        """A source as a user opens it, by a user of the database with no more privileges than the documentation asks
        for. `before`: called with each statement before the database gets it (else the place does not watch)."""

    @abstractmethod
    def insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows with values of Python; times are given by `moment`."""

    # --- what a place may have

    def moment(self, at: datetime) -> Any:
        """A time (zone-aware UTC) as a parameter."""
        return at

    def zones(self) -> Sequence[str]:
        """Zones that `in_zone` takes."""
        return ()

    def in_zone(self, zone: str) -> AbstractContextManager[None]:
        """New sessions of readers have this zone unless they set another."""
        raise NotImplementedError

    def outage(self) -> AbstractContextManager[None]:
        """Readers get no answer, and their sessions have ended."""
        raise NotImplementedError

    def cut(self) -> None:
        """End the sessions of readers."""
        raise NotImplementedError

    def go_back(self, number: int) -> None:
        """The server is as it was when it had handed out this number of a counted `id`, and its row is the last."""
        raise NotImplementedError

    def fail_over(self, number: int) -> None:
        """From now on another server answers, with a copy of `followed` from when the row of this number, from 1, was
        its last one."""
        raise NotImplementedError

    def take_over(self) -> None:
        """Do with the rows of that copy what the poller says if they wait."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027 - most have nothing to do
        """Leave nothing behind."""

    # --- what the laws use

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """As an administrator, in autocommit."""
        if self._admin is None:
            self._admin = self._stack.enter_context(self.session())
        return self._admin.run(*statements)

    def clear(self) -> None:
        """No table of a law is there any more."""
        self.run(f"DROP VIEW IF EXISTS {VIEW}", f"DROP TABLE IF EXISTS {TABLE}")

    def make(self, layout: Layout) -> None:
        """`followed`, its index and its view, filled."""
        null = "NULL" if layout.nulls else "NOT NULL"
        columns = f"id {self.type(layout.key)} NOT NULL, ts {self.type(layout.cursor)} {null}"
        self.create(columns, ", ".join(layout.keys))
        self.fill(layout)

    def create(self, columns: str, key: str = "id", more: str = "") -> None:
        """`followed` with these definitions of `id` and `ts`, the index that the documentation asks for, and a view.
        `more`: further columns, of the table only."""
        rest = f"v integer NOT NULL, note varchar(20), part integer NOT NULL DEFAULT 0{more}"
        end = "" if "PRIMARY KEY" in columns else f", PRIMARY KEY ({key})"
        self.run(
            f"CREATE TABLE {TABLE} ({columns}, {rest}{end})",
            f"CREATE INDEX {TABLE}_by_ts ON {TABLE} (ts, {key})",
            f"CREATE VIEW {VIEW} AS {SELECT}",
        )

    def fill(self, layout: Layout, first: int = 1) -> None:
        """Rows by their numbers."""
        self.insert(
            TABLE,
            [
                {
                    "id": layout.key_of(n),
                    "ts": None if (at := layout.moment_of(n)) is None else self.moment(at),
                    "v": n,
                    "part": 0 if layout.part_of is None else layout.part_of(n),
                }
                for n in range(first, first + layout.rows)
            ],
        )

    def make_filled(self, cursor: CursorKind) -> None:
        """`followed` without rows, whose cursor the database fills."""
        self.create(self.filled[cursor])

    def added(self, cursor: CursorKind, number: int) -> str:
        """The statement that adds a row to such a table."""
        if cursor == "integer+pk":
            return f"INSERT INTO {TABLE} (v) VALUES ({number})"
        return f"INSERT INTO {TABLE} (id, v) VALUES ({number}, {number})"

    def reading_filled(self, cursor: CursorKind, shape: Shape = "table", bound: str = "auto") -> Reading:
        """What reads such a table."""
        if cursor == "timestamp+pk":
            return Reading(shape=shape, bound=bound)
        column = "id" if cursor == "integer+pk" else "ts"
        return Reading(shape=shape, cursor=column, kind=cursor, bound=bound, zone=None)

    def change(self, statements: Sequence[str], shape: Shape) -> None:
        """A change of the table. Where a view must not be there meanwhile, it is made again."""
        self.run(*statements)

    def numbers(self) -> set[int]:
        """The rows that are in the table, as an administrator sees them."""
        return {row[0] for row in self.run(f"SELECT v FROM {TABLE}")}

    def in_order(self, *keys: str) -> list[int]:
        """The rows that have a cursor, as the database sorts them."""
        order = ", ".join(("ts", *keys))
        return [row[0] for row in self.run(f"SELECT v FROM {TABLE} WHERE ts IS NOT NULL ORDER BY {order}")]

    def type(self, name: str) -> str:
        return self.types.get(name, name)


class Plain(Session):
    """A session over a driver of the DB-API."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        cursor = self._driver.cursor()
        try:
            for statement in statements:
                cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        except BaseException:
            with suppress(Exception):  # what failed may have been outside of a transaction
                cursor.execute("ROLLBACK")
            raise
        finally:
            cursor.close()


class SqlPlace(Place):
    """A place that SQLAlchemy reaches and `poller.SqlSource` reads."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = sa.make_url(url)
        self._engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        self.reader = self.url
        """As whom sources sign in."""

    @contextmanager
    def session(self, database: str | None = None) -> Iterator[Session]:
        url = self.url if database is None else self.url.set(database=database)
        engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            yield Plain(connection.connection.driver_connection)
            connection.invalidate()  # whatever it left open

    def source(self, reading: Reading, *, before: Callable[[str], None] | None = None) -> Source:
        from poller.sources import SqlSource

        if before is None:
            return SqlSource(self.reader, **reading.options())
        engine = sa.create_engine(self.reader, poolclass=sa.NullPool)
        sa.event.listen(engine, "before_cursor_execute", lambda *call: before(call[2]))
        return SqlSource(engine, **reading.options())

    def insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        with self._engine.begin() as connection:
            connection.execute(sa.insert(sa.table(table, *map(sa.column, rows[0]))), [dict(row) for row in rows])
