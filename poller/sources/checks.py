"""What `poller check` asks one database in particular, and the statements that it proposes there.

Each database has its own `Checks` in its folder; these are for one that has nothing to say. They read only: what is
proposed, an administrator runs, in another session, which may have another time zone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Inspector
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from poller.databases.kinds import KINDS
from poller.model.finding import Finding, ok
from poller.sources.columns import CursorColumn
from poller.sources.connection import Database
from poller.sources.database import Records
from poller.sources.options import ReadOptions
from poller.sources.page import Params, Query
from poller.sources.stamping import ColumnOrigin
from poller.sources.user_sql import indexable

SMALL = 1_000
"""A table of at most this many rows is rightly read as a whole by any database."""
READER = "poller_reader"
"""The name of the user that is proposed."""
A_COLUMN = "Add a column to the table that holds the result of `filter`, and an index on it, the cursor and the key."


class Explained(sa.Executable, sa.ClauseElement):
    """How a database reads a query: `how` is what stands before it."""

    inherit_cache = False

    def __init__(self, how: str, query: Query) -> None:
        self.how, self.query = how, query


@compiles(Explained)
def _explained(element: Explained, compiler: SQLCompiler, **options: Any) -> str:
    return f"{element.how} {compiler.process(element.query, **options)}"


class Examined(Protocol):
    """A source under examination, as far as one database's checks ask (`poller.sources.checkup.subject.Subject`)."""

    facts: dict[str, Any]
    not_null: str

    @property
    def options(self) -> ReadOptions: ...
    @property
    def database(self) -> Database: ...
    @property
    def inspector(self) -> Inspector: ...
    @property
    def table(self) -> str: ...
    @property
    def order(self) -> list[str]: ...
    def run(self, sql: str | sa.Executable, params: Mapping[str, Any] | None = None) -> Records: ...
    def fact(self, sql: str) -> Records: ...
    def name(self, column: str) -> str: ...
    def create_index(self, columns: list[str], *, unique: bool = False, where: str = "") -> str: ...


class Checks:
    """For a database that has nothing to say."""

    analyze: ClassVar[str] = "ANALYZE"
    """The statement that takes the statistics of a table again."""
    without_lock: ClassVar[str] = ""
    """How an index is made on a busy server."""
    counts_reads: ClassVar[bool] = False
    """True if the server says how many rows a statement read."""
    quotes_defaults: ClassVar[bool] = False
    """True if a DEFAULT is an expression in parentheses."""
    keys_keep_names: ClassVar[bool] = True
    """True if a trigger needs no key: else the table behind a view may have other names for it."""
    plain_conditions: ClassVar[bool] = False
    """True if the condition of a partial index takes no OR and no NOT."""

    def privileges(self, asked: Examined) -> list[Finding]:
        """Which server and user; which privileges would make the bound better."""
        dialect = asked.database.engine.dialect
        version = ".".join(map(str, dialect.server_version_info or ()))
        return [ok("database", f"reachable: {asked.database.dialect.family} {version}".rstrip())]

    def relation(self, asked: Examined) -> list[Finding]:
        """Check that the table may be read at all."""
        return []

    def row_security(self, asked: Examined) -> list[Finding]:
        """Check that no policy hides rows of the table, or of any that a view or query reads."""
        return []

    def behind(self, asked: Examined) -> list[Finding]:
        """Rows that this server's own transactions do not write straight into what is read."""
        return []

    def unfinished(self, asked: Examined) -> tuple[list[str], list[str]] | None:
        """Prepared transactions, for a person, and the statements that end them; None if there can be none."""
        return None

    def reader(self, asked: Examined) -> tuple[str, bool] | None:
        """The user, and whether it may write; None if no reader holds up the bound."""
        return None

    def reader_made(self, asked: Examined) -> str:
        """How a user that only reads is made."""
        return ""

    def slow_parts(self, asked: Examined, query: Query, params: Params) -> list[str] | None:
        """What in the plan of a page reads or sorts more than the page, in words; None where plans are not known."""
        return None

    def dropped(self, asked: Examined, query: Query, params: Params) -> int:
        """The number of rows that a page reads and drops; where this is not counted, more than `SMALL` unless an index
        contains the filter."""
        return SMALL + 1

    def implied(self, primary: Sequence[str]) -> Sequence[str]:
        """Columns that are at the end of every index."""
        return ()

    def filter_index(self, asked: Examined, text: str) -> str:
        """The statement that creates an index containing the filter, or what to do instead."""
        if indexable(text, asked.database.dialect.family, plain=self.plain_conditions):
            return asked.create_index(asked.order, where=text)
        return A_COLUMN

    def set_not_null(self, asked: Examined, column: str) -> str:
        """The statement that forbids NULL in a column and changes nothing else, or what to do where there is none."""
        return f"Forbid NULL in {column}."

    def now(self, column: CursorColumn, zone: str) -> str:
        """An expression for the present time in the column's zone, whatever the session's; empty if there is none."""
        return ""

    def on_update(self, asked: Examined, found: ColumnOrigin, table: str) -> str:
        """The statement that gives the column a new value at every UPDATE without a trigger; empty if there is
        none."""
        return ""

    def trigger(self, asked: Examined, found: ColumnOrigin, *, schema: str, name: str, value: str) -> str:
        """The statements of a trigger that sets the column to `value` at every UPDATE; `schema` ends with a dot."""
        return ""


def checks_of(family: str) -> Checks:
    """Those of a family of databases."""
    if family not in KINDS:
        return Checks()
    made: Checks = import_module(f"poller.sources.{family}.checks").CHECKS
    return made


def same_row(asked: Examined, new: str, own: str = "") -> str:
    """The condition that two rows have the same key; `new`, `own`: before each of their columns."""
    names = [asked.name(key) for key in asked.options.pk_columns]
    return " AND ".join(f"{own}{name} = {new}{name}" for name in names)
