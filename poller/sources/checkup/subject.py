"""What all checks look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Inspector

from poller.model.cursor import Cursor
from poller.sources.dialects.base import Records
from poller.sources.options import Options
from poller.sources.session import Session

SMALL = 1_000
"""A table of so few rows is read whole by any database, and rightly so."""


@dataclass
class Subject:
    """One source under examination.

    Attributes:
        session: its side of the database. after: where its checkpoint stands. utcnow: this machine's clock.
        weak_key: set by the check of the key, so that the check of the columns does not say it again.
        index: set by the check of the index: the statement that creates the missing one.
        offset: set by the check of the clock: seconds by which the database's is ahead of this machine's.
    """

    session: Session
    after: Cursor | None
    utcnow: Callable[[], datetime]
    weak_key: bool = False
    index: str = ""
    offset: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> Options:
        """As configured."""
        return self.session.options

    @property
    def family(self) -> str:
        """Which family of databases."""
        return self.session.database.dialect.family

    @property
    def mariadb(self) -> bool:
        """Whether a server of MySQL's family is a MariaDB."""
        return bool(getattr(self.session.database.engine.dialect, "is_mariadb", False))

    @cached_property
    def inspector(self) -> Inspector:
        """SQLAlchemy's view of the database."""
        return sa.inspect(self.session.database.connection())

    @cached_property
    def is_base_table(self) -> bool:
        """Whether it is a table, not a view or a query."""
        return self.options.table in self.inspector.get_table_names(schema=self.options.schema)

    @cached_property
    def big(self) -> bool:
        """Whether there are enough rows for a plan to matter."""
        return self.session.lag(None, SMALL).pending_capped

    def run(self, sql: str, params: Mapping[str, Any] | None = None) -> Records:
        """One statement. Raises what the driver raises."""
        return self.session.database.run(sql, params)

    def name(self, column: str) -> str:
        """A name as a person would write it in this database."""
        return self.session.quote(column).replace("\\:", ":")

    @property
    def table(self) -> str:
        """The table's full name as a person would write it."""
        o = self.options
        return self.name(o.table or "") if o.schema is None else f"{self.name(o.schema)}.{self.name(o.table or '')}"

    @property
    def order(self) -> list[str]:
        """The columns that rows are sorted by."""
        o = self.options
        return [o.cursor_column, *(key for key in o.pk_columns if key != o.cursor_column)]

    def create_index(self, columns: list[str], *, unique: bool = False) -> str:
        """The statement that creates an index."""
        name = "_".join([self.options.table or "", *columns])[:60]
        told = ", ".join(self.name(column) for column in columns)
        return f"CREATE {'UNIQUE ' if unique else ''}INDEX {self.name(name)} ON {self.table} ({told});"
