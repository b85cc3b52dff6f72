"""The table that is read: six columns of the usual types, two rows a second, with `payload` also a document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from benchmarks.torture.tables import family
from tests.support.mysql_family import numbers_to

PAGE = 1_000
COLUMNS = ("id", "updated_at", "customer", "status", "total", "paid")
_DECLARED = {
    "postgresql": "id bigint primary key, updated_at timestamptz not null, customer text not null,"
    " status text not null, total numeric(12, 2) not null, paid boolean not null",
    "mysql": "id bigint primary key, updated_at datetime(6) not null, customer varchar(60) not null,"
    " status varchar(20) not null, total decimal(12, 2) not null, paid boolean not null",
    "sqlite": "id integer primary key, updated_at text not null, customer text not null, status text not null,"
    " total numeric not null, paid boolean not null",
}
_VALUES = "n, {second}, {customer}, 'shipped', n * 0.25, n % 2 = 0"
_DOCUMENT = (
    '{"order": 1, "lines": [{"sku": "A-1", "count": 2, "price": 9.5}, {"sku": "B-2", "count": 1, "price": 19.0}],'
    ' "shipping": {"name": "A. Customer", "street": "Main Street 1", "city": "Reykjavik", "zip": "101"},'
    ' "tags": ["new", "gift", "express"]}'
)


def fill(url: str, rows: int, *, payload: bool) -> str:
    """Make the table, and let the planner learn of it. Returns its name."""
    kind, name = family(url), "full_page_json" if payload else "full_page"
    declared = _DECLARED[kind] + (f", payload {'jsonb' if kind == 'postgresql' else 'text'}" if payload else "")
    document = f", '{_DOCUMENT}'" if payload else ""
    if kind == "postgresql":
        values = _VALUES.format(
            second="timestamptz '2020-01-01 00:00:00.25Z' + n / 2 * interval '1 s'", customer="'customer ' || n",
        )  # fmt: skip
        chosen = f"select {values}{document} from generate_series(1, {rows}) n"
    elif kind == "mysql":
        values = _VALUES.format(
            second="'2020-01-01 00:00:00.250000' + interval (n div 2) second", customer="concat('customer ', n)",
        )  # fmt: skip
        chosen = f"select {values}{document} from {numbers_to(rows)}"
    else:
        values = _VALUES.format(
            second="strftime('%Y-%m-%dT%H:%M:%fZ', 1577836800.25 + n / 2, 'unixepoch')", customer="'customer ' || n",
        )  # fmt: skip
        numbers = f"with recursive s(n) as (select 1 union all select n + 1 from s where n < {rows})"
        chosen = f"{numbers} select {values}{document} from s"
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in (
            f"create table {name} ({declared})",
            f"insert into {name} {chosen}",
            f"create index {name}_cursor on {name} (updated_at, id)",
        ):
            connection.execute(sa.text(statement.replace(":", "\\:")))
    after = {"postgresql": "vacuum analyze {}", "mysql": "analyze table {}", "sqlite": "analyze {}"}[kind]
    with sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(after.format(name))
    return name


Read = Callable[[tuple[Any, Any] | None], list[dict[str, Any]]]
"""A page by hand: of the rows after a cursor and key (None: from the beginning), as dicts."""


def by_hand(connection: sa.Connection, url: str, table: str, *, payload: bool, limit: int = PAGE) -> Read:
    """The page as one would write it with the driver alone, in the form that suits the database."""
    kind = family(url)
    mark = "?" if kind == "sqlite" else "%s"
    columns = [*COLUMNS, "payload"] if payload else list(COLUMNS)
    chosen = f"select {', '.join(columns)} from {table}"
    rest = f"order by updated_at, id limit {limit}"
    where = f"(updated_at, id) > ({mark}, {mark})"
    if kind == "mysql":  # row values read the whole index there
        where = f"updated_at >= {mark} and (updated_at > {mark} or id > {mark})"
    cursor = connection.connection.cursor()

    def read(after: tuple[Any, Any] | None) -> list[dict[str, Any]]:
        if after is None:
            cursor.execute(f"{chosen} {rest}")
        else:
            bound = (after[0], *after) if kind == "mysql" else after
            cursor.execute(f"{chosen} where {where} {rest}", bound)
        return [dict(zip(columns, row, strict=False)) for row in cursor.fetchall()]

    return read
