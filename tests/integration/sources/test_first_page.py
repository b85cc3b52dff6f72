"""How many statements the first page of a process sends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.integration.sources.tables import TIMESTAMP, closing, execute, family, orders
from tests.support.cases import each

MOST = {
    "postgresql": {"table": (13, 14), "view": (17, 19), "query": (15, 17)},
    "mysql": {"table": (27, 27), "view": (31, 31), "query": (26, 27)},
    "sqlite": {"table": (32, 34), "view": (35, 36), "query": (31, 32)},
}
"""With a key of numbers, and with one of text. As SQLAlchemy sends them: not its own ones of a new engine. One asks for
prepared transactions, which most servers cannot have; a session that read a view or a query gets its settings back."""
READ: dict[str, dict[str, Any]] = {
    "table": {},
    "view": {"table": "seen"},
    "query": {"query": "select * from orders"},
}
KEYS = ("integer", "varchar(40)")


@pytest.fixture
def sent() -> Iterator[list[str]]:
    found: list[str] = []
    sa.event.listen(sa.Engine, "before_cursor_execute", note := lambda *call: found.append(call[2]))
    yield found
    sa.event.remove(sa.Engine, "before_cursor_execute", note)


@each("key", KEYS)
@each("shape", READ)
def test_a_first_page_sends_few_statements(any_db: str, sent: list[str], shape: str, key: str) -> None:
    kind = family(any_db)
    execute(
        any_db,
        f"create table orders (id {key} not null primary key, updated_at {TIMESTAMP[kind]} not null)",
        "create index by_time on orders (updated_at, id)",
        "create view seen as select id, updated_at from orders",
        "insert into orders (id, updated_at) values ('1', '2026-01-05 10:00:00'), ('2', '2026-01-05 10:00:01')",
    )
    with closing(orders(any_db, bound="auto", **READ[shape])) as source:
        sent.clear()
        assert len(source.page(None, 10).rows) == 2
    if kind == "mysql":  # it may look again, as often as its view of transactions is not fresh
        sent = list(dict.fromkeys(re.sub(r"/\* \w+ \*/", "", sql) for sql in sent))
    assert len(sent) <= MOST[kind][shape][KEYS.index(key)], "\n".join(sent)
