"""Tables for the tests of sources, the same on every database, and a reader that pages through one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from poller.model.cursor import Cursor
from poller.sources import SqlSource

TIMESTAMP = {"postgresql": "timestamptz", "mysql": "datetime(6)", "sqlite": "text"}
TEXT = {"postgresql": "text", "mysql": "varchar(60)", "sqlite": "text"}


def family(url: str) -> str:
    """Which of the three running databases a fixture's URL is."""
    name = sa.make_url(url).get_backend_name()
    return "mysql" if name == "mariadb" else name


def is_mariadb(url: str) -> bool:
    """Whether a server of MySQL's family is a MariaDB, which has types and tables of its own."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect():
        return bool(getattr(engine.dialect, "is_mariadb", False))


def execute(url: str, *statements: str, rows: Sequence[Mapping[str, Any]] = ()) -> None:
    """Run statements in one transaction; the last one once per row, where rows are given."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in statements[: len(statements) - bool(rows)]:
            connection.execute(sa.text(statement))
        if rows:
            connection.execute(sa.text(statements[-1]), list(rows))


def touch_at_updates(url: str, name: str = "orders", column: str = "updated_at") -> None:
    """Let an UPDATE of a row stamp it anew, unless it sets the stamp itself."""
    kind = family(url)
    if kind == "postgresql":
        execute(
            url,
            f"create function touch_{name}() returns trigger language plpgsql as"
            f" $$ begin new.{column} \\:= now(); return new; end $$",
            f"create trigger touch before update on {name} for each row"
            f" when (new.{column} is not distinct from old.{column}) execute function touch_{name}()",
        )
    elif kind == "mysql":
        execute(url, f"alter table {name} modify {column} datetime(6) null on update current_timestamp(6)")
    else:
        execute(
            url,
            f"create trigger touch_{name} after update on {name} when new.{column} is old.{column} begin"
            f" update {name} set {column} = datetime('now') where id = new.id; end",
        )


def make_orders(url: str, stamps: Sequence[str], *, name: str = "orders") -> None:
    """`orders(id, updated_at, status, total)` with one row per stamp, ids from 1; stamps like 2026-01-01 00:00:00.5."""
    kind = family(url)
    execute(
        url,
        f"create table {name} (id integer not null primary key, updated_at {TIMESTAMP[kind]} not null,"
        f" status {TEXT[kind]}, total integer not null)",
        f"create index {name}_cursor on {name} (updated_at, id)",
    )
    add_orders(url, stamps, name=name, first=1)


def add_orders(url: str, stamps: Sequence[str], *, first: int, name: str = "orders") -> None:
    """More rows, ids from `first`."""
    rows = [
        {"id": first + i, "at": stamp, "status": ("draft", "open", "sent")[i % 3], "total": i}
        for i, stamp in enumerate(stamps)
    ]
    if rows:
        execute(url, f"insert into {name} values (:id, :at, :status, :total)", rows=rows)


def orders(url: str | sa.URL | sa.Engine, **keys: Any) -> SqlSource:
    """A source over `orders` that reads everything that is committed."""
    defaults: dict[str, Any] = {
        "table": None if "query" in keys else "orders",
        "cursor_column": "updated_at",
        "cursor_time_zone": "UTC",
        "pk_columns": ["id"],
        "bound": "none",
    }
    return SqlSource(url, **(defaults | keys))


def drain(source: SqlSource, limit: int, after: Cursor | None = None) -> list[dict[str, Any]]:
    """All rows after a cursor, page by page; each page's cursor goes through JSON, as the document keeps it."""
    rows: list[dict[str, Any]] = []
    for _ in range(100_000):
        page = source.page(after, limit)
        assert len(page.rows) <= limit
        assert len(page.rows) == len(page.cursors)
        if not page.rows:
            return rows
        rows.extend(dict(row) for row in page.rows)
        after = Cursor.model_validate_json(page.cursors[-1].model_dump_json())
    raise AssertionError("the pages never end")


@contextlib.contextmanager
def closing(source: SqlSource) -> Iterator[SqlSource]:
    """The source, closed at the end, so that the database can be dropped."""
    try:
        yield source
    finally:
        source.close()
