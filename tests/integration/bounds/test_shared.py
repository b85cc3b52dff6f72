"""Pollers of one process that share their samples, and processes that take turns, on real servers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from poller.databases import samplers
from poller.databases.samplers import ReadingConnection
from poller.sources.mysql import bound as mysql
from poller.sources.mysql import bound as mysql_bound
from poller.sources.mysql import look as mysql_look
from poller.sources.mysql import look as mysql_turn
from poller.sources.postgresql import bound as postgresql
from poller.sources.postgresql import bound as postgresql_bound
from tests.integration.bounds.tables import add, freshly, ids, make, session, source
from tests.support.mariadb import MariaDbServer
from tests.support.mysql_family import MySqlFamilyServer
from tests.support.postgres import PostgresServer
from tests.support.server import DatabaseServer
from tests.support.services import wait_until

ONLY_READS = {
    "postgres": "set default_transaction_read_only = on",
    "mariadb": "set session transaction read only",
}
LOOKS = {"postgres": "from pg_stat_activity\n where datid", "mariadb": "innodb_trx"}


@contextlib.contextmanager
def looks(words: str) -> Iterator[list[str]]:
    """The statements of every connection that look at what is open."""
    found: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        if words in statement and "_lock('" not in statement:
            found.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


@pytest.mark.guarantee(
    "Rows that commit late",
    "Many pollers of one server do not starve each other, and a sample is shared only where it is as safe as an own "
    "one",
)
@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_pollers_of_one_server_share_a_sample(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On MariaDB also those of other databases; never those of another kind of bound."""
    monkeypatch.setattr(samplers, "WINDOW", 3600.0)
    server: DatabaseServer = request.getfixturevalue(f"{name}_server")
    one, two = server.new_database(), server.new_database()
    try:
        for url in (one, two):
            make(url)
            add(url, 1)
        with source(one) as first, source(one) as second, source(two) as third, looks(LOOKS[name]) as seen:
            taken = first.bound()
            before = len(seen)
            assert before > 0
            shared = second.bound()
            assert (len(seen), shared.at) == (before, taken.at)
            elsewhere = third.bound()
            assert (elsewhere.at == taken.at) == (len(seen) == before) == (name == "mariadb")
            assert first.bound().clock != taken.clock, "who asks again at once gets news"
    finally:
        server.drop_database(one)
        server.drop_database(two)


@pytest.mark.parametrize(
    ("database", "bound"),
    [("postgres_db", "exact"), ("postgres_db", "observed"), ("postgres_db", "observed-strict"), ("mariadb_db", "auto")],
)
def test_a_reading_session_of_ours_holds_no_other_poller(
    database: str, bound: str, request: pytest.FixtureRequest
) -> None:
    """What another process holds open does, and a session that only has the number of one of ours."""
    url = request.getfixturevalue(database)
    begin = "begin" if database == "postgres_db" else "start transaction with consistent snapshot"
    make(url)
    with source(url, bound=bound) as ours, source(url, bound=bound) as reader:
        ours.bound()
        reader.bound()
        page = ours._session.database.connection()
        page.exec_driver_sql(begin)
        page.exec_driver_sql("select * from stamped")
        add(url, 1)
        assert ids(freshly(reader)) == [1]
        page.exec_driver_sql("commit")
        with session(url, begin, "select * from stamped") as other:
            add(url, 2)
            assert ids(freshly(reader)) == [1]
            if database == "postgres_db":
                pid = other.exec_driver_sql("select pg_backend_pid()").scalar_one()
                sessions = samplers.SHARED._sessions
                (server,) = sessions
                sessions[server] = (*sessions[server], f"{pid}@20200101000000000000")
                assert ids(freshly(reader)) == [1]


def test_behind_a_pooler_nothing_is_shared(postgres_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the driver holds another number for the session than the server: the next statement may go elsewhere."""
    monkeypatch.setattr(samplers, "WINDOW", 3600.0)
    monkeypatch.setattr(postgresql_bound, "session_of", lambda _: 1)
    make(postgres_db)
    before = set(samplers.SHARED._lines)
    with source(postgres_db) as one, source(postgres_db) as other:
        add(postgres_db, 1)
        assert ids(one) == [1]
        add(postgres_db, 2)
        assert ids(other) == [1, 2]
        assert set(samplers.SHARED._lines) <= before


@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_a_restarted_server_is_another_than_before(name: str, request: pytest.FixtureRequest) -> None:
    """Session numbers begin anew with it, so that ours of before may be a writer's now."""
    server: PostgresServer | MariaDbServer = request.getfixturevalue(f"{name}_server")

    def reading(connection: sa.Connection) -> ReadingConnection | None:
        return (postgresql.here(connection) if name == "postgres" else mysql.here(connection, mariadb=True))[0]

    only_reads = ONLY_READS[name]
    with (
        session(server.url, only_reads) as one,
        session(server.url, only_reads) as other,
        session(server.url) as writer,
    ):
        first, second = reading(one), reading(other)
        assert reading(writer) is None, "a session that could write is left out of no sample"
    assert first is not None
    assert second is not None
    assert (first.server, first.user) == (second.server, second.user)
    assert first.session != second.session
    started = (
        "select to_char(pg_postmaster_start_time() at time zone 'UTC', 'YYYYMMDDHH24MISSUS')"
        if name == "postgres"
        else "select cast(unix_timestamp() - variable_value as signed) from information_schema.global_status"
        " where variable_name = 'uptime'"
    )
    with session(server.url) as connection:
        assert first.server.endswith(f"/{connection.exec_driver_sql(started).scalar_one()}")


def test_while_another_process_looks_nobody_else_does(family_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound stays for a moment, and is as old as it is; nothing is tried over and over. One that looks for longer
    than anybody waits hangs, and is passed by."""
    monkeypatch.setattr(mysql_turn, "WAIT", 0)
    monkeypatch.setattr(mysql_bound, "SHOWS_HOLDER_AFTER", 0.0)
    make(family_db)
    with source(family_db) as reader, session(family_db) as writer:
        add(family_db, 1)
        assert ids(freshly(reader)) == [1]
        before = reader.bound()
        with session(family_db, mysql_turn.lock(mysql_turn.NAME, 0)), looks("innodb_trx") as seen:
            writer.exec_driver_sql("insert into stamped (id) values (2)")
            kept = before
            while "other pollers" not in str(kept.held_by):
                kept = reader.bound()
            assert seen == []
            assert kept.at == before.at
            assert (kept.age_seconds or 0) > (before.age_seconds or 0)
            wait_until(lambda: ids(reader) == [1, 2], "the others go on")
            assert seen
        assert ids(freshly(reader)) == [1, 2]


def test_who_passes_by_one_that_hangs_takes_turns_too(mariadb_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And another that hangs meanwhile is passed by as well; once nobody does, all take turns by the first lock."""
    monkeypatch.setattr(mysql_turn, "WAIT", 0)
    name, missed, turns = mysql_turn.NAME, mysql_turn.Turn.MISSED, mysql_turn.TrackerTurns()
    number = "select connection_id()"
    with session(mariadb_db) as first, session(mariadb_db) as second, session(mariadb_db) as us:

        def asks() -> mysql_turn.Turn:
            with turns.turn(us) as got:
                held.extend(
                    one for one in names if us.exec_driver_sql(f"select is_used_lock('{one}')").scalar() == ours
                )
            return got

        ours = us.exec_driver_sql(number).scalar_one()
        names = [name, *(f"{name}/{one.exec_driver_sql(number).scalar_one()}" for one in (first, second))]
        held: list[str] = []
        first.exec_driver_sql(mysql_turn.lock(name, 0))
        assert asks() is missed
        assert (asks(), held) == (mysql_turn.Turn.AT_ONCE, [names[1]])
        second.exec_driver_sql(mysql_turn.lock(names[1], 0))
        assert asks() is missed
        assert (asks(), held[1:]) == (mysql_turn.Turn.AT_ONCE, [names[2]])
        first.exec_driver_sql(f"select release_lock('{name}')")
        assert (asks(), held[2:]) == (mysql_turn.Turn.AT_ONCE, [name])


def test_a_turn_ends_with_its_look_however_that_ends(mariadb_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make(mariadb_db)
    free = f"select is_free_lock('{mysql_turn.NAME}')"

    def breaks(*_: object) -> None:
        raise KeyboardInterrupt

    with source(mariadb_db) as reader, session(mariadb_db, "select 1") as other:
        freshly(reader)
        assert other.exec_driver_sql(free).scalar_one() == 1
        monkeypatch.setattr(mysql_bound, "look", breaks)
        with pytest.raises(KeyboardInterrupt):
            wait_until(lambda: bool(other.exec_driver_sql("select 1").scalar() and reader.bound() is None), "a look")
        assert other.exec_driver_sql(free).scalar_one() == 1


def test_who_waits_for_a_turn_holds_nobodys_bound(
    family_server: MySqlFamilyServer,
) -> None:
    """It runs a statement, and that writes nothing; any other statement that waits holds."""
    waiting = mysql_turn.lock(f"{mysql_turn.NAME}/7", 60)
    url = family_server.url
    numbers: list[int] = []
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(session(url, mysql_turn.lock(f"{mysql_turn.NAME}/7", 0)))
        for statement in (waiting, f"{waiting} + 0"):
            other = stack.enter_context(session(url))
            numbers.append(other.exec_driver_sql("select connection_id()").scalar_one())
            thread = threading.Thread(target=_until_killed, args=(other, statement))
            thread.start()
            stack.callback(thread.join)
            stack.callback(first.exec_driver_sql, f"kill query {numbers[-1]}")
        both = "select count(*) from information_schema.processlist where info like 'select get_lock%%60%%'"
        wait_until(lambda: first.exec_driver_sql(both).scalar_one() == 2, "both wait")
        found = mysql_look.look(first, mysql_look.sessions_statement(first, mariadb=family_server.is_mariadb))
    assert numbers[0] not in found.running
    assert numbers[1] in found.running


def _until_killed(connection: sa.Connection, statement: str) -> None:
    with contextlib.suppress(sa.exc.DBAPIError):
        connection.exec_driver_sql(statement)


def test_a_server_without_named_locks_is_looked_at_all_the_same(
    mariadb_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql_turn, "lock", lambda *_: "select no_such_function('x')")
    make(mariadb_db)
    add(mariadb_db, 1)
    with source(mariadb_db) as reader, looks("innodb_trx") as seen:
        assert ids(freshly(reader)) == [1]
        assert seen


def test_a_connection_that_may_not_look_shares_no_sample(mariadb_db: str, mariadb_server: MariaDbServer) -> None:
    """PROCESS was revoked since another connection of the same user opened, which keeps it: this one would take a
    server whose sessions it cannot see for one at rest."""
    make(mariadb_db)
    add(mariadb_db, 1)
    name = sa.make_url(mariadb_db).database
    with session(mariadb_server.url) as root:
        root.exec_driver_sql("create or replace user 'watcher'@'%%' identified by 'x'")
        root.exec_driver_sql(f"grant select on {name}.* to 'watcher'@'%%'")
        root.exec_driver_sql("grant process on *.* to 'watcher'@'%%'")
        url = sa.make_url(mariadb_db).set(username="watcher", password="x").render_as_string(hide_password=False)
        try:
            with source(url) as before, source(url) as after:
                assert before.bound().kind == "observed"
                root.exec_driver_sql("revoke process on *.* from 'watcher'@'%%'")
                before._session.database.connection()  # the pool has another one for the other source
                guess = after.bound()
                assert (guess.kind, "lacks PROCESS" in str(guess.reason)) == ("heuristic", True)
                assert freshly(before).bound().kind == "observed"
        finally:
            root.exec_driver_sql("drop user 'watcher'@'%%'")


def test_servers_at_two_addresses_share_nothing(mariadb_server: MariaDbServer) -> None:
    """Two in containers may have one host name, one port and one number, and have started in the same second."""
    found = set()
    url = sa.make_url(mariadb_server.url)
    for host in ("127.0.0.1", "localhost"):
        with session(url.set(host=host).render_as_string(hide_password=False), ONLY_READS["mariadb"]) as connection:
            reading, _ = mysql.here(connection, mariadb=True)
            assert reading is not None
            found.add(reading.server)
    assert len(found) == 2
