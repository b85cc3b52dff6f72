"""A large table, filled by the database itself: a row per second, but for a tie in the middle (a bulk load)."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from benchmarks.torture.tables import family
from poller.model.cursor import Cursor
from poller.sources import SqlSource
from tests.support.mysql_family import numbers_to

_COLUMNS = "id bigint not null primary key, updated_at {} not null, total integer not null"


@dataclass(frozen=True)
class Size:
    """rows: in the table, ids from 1. tie: how many in its middle share one timestamp. limit: rows of a page."""

    rows: int
    tie: int
    limit: int = 1000

    @property
    def tie_begins(self) -> int:
        return (self.rows - self.tie) // 2

    @property
    def places(self) -> dict[str, int]:
        """The id of the row that the page comes after; 0: the page from the very beginning."""
        return {
            "start": 0,
            "middle": self.tie_begins - self.limit - 1,
            "tie": self.tie_begins + self.tie * 95 // 100,
            "end": self.rows - self.limit,
        }


def fill(url: str, size: Size) -> None:
    """Make `pages` and its index, and let the planner learn of it."""
    last = size.tie_begins + size.tie
    second = f"case when n < {size.tie_begins} then n when n < {last} then {size.tie_begins} else n end"
    kind = family(url)
    if kind == "postgresql":
        columns = _COLUMNS.format("timestamptz")
        numbers = f"generate_series(1, {size.rows}) n"
        rows = f"select n, timestamptz '2020-01-01Z' + ({second}) * interval '1 s', n from {numbers}"
    elif kind == "mysql":
        columns = _COLUMNS.format("datetime(6)")
        rows = f"select n, '2020-01-01' + interval ({second}) second, n from {numbers_to(size.rows)}"
    else:
        columns = _COLUMNS.format("text").replace("bigint", "integer")
        numbers = f"with recursive s(n) as (select 1 union all select n + 1 from s where n < {size.rows})"
        rows = f"{numbers} select n, strftime('%Y-%m-%dT%H:%M:%SZ', 1577836800 + ({second}), 'unixepoch'), n from s"
    statements = [
        f"create table pages ({columns})",
        f"insert into pages (id, updated_at, total) {rows}",
        "create index pages_cursor on pages (updated_at, id)",
    ]
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement.replace(":", "\\:")))
    after = {"postgresql": "vacuum analyze pages", "mysql": "analyze table pages", "sqlite": "analyze"}[kind]
    autocommit = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with autocommit.connect() as connection:
        connection.execute(sa.text(after))


def source(url: str, *, filter: str | None = None) -> SqlSource:  # noqa: A002 - the key's name
    """A source over `pages`. The heuristic bound costs one look at the clock; the page has its `cursor < bound`."""
    return SqlSource(
        url, table="pages", cursor_column="updated_at", cursor_time_zone="UTC", pk_columns=["id"], filter=filter,
        bound="delay", query_timeout="10m",
    )  # fmt: skip


def cursor_of(url: str, identity: int) -> Cursor | None:
    """Where a reader stands that has just read this row."""
    if identity == 0:
        return None
    one = source(url, filter=f"id = {identity}")
    try:
        return one.page(None, 1).cursors[0]
    finally:
        one.close()
