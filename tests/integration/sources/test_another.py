"""`SqlSource.another()`: the same rows for a second thread, on a connection of its own."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from poller.errors import SourceError
from poller.sources import SqlSource
from tests.integration.sources.tables import execute
from tests.support.cases import each


class Mine(SqlSource):
    """A source with something of its own."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    execute(url, "create table orders (id integer primary key not null, at text not null, who text)")
    execute(url, "insert into orders values (1, '2026-01-01 00:00:00', 'Jane-Doe-4711')")
    return url


def source_of(url: str | sa.Engine, **options: str) -> SqlSource:
    return Mine(url, table="orders", cursor_column="at", cursor_time_zone="UTC", pk_columns=["id"], **options)  # type: ignore[arg-type]


def test_it_reads_in_another_thread_and_closes_alone(url: str) -> None:
    source = source_of(url)
    source.page(None, 1)
    other, rows = source.another(), []

    thread = threading.Thread(target=lambda: rows.append(other.page(None, 1).rows[0]["id"]))
    thread.start()
    thread.join()
    other.close()

    assert rows == [1]
    assert type(other) is Mine
    assert source.page(None, 1).rows[0]["id"] == 1
    assert other.describe().fingerprint() == source.describe().as_configured().fingerprint()
    source.close()


def test_a_given_engine_is_shared() -> None:
    """As a database in memory shows, which no other engine sees."""
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
    with engine.begin() as connection:
        connection.execute(sa.text("create table orders (id integer primary key not null, at text not null)"))
        connection.execute(sa.text("insert into orders values (1, '2026-01-01 00:00:00')"))
    assert len(source_of(engine).another().page(None, 1).rows) == 1


@each("shown", [True, False])
def test_what_errors_may_quote_stays_as_it_was_set(url: str, shown: bool) -> None:
    source = source_of(url, filter="json_extract('{}', who) is null")
    source.error_text = shown
    with pytest.raises(SourceError) as raised:
        source.another().page(None, 1)
    assert ("Jane-Doe-4711" in str(raised.value)) is shown
