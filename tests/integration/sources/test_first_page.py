"""How many statements the first page of a process sends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.integration.sources.tables import TIMESTAMP, closing, execute, family, orders

MOST = {
    "postgresql": {"table": 15, "view": 18, "query": 16},
    "mysql": {"table": 31, "view": 39, "query": 32},
    "sqlite": {"table": 34, "view": 36, "query": 34},
}
"""As SQLAlchemy sends them: not its own ones of a new engine. With prepared transactions, and one more for a view or a
query whose session gets its settings back. MariaDB may look more than once."""
KEYS = {"number": "integer", "text": "varchar(40)"}


@pytest.fixture
def sent() -> Iterator[list[str]]:
    found: list[str] = []
    sa.event.listen(sa.Engine, "before_cursor_execute", note := lambda *call: found.append(call[2]))
    yield found
    sa.event.remove(sa.Engine, "before_cursor_execute", note)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("shape", ["table", "view", "query"])
def test_a_first_page_sends_few_statements(any_db: str, sent: list[str], shape: str, key: str) -> None:
    kind = family(any_db)
    execute(
        any_db,
        f"create table orders (id {KEYS[key]} not null primary key, updated_at {TIMESTAMP[kind]} not null)",
        "create index by_time on orders (updated_at, id)",
        "create view seen as select id, updated_at from orders",
        "insert into orders (id, updated_at) values ('1', '2026-01-05 10:00:00'), ('2', '2026-01-05 10:00:01')",
    )
    read = {"table": {}, "view": {"table": "seen"}, "query": {"table": None, "query": "select * from orders"}}[shape]
    with closing(orders(any_db, **read)) as source:
        sent.clear()
        assert len(source.page(None, 10).rows) == 2
    assert len(sent) <= MOST[kind][shape], "\n".join(sent)
