"""PostgreSQL 18's NOT NULL ... NOT VALID: the catalogue says NOT NULL, and rows without a value may be there."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from poller.errors import SourceError
from tests.integration.bounds.tables import session
from tests.integration.sources.tables import closing, execute, orders


def _claim(url: str, column: str) -> None:
    """As version 18 writes it down; an older server, which has no such constraint, does not mind."""
    with session(url) as connection:
        connection.exec_driver_sql("set allow_system_table_mods = on")
        connection.exec_driver_sql(f"alter table orders add constraint said check ({column} is not null) not valid")
        connection.exec_driver_sql(
            "update pg_constraint set contype = 'n', conbin = null where conname = 'said' and not convalidated"
        )
        connection.exec_driver_sql("update pg_class set relchecks = 0 where oid = 'orders'::regclass")
        connection.exec_driver_sql(
            f"update pg_attribute set attnotnull = true where attrelid = 'orders'::regclass and attname = '{column}'"
        )


@pytest.mark.parametrize(
    ("column", "odd"), [("updated_at", "(2, null)"), ("id", "(null, '2026-01-02')")], ids=["cursor", "key"]
)
def test_a_not_null_that_was_never_validated_proves_nothing(postgres_db: str, column: str, odd: str) -> None:
    execute(
        postgres_db,
        "create table orders (id integer unique, updated_at timestamptz)",
        f"insert into orders values (1, '2026-01-01'), {odd}",
    )
    with session(postgres_db) as connection:
        other = "id" if column == "updated_at" else "updated_at"
        connection.exec_driver_sql(f"alter table orders alter {other} set not null")
    _claim(postgres_db, column)
    with closing(orders(postgres_db)) as source, pytest.raises(SourceError, match="NULL") as error:
        source.page(None, 5)
    assert error.value.column == column


def test_one_that_was_validated_is_believed(postgres_db: str) -> None:
    execute(
        postgres_db,
        "create table orders (id integer primary key, updated_at timestamptz)",
        "insert into orders values (1, '2026-01-01')",
    )
    _claim(postgres_db, "updated_at")
    with session(postgres_db) as connection:
        connection.exec_driver_sql("set allow_system_table_mods = on")
        connection.exec_driver_sql("update pg_constraint set convalidated = true where conname = 'said'")
    sent = list[str]()
    sa.event.listen(sa.Engine, "before_cursor_execute", note := lambda *call: sent.append(call[2]))
    try:
        with closing(orders(postgres_db)) as source:
            source.page(None, 5)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    assert any("ORDER BY" in sql for sql in sent)
    assert not any("poller_counted" in sql for sql in sent), "no row without a value is looked for"
