"""What only MySQL has: privileges of its own, starts in whole seconds or finer, two transactions of a session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from poller.ports import Bound
from poller.sources.mysql import bound as mysql_bound
from poller.sources.mysql import look as mysql_look
from poller.sources.mysql.look import Sighting
from tests.integration.bounds.tables import add, freshly, ids, make, session, source
from tests.integration.sources.tables import execute
from tests.support.mysql import MySqlServer
from tests.support.services import wait_until

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@contextmanager
def user(url: str, *grants: str) -> Iterator[str]:
    """The URL of a user that may read the table and has these privileges beside."""
    name = "some_" + str(sa.make_url(url).database)[-12:]
    execute(url, f"create user '{name}'@'%'", f"grant select on stamped to '{name}'@'%'")
    execute(url, *(f"grant {grant} to '{name}'@'%'" for grant in grants))
    try:
        yield sa.make_url(url).set(username=name).render_as_string(hide_password=False)
    finally:
        execute(url, f"drop user '{name}'@'%'")


GLOBAL = "process, xa_recover_admin on *.*"
FINE = "select on performance_schema.*"


@pytest.mark.parametrize("grants", [(GLOBAL,), (GLOBAL, FINE)])
def test_late_commits_are_seen_with_the_privileges_that_are_named(mysql_db: str, grants: tuple[str, ...]) -> None:
    make(mysql_db)
    add(mysql_db, 1)
    with user(mysql_db, *grants) as url, source(url, bound="observed") as reader:
        assert ids(freshly(reader)) == [1]
        with session(mysql_db, "start transaction", "insert into stamped (id) values (2)") as writer:
            add(mysql_db, 3)
            assert ids(freshly(reader)) == [1]
            assert ids(freshly(reader)) == [1]
            writer.exec_driver_sql("commit")
        assert ids(freshly(reader)) == [1, 2, 3]


def test_the_privilege_that_is_missing_is_named(mysql_db: str) -> None:
    make(mysql_db)
    with user(mysql_db, "process on *.*") as url, source(url) as reader:
        bound = reader.bound()
    assert bound.kind == "heuristic"
    assert "lacks XA_RECOVER_ADMIN; GRANT PROCESS, XA_RECOVER_ADMIN ON *.*" in str(bound.reason)


@contextmanager
def running(url: str) -> Iterator[tuple[int, datetime]]:
    """While a statement runs in another session, that session's number, and a time at which it had begun."""
    found: list[datetime] = []
    with session(url) as writer, session(url) as other:
        number = writer.exec_driver_sql("select connection_id()").scalar_one()

        def work() -> None:
            (began, _) = writer.exec_driver_sql("select now(6), sleep(60)").one()
            found.append(began.replace(tzinfo=UTC))

        thread = threading.Thread(target=work)
        sleeps = f"select count(*) from information_schema.processlist where id = {number} and info like '%%sleep%%'"
        thread.start()
        wait_until(lambda: other.exec_driver_sql(sleeps).scalar_one() == 1, "the statement runs")
        began = other.exec_driver_sql("select now(6)").scalar_one().replace(tzinfo=UTC)
        try:
            yield number, began
        finally:
            other.exec_driver_sql(f"kill query {number}")
            thread.join()
    assert found[0] <= began


def bound_at(bound: Bound) -> datetime:
    assert bound.at is not None, bound
    return bound.at


@pytest.mark.parametrize(("grants", "measured_finely"), [((GLOBAL,), False), ((GLOBAL, FINE), True)])
def test_a_statement_holds_from_its_finely_measured_start(
    mysql_db: str, grants: tuple[str, ...], measured_finely: bool
) -> None:
    make(mysql_db)
    with user(mysql_db, *grants) as url, running(mysql_db) as (number, later_than_its_start), source(url) as reader:
        assert bound_at(reader.bound()) <= later_than_its_start
        with session(url) as connection:
            rows = connection.execute(mysql_look.sessions_statement(connection, mariadb=False)).all()
    (took,) = [row.took for row in rows if row.id == number]
    assert (took is not None) == measured_finely
    assert all(row.took is None for row in rows if row.command == "Sleep")


def test_sessions_are_tracked_where_performance_schema_is_wrong() -> None:
    """A statement whose end went unnoticed there, and a wall clock that was set meanwhile: neither is believed."""
    clock = NOON.replace(tzinfo=None)
    started = clock - timedelta(seconds=3)

    def began(took: float | None) -> datetime:
        row = SimpleNamespace(clock=clock, started=started, took=None if took is None else int(took * 1e12))
        return mysql_look._began(row)

    coarse = NOON - timedelta(seconds=3)
    assert began(None) == coarse
    assert began(3_600) == coarse
    assert began(0.1) == coarse
    fine = began(1.5)
    assert NOON - timedelta(seconds=1.51) < fine < NOON - timedelta(seconds=1.5)


@pytest.mark.soak
def test_where_a_replicas_threads_write_only_the_heuristic_is_left(mysql_server: MySqlServer) -> None:
    if not mysql_server.ours:
        pytest.skip("a replica is made of servers of our own")
    with MySqlServer.start({"server_id": "2"}) as replica:
        url = replica.new_database()
        make(url)
        with source(url) as before, source(url) as later:
            assert before.bound().kind == "observed"
            replica.execute(
                f"change replication source to source_host = '127.0.0.1', source_port = {mysql_server.port},"
                " source_user = 'root', get_source_public_key = 1"
            )
            replica.execute("start replica")
            threads = "select count(*) from information_schema.processlist where user = 'system user'"
            wait_until(lambda: replica.execute(threads) != [(0,)], "the replica's threads run")
            assert "a replica's thread" in str(freshly(before).bound().held_by)
            bound = later.bound()
            assert bound.kind == "heuristic"
            assert "replica thread" in str(bound.reason)
            replica.execute("stop replica")


def seen(at: float, *transactions: tuple[int, int, str], began: float | None = None) -> Sighting:
    """A look at that second, at which these are open: (session, transaction, its start); a statement may run."""
    rows: list[Any] = [SimpleNamespace(session=s, trx_id=t, trx_started=x) for s, t, x in transactions]
    return Sighting(
        clock=NOON + timedelta(seconds=at), users={5: "app"}, queries={}, transactions=rows, fresh=True, xa=[],
        running={} if began is None else {5: NOON + timedelta(seconds=began)}, replica=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mariadb", "opened"),
    [(False, [10, 10, 10.6, 12]), (True, [8.9, 8.9, 8.9, 12])],
)
def test_a_statement_in_whole_seconds_began_after_the_last_sample(mariadb: bool, opened: list[float]) -> None:
    """MariaDB measures it finely; there its value is taken."""
    tracked = mysql_bound.Tracked("server", mysql_look.MYSQL, seen(10), mariadb=mariadb)
    looks = [seen(10.2, began=8.9), seen(10.4, began=8.9), seen(10.6), seen(10.8, began=8.9), seen(13, began=12)]
    ages = [tracked._judge(look).oldest for look in looks]
    del ages[2]  # at rest
    assert ages == [NOON + timedelta(seconds=second) for second in opened]


READS = (5, 1 << 48, "y")
"""What a session reads the data dictionary with, beside its user's transaction."""


@pytest.mark.parametrize("beside", [(READS, (5, 100, "x")), ((5, 100, "x"), READS)])
def test_a_second_transaction_of_a_session_hides_no_older_one(beside: tuple[tuple[int, int, str], ...]) -> None:
    tracked = mysql_bound.Tracked("server", mysql_look.MYSQL, seen(0), mariadb=False)
    opened = [
        tracked._judge(look).oldest for look in (seen(1, (5, 100, "x")), seen(2, *beside), seen(3, (5, 100, "x")))
    ]
    assert opened == [NOON] * 3
    assert tracked._judge(seen(4)).oldest == NOON + timedelta(seconds=4)


def test_both_transactions_of_a_session_are_remembered() -> None:
    tracked = mysql_bound.Tracked("server", mysql_look.MYSQL, seen(0), mariadb=False)
    tracked._judge(seen(1, (5, 100, "x"), READS))
    memory = tracked.remember()
    assert memory is not None
    other = mysql_bound.Tracked("server", mysql_look.MYSQL, seen(1.5, (5, 100, "x")), mariadb=False)
    assert other._judge(seen(1.6, (5, 100, "x"))).oldest is None, "it has seen no beginning"
    other.recall(memory)
    assert other._judge(seen(2, (5, 100, "x"))).oldest == NOON


def test_samples_that_cannot_be_read_are_not_half_taken_in() -> None:
    tracked = mysql_bound.Tracked("server", mysql_look.MYSQL, seen(0), mariadb=False)
    before = tracked.remember()
    later = (NOON + timedelta(microseconds=1)).isoformat()
    with pytest.raises(ValueError, match="unpack"):
        tracked.recall({"server": "server", "sampled_at": later, "open": {"5": ["other"]}})
    assert tracked.remember() == before
