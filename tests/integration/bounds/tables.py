"""Tables whose stamps the database makes, sessions that stay open, and sources over them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases import samplers
from poller.model.cursor import Cursor
from poller.sources import SqlSource
from tests.integration.sources.tables import execute, family
from tests.support.services import wait_until

STAMPED = {
    "postgresql": "id bigint primary key, updated_at timestamptz not null default clock_timestamp()",
    "mysql": "id bigint primary key, updated_at timestamp(6) not null default current_timestamp(6)",
    "sqlite": "id integer primary key, updated_at text not null default (strftime('%Y-%m-%dT%H\\:%M\\:%fZ', 'now'))",
}


def make(url: str, columns: str | None = None, *, suffix: str = "", name: str = "stamped") -> None:
    execute(url, f"create table {name} ({columns or STAMPED[family(url)]}){suffix}")


def add(url: str, *ids: int, name: str = "stamped") -> None:
    """One row per id, each in a transaction of its own."""
    for one in ids:
        execute(url, f"insert into {name} (id) values ({one})")


@contextlib.contextmanager
def session(url: str, *statements: str) -> Iterator[Connection]:
    """A session of its own that has run these, with what they left open; rolled back at the end."""
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
        yield connection
        with contextlib.suppress(sa.exc.DBAPIError):
            connection.exec_driver_sql("rollback")
        connection.invalidate()  # a session that has prepared a transaction takes no rollback


@contextlib.contextmanager
def source(url: str, **keys: Any) -> Iterator[SqlSource]:
    defaults: dict[str, Any] = {
        "table": "stamped",
        "cursor_column": "updated_at",
        "pk_columns": ["id"],
        "cursor_time_zone": "UTC",
        "bound_margin": "0s",
        "bound_wait": "0s",
    }
    made = SqlSource(url, **(defaults | keys))
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def another_process() -> Iterator[None]:
    """Sources that are first read in here share no samples with those outside, as if they were of another process."""
    ours, samplers.SHARED = samplers.SHARED, samplers.Samplers()
    try:
        yield
    finally:
        samplers.SHARED = ours


def freshly(reader: SqlSource) -> SqlSource:
    """The same source, once it has taken a new sample: MariaDB's are at least 0.11 s apart."""
    seen = reader.bound().clock
    wait_until(lambda: reader.bound().clock != seen, "a new sample")
    return reader


def ids(reader: SqlSource, after: Cursor | None = None) -> list[int]:
    """The keys of the next page."""
    return [row["id"] for row in reader.page(after, 100).rows]
