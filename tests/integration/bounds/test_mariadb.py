"""MariaDB and MySQL: sessions tracked from sample to sample."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from poller.errors import ConfigError, SourceError
from poller.sources import sampler as followed
from poller.sources.mysql import bound as mysql_bound
from tests.integration.bounds.tables import add, another_process, freshly, ids, make, session, source
from tests.integration.sources.tables import execute
from tests.support.cases import each
from tests.support.mysql_family import MySqlFamilyServer
from tests.support.services import wait_until

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.fixture
def plain_user(family_db: str) -> Iterator[str]:
    """The URL of a user that may read the table and has no PROCESS."""
    make(family_db)
    name = "plain_" + str(sa.make_url(family_db).database)[-12:]
    execute(family_db, f"create user '{name}'@'%'", f"grant select on stamped to '{name}'@'%'")
    yield sa.make_url(family_db).set(username=name).render_as_string(hide_password=False)
    execute(family_db, f"drop user '{name}'@'%'")


def test_an_idle_servers_bound_goes_on_without_a_cache_look(mariadb_db: str) -> None:
    """innodb_trx may be asked every 0.1 s only; who polls more often learns nothing later for it."""
    make(mariadb_db)
    asked: list[str] = []
    with source(mariadb_db) as reader, session(mariadb_db, "select 1") as writer:
        freshly(reader)
        connection = reader._session.database.connection()
        sa.event.listen(connection.engine, "before_cursor_execute", lambda *facts: asked.append(facts[2]))
        bounds = [reader.page(None, 10).bound.value for _ in range(5)]
        assert not [sql for sql in asked if "innodb_trx" in sql]
        assert len(set(bounds)) == 5
        assert bounds == sorted(bounds, key=str)
        writer.exec_driver_sql("insert into stamped (id) values (1)")
        assert ids(freshly(reader)) == [1]
        assert [sql for sql in asked if "innodb_trx" in sql]


def test_a_resting_transaction_holds_also_on_an_idle_server(family_db: str) -> None:
    make(family_db)
    with source(family_db, bound="exact") as reader:
        assert freshly(reader).bound().kind == "observed"
        with session(family_db, "start transaction", "insert into stamped (id) values (1)") as writer:
            add(family_db, 2)
            freshly(reader)
            assert [ids(reader) for _ in range(5)] == [[]] * 5
            writer.exec_driver_sql("commit")
        assert ids(freshly(reader)) == [1, 2]


def test_a_statement_that_takes_long_holds_from_its_start(family_db: str) -> None:
    make(family_db)
    with source(family_db) as reader, session(family_db) as writer, session(family_db) as other:
        assert ids(freshly(reader)) == []
        other.exec_driver_sql("select get_lock('gate', 0)")
        slow = "insert into stamped (id, updated_at) select 1, now(6) from (select get_lock('gate', 60)) as waited"
        thread = threading.Thread(target=writer.exec_driver_sql, args=(slow,))
        thread.start()
        try:
            waits = "select count(*) from information_schema.processlist where left(info, 3) = 'ins'"
            wait_until(lambda: other.exec_driver_sql(waits).scalar_one() == 1, "the statement waits in its middle")
            add(family_db, 2)
            assert ids(freshly(reader)) == []
            assert ids(freshly(reader)) == []
        finally:
            other.exec_driver_sql("select release_lock('gate')")
            thread.join()
        assert ids(freshly(reader)) == [1, 2]


def test_a_prepared_xa_transaction_holds_and_is_named(family_db: str) -> None:
    make(family_db)
    add(family_db, 1)
    with source(family_db) as reader:
        assert ids(freshly(reader)) == [1]
        with session(
            family_db, "xa start 'lost'", "insert into stamped (id) values (2)", "xa end 'lost'", "xa prepare 'lost'"
        ):
            pass
        try:
            add(family_db, 3)
            page = freshly(reader).page(None, 10)
        finally:
            with session(family_db, "xa commit 'lost'"):
                pass
        assert [row["id"] for row in page.rows] == [1]
        assert "'lost'" in str(page.bound.held_by)
        assert "XA COMMIT" in str(page.bound.reason)
        assert ids(freshly(reader)) == [1, 2, 3]


def test_a_transaction_that_stays_open_is_named(family_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "SHOWS_HOLDER_AFTER", 0.0)
    make(family_db)
    with source(family_db) as reader:
        reader.bound()
        with session(family_db, "start transaction", "insert into stamped (id) values (2)") as writer:
            number = writer.exec_driver_sql("select connection_id()").scalar_one()
            held = freshly(reader).bound().held_by
    assert f"connection {number} of root" in str(held)


def test_an_innodb_trx_kept_from_refreshing_is_not_believed(family_db: str) -> None:
    make(family_db)
    add(family_db, 1)
    stop = threading.Event()

    def hammer() -> None:
        with session(family_db) as connection:
            while not stop.is_set():
                connection.exec_driver_sql("select count(*) from information_schema.innodb_trx")

    with source(family_db) as reader:
        assert ids(freshly(reader)) == [1]
        thread = threading.Thread(target=hammer)
        thread.start()
        try:
            add(family_db, 2)
            wait_until(lambda: "innodb_trx" in str(reader.bound().held_by), "a look that the cache spoils")
        finally:
            stop.set()
            thread.join()
        assert ids(freshly(reader)) == [1, 2]


def test_users_that_only_read_may_be_ignored(plain_user: str, family_db: str) -> None:
    """What they have open, and what they run; nobody else's."""
    name = str(sa.make_url(plain_user).username)
    with (
        source(family_db) as strict,
        source(family_db, bound_ignore_users=[name]) as reader,
        source(family_db, bound_ignore_users=["nobody", name.upper()]) as other,
    ):
        for one in (strict, reader, other):
            freshly(one)
        with session(plain_user, "start transaction with consistent snapshot", "select * from stamped"):
            add(family_db, 1)
            assert [ids(freshly(one)) for one in (strict, reader, other)] == [[], [1], []]
            with session(family_db, "start transaction", "insert into stamped (id) values (2)") as writer:
                add(family_db, 3)
                assert ids(freshly(reader)) == [1], "others hold it as ever"
                writer.exec_driver_sql("commit")
            assert ids(freshly(reader)) == [1, 2, 3]


@pytest.mark.guarantee("Rows that commit late", "A heuristic bound is named as such")
def test_without_process_the_heuristic_is_left_and_the_grant_named(plain_user: str) -> None:
    with source(plain_user) as reader:
        bound = reader.bound()
        assert bound.kind == "heuristic"
        assert "GRANT PROCESS" in str(bound.reason)
    with source(plain_user, bound="exact") as reader, pytest.raises(ConfigError, match="PROCESS") as error:
        reader.bound()
    assert error.value.key == "bound"


def test_a_read_only_server_is_refused(family_server: MySqlFamilyServer, family_db: str) -> None:
    make(family_db)
    family_server.execute("set global read_only = 1")
    try:
        with source(family_db) as reader, pytest.raises(SourceError, match="read-only"):
            reader.page(None, 1)
    finally:
        family_server.execute("set global read_only = 0")


def test_there_is_no_stricter_one() -> None:
    with pytest.raises(ConfigError) as error, source("mysql+pymysql://root@h/d", bound="observed-strict"):
        pass
    assert error.value.key == "bound"


def test_a_cold_process_knows_only_what_is_remembered(family_db: str) -> None:
    make(family_db)
    with source(family_db) as first:
        first.bound()
        add(family_db, 1)
        assert ids(freshly(first)) == [1]
        with session(family_db, "start transaction", "insert into stamped (id) values (2)") as writer:
            add(family_db, 3)
            assert ids(freshly(first)) == [1]
            memory = first.remember()
            assert memory is not None
            with another_process(), source(family_db) as cold, source(family_db) as warm:
                assert cold.page(None, 10).bound.value is None
                warm.recall(memory)
                assert ids(freshly(warm)) == [1]
                writer.exec_driver_sql("commit")
                assert ids(freshly(warm)) == [1, 2, 3]


@each(
    ("before", "now", "same"),
    [
        ([], (7, "a"), True),  # a statement that ran may have begun it
        ([(0, "a")], (7, "a"), True),  # it got its id at its first write
        ([(0, "a")], (7, "b"), False),
        ([(1 << 48, "a")], (7, "a"), True),
        ([(7, "a")], (7, "b"), True),
        ([(7, "a")], (8, "a"), False),
        ([(7, "a"), (1 << 48, "b")], (7, "c"), True),  # beside another that the session reads with
        ([(7, "a"), (1 << 48, "b")], (8, "b"), True),
        ([(7, "a"), (1 << 48, "b")], (8, "c"), False),
    ],
)
def test_only_a_difference_proves_another_transaction(
    before: list[mysql_bound.Trx], now: mysql_bound.Trx, same: bool
) -> None:
    assert mysql_bound._Open(NOON, None, tuple(before), "app").same(now) is same
