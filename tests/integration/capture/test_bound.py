"""Below what changes are read in PostgreSQL: never above one that is still to come, and by its number alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.errors import SourceError
from poller.sources import SqlSource
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import poller, source
from tests.support.postgres import PostgresServer


@pytest.fixture
def orders(postgres_db: str) -> Iterator[Captured]:
    made = Captured(postgres_db)
    made.run("CREATE TABLE orders (id int PRIMARY KEY, note text)")
    made.install()
    yield made
    made.close()


@pytest.fixture
def of(orders: Captured) -> Iterator[SqlSource]:
    made = source(orders)
    made.page(None, 1)
    yield made
    made.close()


class Writer:
    """A session that does not commit by itself."""

    def __init__(self, made: Captured) -> None:
        self._engine = sa.create_engine(made.url, poolclass=sa.NullPool)
        self.connection: Connection = self._engine.connect()

    def run(self, statement: str) -> None:
        self.connection.exec_driver_sql(statement)

    def commit(self) -> None:
        self.connection.commit()

    def close(self) -> None:
        self.connection.close()
        self._engine.dispose()


@pytest.fixture
def writer(orders: Captured) -> Iterator[Callable[[], Writer]]:
    made: list[Writer] = []

    def another() -> Writer:
        made.append(Writer(orders))
        return made[-1]

    yield another
    for one in made:
        one.close()


def notes(of: SqlSource) -> list[str]:
    return [row["note"] for row in of.page(None, 100).rows]


def test_a_change_that_is_not_committed_holds_later_ones(
    orders: Captured, of: SqlSource, writer: Callable[[], Writer]
) -> None:
    late = writer()
    late.run("INSERT INTO orders VALUES (1, 'late')")
    orders.run("INSERT INTO orders VALUES (2, 'early')")
    assert notes(of) == []
    late.commit()
    assert notes(of) == ["late", "early"]


def test_a_transaction_above_the_last_one_that_ended_counts(
    orders: Captured, of: SqlSource, writer: Callable[[], Writer]
) -> None:
    """The snapshot's xmax is the last number that ended, and one more: those of open transactions may lie above."""
    first, second = writer(), writer()
    first.run("INSERT INTO orders VALUES (1, 'first')")
    second.run("INSERT INTO orders VALUES (2, 'second')")
    assert notes(of) == []
    second.commit()
    assert notes(of) == []
    first.commit()
    assert notes(of) == ["first", "second"]


def test_what_was_written_before_the_oldest_open_one_is_read(
    orders: Captured, of: SqlSource, writer: Callable[[], Writer]
) -> None:
    orders.run("INSERT INTO orders VALUES (1, 'done')")
    assert notes(of) == ["done"]
    late = writer()
    late.run("INSERT INTO orders VALUES (2, 'late')")
    orders.run("INSERT INTO orders VALUES (3, 'early')")
    assert notes(of) == ["done"]


def test_one_key_is_in_the_order_of_its_writes(orders: Captured, of: SqlSource, writer: Callable[[], Writer]) -> None:
    """The transaction that began first writes the key last: by its number it would come first."""
    orders.run("INSERT INTO orders VALUES (1, 'a'), (9, 'b')")
    early = writer()
    early.run("UPDATE orders SET note = 'has its number' WHERE id = 9")
    orders.run("UPDATE orders SET note = 'first' WHERE id = 1")
    early.run("UPDATE orders SET note = 'second' WHERE id = 1")
    early.commit()
    assert [row["note"] for row in of.page(None, 100).rows if row["id"] == 1] == ["a", "first", "second"]


def test_a_writer_that_waited_for_a_lock_is_not_passed(
    orders: Captured, of: SqlSource, writer: Callable[[], Writer]
) -> None:
    orders.run("INSERT INTO orders VALUES (1, 'a')")
    assert notes(of) == ["a"]
    holds, waits = writer(), writer()
    holds.run("UPDATE orders SET note = 'first' WHERE id = 1")
    waiting = threading.Thread(target=lambda: waits.run("UPDATE orders SET note = 'second' WHERE id = 1"))
    waiting.start()
    assert notes(of) == ["a"]
    holds.commit()
    waiting.join()
    waits.commit()
    assert notes(of) == ["a", "first", "second"]


def test_a_transaction_that_wrote_nothing_holds_no_change(
    orders: Captured, of: SqlSource, writer: Callable[[], Writer]
) -> None:
    reads = writer()
    reads.run("SELECT 1 FROM orders")
    orders.run("INSERT INTO orders VALUES (1, 'a')")
    assert notes(of) == ["a"]


def test_the_bound_is_exact_for_a_user_who_may_only_read(
    orders: Captured, postgres_server: PostgresServer, postgres_db: str
) -> None:
    url = sa.make_url(postgres_db)
    role = f"reader_of_{url.database}"
    orders.run(
        f"CREATE ROLE {role} LOGIN",
        f"GRANT SELECT ON orders, poller_orders_changes, poller_captures TO {role}",
        "INSERT INTO orders VALUES (1, 'a')",
    )
    made = SqlSource(url.set(username=role), table="orders", capture=True, start_from="beginning")
    with pytest.raises(SourceError, match="GRANT SELECT ON SEQUENCE"):
        made.page(None, 10)
    orders.run(f"GRANT SELECT ON SEQUENCE poller_orders_changes_id_seq TO {role}")
    page = made.page(None, 10)
    assert (page.bound.kind, [row["note"] for row in page.rows]) == ("exact", ["a"])
    made.close()
    orders.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_who_holds_the_bound_is_said(orders: Captured, writer: Callable[[], Writer]) -> None:
    late = writer()
    late.run("INSERT INTO orders VALUES (1, 'late')")
    kept = poller(orders)
    kept.source._session.bounding.patience = 0  # type: ignore[attr-defined]
    result = kept.tick(lambda batch: None)
    assert result.outcome == "idle"
    assert result.bound is not None
    assert result.bound.held_by
    kept.close()


def test_a_statement_that_waited_is_not_put_before_others(mariadb_db: str) -> None:
    """Its time is the one at which it began to wait."""
    made = Captured(mariadb_db)
    made.run("CREATE TABLE orders (id int PRIMARY KEY NOT NULL, note varchar(40))")
    made.install()
    made.run("INSERT INTO orders VALUES (1, 'a')")
    holds, waits = Writer(made), Writer(made)
    holds.run("UPDATE orders SET note = 'first' WHERE id = 1")
    waiting = threading.Thread(target=lambda: waits.run("UPDATE orders SET note = 'third' WHERE id = 1"))
    waiting.start()
    asked = "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%third%' AND id <> connection_id()"
    while not made.run(asked)[0][0]:
        pass
    holds.run("UPDATE orders SET note = 'second' WHERE id = 1")
    holds.commit()
    waiting.join()
    waits.commit()
    of = source(made)
    assert [row["note"] for row in of.page(None, 100).rows] == ["a", "first", "second", "third"]
    for one in (of, holds, waits, made):
        one.close()
