"""What all checks share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Inspector

from poller import once
from poller.databases import catalog
from poller.model.cursor import Cursor
from poller.sources import stamping
from poller.sources.checks import SMALL, Checks, checks_of
from poller.sources.connection import Database
from poller.sources.database import Records
from poller.sources.options import ReadOptions
from poller.sources.session import SourceSession

PAGE = 501
"""A page of the default `batch_size`, and the row after it."""


class Ahead(NamedTuple):
    """By how many `seconds` the database's clock is ahead of this machine's, and for how many it was `asked_for`."""

    seconds: float
    asked_for: float


@dataclass
class Subject:
    """One source under examination.

    Attributes:
        session: of the source. after: its checkpoint. utcnow: this machine's clock.
        weak_key: set by the check of the key, so that the check of the columns does not repeat it.
        index: set by the check of the index: the statement that creates the missing one.
        other_zone: set by the check of the time zone: the database stamps in another zone than the configured one.
        not_null: set by the check of NULLs on MariaDB and MySQL: the cursor column's definition that it proposes.
    """

    session: SourceSession
    after: Cursor | None
    utcnow: Callable[[], datetime]
    weak_key: bool = False
    index: str = ""
    other_zone: bool = False
    not_null: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> ReadOptions:
        """As configured."""
        return self.session.options

    @property
    def database(self) -> Database:
        """The source's database."""
        return self.session.database

    @property
    def family(self) -> str:
        """Which family of databases."""
        return self.database.dialect.family

    @cached_property
    def checks(self) -> Checks:
        """Its own checks."""
        return checks_of(self.family)

    @cached_property
    def inspector(self) -> Inspector:
        """SQLAlchemy's view of the database."""
        return catalog.inspector(self.session.database.connection())

    @cached_property
    def is_base_table(self) -> bool:
        """True if it is a table, not a view or a query."""
        return self.options.table in self.inspector.get_table_names(schema=self.options.schema_name)

    @cached_property
    def cursor(self) -> stamping.Watched:
        """The cursor's column, as it is configured."""
        return stamping.watched(self.family, self.options)

    @cached_property
    def origin(self) -> stamping.ColumnOrigin:
        """The table's column behind the cursor, and what fills it."""
        return stamping.origin(self.session.database, self.cursor)

    @cached_property
    def ahead(self) -> Ahead:
        """The database's clock and this machine's. Raises what the driver raises."""

        def ask() -> Ahead:
            before, clock, after = self.utcnow(), self.session.clock(), self.utcnow()
            apart = clock - (before + (after - before) / 2)
            return Ahead(apart.total_seconds(), (after - before).total_seconds())

        return once.ask((self.session.database.place(), "clock"), ask)

    @cached_property
    def big(self) -> bool:
        """True if the table has enough rows for a plan to matter, whether they pass the filter or not."""
        return self.rows_after(None) > SMALL

    @cached_property
    def idle(self) -> Cursor | None:
        """The checkpoint when all is delivered; None if no row passes the filter."""
        found = self.run(self.session.table.statements().highest()).rows
        return None if not found else Cursor(kind=self.options.cursor_kind, value=str(found[0][0]))

    def rows_after(self, at: Cursor | None) -> int:
        """The number of rows of the table that are at a cursor or after it, whether they pass the filter or not;
        counted up to one more than `SMALL`."""
        statements = self.session.table.statements_of(self.options.columns, filtered=False)
        return sum(
            int(self.run(*statements.lag(interval, SMALL + 1)).rows[0][0]) for interval in statements.ranges(at, None)
        )

    def run(self, sql: str | sa.Executable, params: Mapping[str, Any] | None = None) -> Records:
        """One statement. Raises what the driver raises."""
        return self.session.database.run(sql, params)

    def fact(self, sql: str) -> Records:
        """One statement about the server or the user, asked once per command. Raises what the driver raises."""
        return once.ask((self.session.database.place(), sql), lambda: self.run(sql))

    def name(self, column: str) -> str:
        """A name as a person would write it in this database."""
        return self.session.table.quote(column).replace("\\:", ":")

    @property
    def table(self) -> str:
        """The table's full name as a person would write it."""
        o = self.options
        return ".".join(self.name(part) for part in (o.schema_name, o.table or "") if part is not None)

    @property
    def order(self) -> list[str]:
        """The columns that rows are sorted by."""
        o = self.options
        return [o.cursor_column, *(key for key in o.pk_columns if key != o.cursor_column)]

    def create_index(self, columns: list[str], *, unique: bool = False, where: str = "") -> str:
        """The statement that creates an index; `where`: only over rows for which that is true."""
        name = "_".join([self.options.table or "", *columns, *(["filtered"] if where else [])])[:60]
        listed = ", ".join(self.name(column) for column in columns)
        only = f" WHERE {where}" if where else ""
        return f"CREATE {'UNIQUE ' if unique else ''}INDEX {self.name(name)} ON {self.table} ({listed}){only};"
