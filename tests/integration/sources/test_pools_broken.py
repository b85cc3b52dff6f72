"""A connection that breaks in the middle of a sample is like any other that breaks: the page is read again."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa

from poller.errors import SourceUnavailable
from tests.integration.sources.tables import closing, drain, execute, family, make_orders, orders
from tests.support.cases import each
from tests.support.services import wait_until

NINE = [f"2026-01-01 00:00:{second:02}" for second in range(9)]


@each("at", ["select /* ", "xa recover"])
def test_a_session_that_ends_in_a_sample_fails_no_page(mariadb_db: str, at: str) -> None:
    make_orders(mariadb_db, NINE)
    killed = list[str]()

    def kill(connection: Any, _: Any, sql: str, *__: Any) -> None:
        if at in sql and not killed:
            killed.append(sql)
            number = connection.connection.driver_connection.thread_id()
            with sa.create_engine(mariadb_db, poolclass=sa.NullPool).connect() as other:
                other.exec_driver_sql(f"kill {number}")

    engine = sa.create_engine(mariadb_db, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with closing(orders(mariadb_db, bound="auto")) as source, engine.connect() as busy:
        assert len(drain(source, 20)) == 9
        sa.event.listen(sa.Engine, "before_cursor_execute", kill)
        try:

            def read_once_more() -> bool:
                busy.exec_driver_sql("do 1")  # else nothing has changed, and open transactions are not looked at
                assert len(drain(source, 20)) == 9
                return bool(killed)

            wait_until(read_once_more, "a page whose sample is not the one before")
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", kill)


ENDS = {"postgresql": "select pg_terminate_backend({})", "mysql": "kill {}"}


@pytest.mark.soak
@pytest.mark.parametrize("url", ["postgres_db", "mariadb_db"])
def test_a_session_may_end_before_any_statement(request: pytest.FixtureRequest, url: str) -> None:
    """Of all that a source asks when it learns a view anew: that it broke is never taken for something else."""
    found: str = request.getfixturevalue(url)
    make_orders(found, NINE)
    execute(found, "create view seen as select * from orders")
    left, other = [-1], sa.create_engine(found, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")

    def kill(connection: Any, *_: Any) -> None:
        left[0] -= 1
        if left[0] == 0 and connection.engine is not other:
            driver = connection.connection.driver_connection
            number = driver.thread_id() if family(found) == "mysql" else driver.info.backend_pid
            with other.connect() as ending:
                ending.exec_driver_sql(ENDS[family(found)].format(number))

    with closing(orders(found, table="seen", bound="auto")) as source:
        assert len(drain(source, 20)) == 9
        sa.event.listen(sa.Engine, "before_cursor_execute", kill)
        try:
            for statement in range(1, 100):
                left[0] = statement
                with suppress(SourceUnavailable), closing(orders(found, table="seen", bound="auto")) as another:
                    assert len(another.page(None, 20).rows) == 9, statement  # a session that is new is not asked twice
                if left[0] > 0:
                    break
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", kill)
    assert statement > 10
