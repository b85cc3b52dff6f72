"""Sessions on the source only read: what a filter or a query calls cannot write."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from poller.errors import SourceError
from poller.sources.postgresql import database
from tests.integration.bounds.tables import add, ids, make
from tests.integration.bounds.tables import source as stamped
from tests.integration.sources.tables import closing, execute, make_orders, orders
from tests.support.cases import each
from tests.support.services import unavailable

STAMPS = [f"2026-01-01 00:00:0{i}.000000" for i in range(3)]


def read(url: str, statement: str) -> Any:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return connection.execute(sa.text(statement)).scalar_one()


@pytest.mark.guarantee("Delivery", "The poller writes nothing into the source's database")
def test_a_source_cannot_write_through_its_own_session(any_db: str) -> None:
    make_orders(any_db, STAMPS)
    with closing(orders(any_db, bound="auto")) as source:
        source.page(None, 1)
        with pytest.raises(DBAPIError, match=r"(?i)read.?only"):
            source._session.database.connection().exec_driver_sql("delete from orders")
    assert read(any_db, "select count(*) from orders") == 3


OPTIONS = ["", "?options=-cdefault_transaction_read_only%3Doff"]


@each("options", OPTIONS)
def test_a_filter_cannot_advance_postgresqls_sequence(postgres_db: str, options: str) -> None:
    make_orders(postgres_db, STAMPS)
    execute(
        postgres_db,
        "create sequence sq",
        f"alter database {sa.make_url(postgres_db).database} set default_transaction_read_only = off",
    )
    with closing(orders(postgres_db + options, filter="nextval('sq') > 0")) as source:
        with pytest.raises(SourceError, match="read-only") as error:
            source.page(None, 1)
        assert "only reads" in str(error.value.next_step)
    assert read(postgres_db, "select is_called from sq") is False


def test_a_session_of_our_own_costs_no_statement_more(postgres_db: str) -> None:
    make_orders(postgres_db, STAMPS)
    with closing(orders(postgres_db)) as source:
        source.page(None, 1)
        connection = source._session.database.connection()
        assert connection.exec_driver_sql("show default_transaction_read_only").scalar_one() == "on"


def test_behind_a_pooler_each_statement_is_read_only(postgres_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretended: a pooler gives a process id of its own. What is set in a session there, others would inherit, and
    their writes would fail; what they set would be ours."""
    monkeypatch.setattr(database, "session_of", lambda _: -1)
    make_orders(postgres_db, STAMPS)
    execute(postgres_db, "create sequence sq")
    with closing(orders(postgres_db, filter="nextval('sq') > 0")) as source:
        for _ in range(2):  # the connection stays good
            with pytest.raises(SourceError, match="read-only"):
                source.page(None, 1)
    assert read(postgres_db, "select is_called from sq") is False
    with closing(orders(postgres_db, filter="id > 1")) as source:
        assert [row["id"] for row in source.page(None, 5).rows] == [2, 3]
        assert source.lag(None, cap=5).pending == 2
        connection = source._session.database.connection()
        assert connection.exec_driver_sql("show default_transaction_read_only").scalar_one() == "off"
        with pytest.raises(DBAPIError, match="division"):
            connection.exec_driver_sql("select 1 / 0")
        assert connection.exec_driver_sql("select 1").scalar_one() == 1, "what failed is not carried on"


def test_a_filter_cannot_advance_mariadbs_sequence(mariadb_db: str) -> None:
    make_orders(mariadb_db, STAMPS)
    execute(mariadb_db, "create sequence sq")
    before = read(mariadb_db, "select next_not_cached_value from sq")
    with closing(orders(mariadb_db, filter="nextval(sq) > 0")) as source:
        with pytest.raises(SourceError, match="READ ONLY") as error:
            source.page(None, 1)
        assert "only reads" in str(error.value.next_step)
    assert read(mariadb_db, "select next_not_cached_value from sq") == before


def test_a_filter_cannot_write_through_a_function(family_db: str) -> None:
    make_orders(family_db, STAMPS)
    execute(family_db, "create table seen (n integer)")
    try:
        execute(
            family_db,
            "create function note_it(n integer) returns integer begin insert into seen values (n); return n; end",
        )
    except DBAPIError as missing:
        unavailable(f"no functions here: {missing.orig}")
    with (
        closing(orders(family_db, filter="note_it(id) > 0")) as source,
        pytest.raises(SourceError, match="READ ONLY"),
    ):
        source.page(None, 1)
    assert read(family_db, "select count(*) from seen") == 0


def test_sqlites_write_lock_is_still_asked_for(sqlite_url: str) -> None:
    make(sqlite_url)
    add(sqlite_url, 1)
    with stamped(sqlite_url) as reader:
        assert ids(reader) == [1]
        assert reader.bound().kind == "exact"
        with pytest.raises(DBAPIError, match="readonly"):
            reader._session.database.connection().exec_driver_sql("delete from stamped")


@pytest.mark.parametrize("pool", [sa.StaticPool, sa.QueuePool])
def test_an_engine_of_the_users_keeps_its_right_to_write(tmp_path: Path, pool: type[sa.Pool]) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    make_orders(url, STAMPS)
    engine: Any = sa.create_engine(url, poolclass=pool)
    source: Any = orders(engine)
    if pool is sa.StaticPool:  # the very connection that the program writes with
        source.page(None, 1)
    with closing(source):
        source.page(None, 1)
        if pool is sa.StaticPool:
            with engine.begin() as connection:
                connection.exec_driver_sql("delete from orders where id = 1")
    with engine.begin() as connection:
        connection.exec_driver_sql("delete from orders where id = 2")
    engine.dispose()


def test_a_source_that_nobody_closes_leaves_the_users_pool_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    make_orders(url, STAMPS)
    engine: Any = sa.create_engine(url, poolclass=sa.QueuePool)
    with engine.begin() as connection:
        connection.exec_driver_sql("delete from orders where id = 1")
    source = orders(engine)
    source.page(None, 1)
    del source
    gc.collect()
    with engine.begin() as connection:
        connection.exec_driver_sql("delete from orders where id = 2")
    engine.dispose()


def test_a_shared_database_in_memory_outlives_the_source() -> None:
    engine: Any = sa.create_engine("sqlite:///file:shop?mode=memory&cache=shared&uri=true", poolclass=sa.QueuePool)
    with engine.begin() as connection:
        connection.exec_driver_sql("create table orders (id integer primary key, updated_at text not null)")
        connection.exec_driver_sql("insert into orders values (1, '2026-01-01 00:00:00')")
    with closing(orders(engine)) as source:
        assert len(source.page(None, 5).rows) == 1
    with engine.begin() as connection:
        assert connection.exec_driver_sql("delete from orders").rowcount == 1
    engine.dispose()
