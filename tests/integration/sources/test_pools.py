"""Sources of one database and user share a few connections, and read as if each had one of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from poller import Batch, Poller
from poller.databases import samplers
from poller.errors import ConfigError, SourceUnavailable
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.sources.tables import closing, drain, execute, family, make_orders, orders
from tests.support.services import wait_until

NINE = [f"2026-01-01 00:00:{second:02}" for second in range(9)]
SESSIONS = {
    "postgresql": "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
    "mysql": "select id from information_schema.processlist where db = database() and id <> connection_id()",
}
ENDS = {"postgresql": "select pg_terminate_backend({})", "mysql": "kill {}"}
NUMBER = {"postgresql": "select pg_backend_pid()", "mysql": "select connection_id()"}
SLEEPS = {
    "postgresql": "(select true from pg_sleep({}))",
    "mysql": "(select sleep({}) is not null)",
}


@pytest.fixture(params=["postgres_db", "mariadb_db"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    make_orders(found, NINE)
    return found


def sessions(url: str) -> list[int]:
    """The server's numbers of the sessions in this database, but for the one that asks."""
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        return list(connection.exec_driver_sql(SESSIONS[family(url)]).scalars())


def end(url: str) -> None:
    """End all sessions in this database, as an operator or a server does."""
    for number in sessions(url):
        with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
            connection.exec_driver_sql(ENDS[family(url)].format(number))
    wait_until(lambda: not sessions(url), "the end of all sessions")


def session_of(source: SqlSource) -> int:
    """The server's number of the session that a source reads on."""
    number = source._guard(lambda: source._session.database.run(NUMBER[family(str(url_of(source)))]).rows[0][0])
    return int(number)


def url_of(source: SqlSource) -> sa.URL:
    return source._session.database.engine.url


def slowly(url: str, seconds: float, **options: Any) -> SqlSource:
    """A source each of whose pages takes so long."""
    name = family(url)
    query = f"select o.*, s.s from orders o join (select {SLEEPS[name].format(seconds)} s) s on 1 = 1"
    return orders(url, table=None, query=query, **options)


@contextmanager
def using(source: SqlSource) -> Iterator[None]:
    """Another thread uses the source's connection meanwhile, as a page does that takes long."""
    begun, over = threading.Event(), threading.Event()

    def work() -> None:
        source._session.database.connection()
        begun.set()
        over.wait(30)

    thread = threading.Thread(target=lambda: source._guard(work))
    thread.start()
    begun.wait(30)
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_sources_that_take_turns_need_one_connection(url: str) -> None:
    with ExitStack() as stack:
        made = [stack.enter_context(closing(orders(url))) for _ in range(10)]
        assert {len(drain(one, 4)) for one in made} == {9}
        assert len({session_of(one) for one in made}) == 1
        assert len(sessions(url)) == 1
    wait_until(lambda: not sessions(url), "the last source closes what rests")


def test_two_threads_read_at_once_on_two_connections(url: str) -> None:
    with closing(orders(url)) as one, closing(orders(url)) as other:
        with using(one):
            assert len(drain(other, 4)) == 9
            assert len(sessions(url)) == 2
        assert len(drain(one, 4)) == 9


def test_the_first_to_wait_for_a_connection_gets_it_first(url: str) -> None:
    served: list[int] = []
    with ExitStack() as stack:
        first, *others = (stack.enter_context(closing(orders(url, connections=1))) for _ in range(5))
        pool: Any = first._session.database.pool

        def read(at: int) -> None:
            others[at].bound()
            served.append(at)

        with ThreadPoolExecutor() as threads, using(first):
            for at in range(4):
                threads.submit(read, at)
                wait_until(lambda: len(pool.server.waiting) == len(threads._threads), "its turn")
    assert served == [0, 1, 2, 3]


def test_who_waits_too_long_is_told_what_to_raise(url: str) -> None:
    with (
        closing(orders(url, connections=1)) as one,
        closing(orders(url, connections=1, query_timeout="100ms")) as other,
    ):
        with using(one), pytest.raises(SourceUnavailable, match=r"All 1 connections .*127\.0\.0\.1") as refused:
            other.page(None, 4)
        assert "Raise `connections`" in refused.value.next_step
        assert len(drain(other, 4)) == 9


def test_of_several_numbers_the_highest_counts(url: str) -> None:
    with closing(orders(url, connections=1)) as one, closing(orders(url, connections=2)) as other, using(one):
        assert len(drain(other, 4)) == 9


def test_a_kept_connection_is_another_ones_who_needs_it(url: str) -> None:
    """After a full page it stays with the source, whose next page then takes a bound of its own."""
    with closing(orders(url, connections=1)) as one, closing(orders(url, connections=1)) as other:
        first = one.page(None, 4)
        assert one._session.database.is_open
        number = session_of(other)
        second = one.next_page(first.cursors[-1], 4)
        assert [row["id"] for row in second.rows] == [5, 6, 7, 8]
        assert session_of(one) == number
        assert len(sessions(url)) == 1


def test_after_a_page_that_is_not_full_none_is_held(url: str) -> None:
    with closing(orders(url)) as one:
        one.page(None, 20)
        assert not one._session.database.is_open


def test_a_handler_that_takes_long_holds_no_connection(url: str) -> None:
    """Whether there are more rows behind its batch or not."""
    read: list[int] = []
    with closing(orders(url, connections=1)) as other:

        def handle(_: Batch) -> None:
            read.append(len(drain(other, 20)))

        source = orders(url, connections=1)
        with Poller("orders", source=source, store=MemoryStore(), app_name="shop", batch_size=4) as poller:
            assert poller.tick(handle).rows == 9
    assert read == [9, 9, 9]


def test_sessions_that_ended_at_rest_fail_no_page(url: str) -> None:
    with ExitStack() as stack:
        made = [stack.enter_context(closing(orders(url))) for _ in range(3)]
        with using(made[0]), using(made[1]):
            made[2].page(None, 4)
        kept = made[2].page(None, 4)
        assert len(sessions(url)) == 3
        end(url)
        assert [row["id"] for row in made[2].next_page(kept.cursors[-1], 9).rows] == [5, 6, 7, 8, 9]
        for one in made:
            assert len(drain(one, 4)) == 9


def test_a_query_timeout_is_that_of_its_own_source(url: str) -> None:
    with (
        closing(slowly(url, 0.12, connections=1, query_timeout="60ms")) as hasty,
        closing(slowly(url, 0.12, connections=1)) as patient,
    ):
        for _ in range(2):
            with pytest.raises(SourceUnavailable, match="60ms"):
                hasty.page(None, 20)
            assert len(patient.page(None, 20).rows) == 9


def test_a_driver_waits_as_long_as_the_borrowers_query_may_take(mariadb_db: str) -> None:
    """Also in a session that was opened for it, by an engine that was made for another source."""
    make_orders(mariadb_db, NINE)
    with closing(orders(mariadb_db, query_timeout="2s")) as one, closing(orders(mariadb_db, query_timeout="9s")) as two:
        with using(one):
            two._session.database.connection()
            assert two._session.database.driver_connection()._read_timeout == 14
        two.page(None, 20)
        one._session.database.connection()
        assert one._session.database.driver_connection()._read_timeout == 7
        one.page(None, 20)


def test_a_page_that_hangs_leaves_the_others_their_turn(url: str) -> None:
    """One of two connections for as long as its own timeout lasts."""
    with (
        closing(slowly(url, 20, connections=2, query_timeout="500ms")) as hangs,
        closing(orders(url, connections=2)) as one,
        closing(orders(url, connections=2)) as other,
        ThreadPoolExecutor() as threads,
    ):
        hung = threads.submit(hangs.page, None, 20)
        while not hung.done():
            assert len(one.page(None, 20).rows) == len(other.page(None, 20).rows) == 9
        with pytest.raises(SourceUnavailable):
            hung.result()


def test_a_source_that_is_closed_while_it_reads_reads_on(url: str) -> None:
    """Nobody else gets its session, on which an answer is on its way."""
    with closing(slowly(url, 0.2, connections=1)) as slow, closing(orders(url, connections=1)) as other:
        with ThreadPoolExecutor() as threads:
            reading = threads.submit(slow.page, None, 20)
            wait_until(lambda: slow._session.database.is_open, "its connection")
            slow.close()
            assert len(drain(other, 4)) == 9
            assert len(reading.result().rows) == 9
        other.close()
        wait_until(lambda: not sessions(url), "what rests is closed")
        assert len(slow.page(None, 20).rows) == 9


def test_a_session_left_in_a_transaction_is_not_used_again(url: str) -> None:
    """An old snapshot would hide rows."""
    begin = "begin" if family(url) == "postgresql" else "start transaction with consistent snapshot"
    with closing(orders(url, connections=1)) as one, closing(orders(url, connections=1)) as other:
        number = session_of(other)

        def fails() -> None:
            one._session.database.connection().exec_driver_sql(begin)
            raise ConfigError("no", key="no")

        with pytest.raises(ConfigError):
            one._guard(fails)
        assert session_of(other) != number


def test_json_comes_as_each_source_has_it(postgres_db: str) -> None:
    execute(
        postgres_db,
        "create table orders (id integer primary key, updated_at timestamptz not null, d jsonb)",
        "insert into orders values (1, '2026-01-01', '{\"a\"\\: 1}')",
    )
    with closing(orders(postgres_db)) as parsed, closing(orders(postgres_db, json="text")) as text:
        for _ in range(2):
            assert parsed.page(None, 4).rows[0]["d"] == {"a": 1}
            assert text.page(None, 4).rows[0]["d"] == '{"a": 1}'
        assert session_of(parsed) == session_of(text)


def test_where_a_name_means_another_table_all_is_asked_anew(postgres_db: str) -> None:
    """A session that opened later has another search path: types, key and fingerprint are then another table's."""
    execute(
        postgres_db,
        "create schema one",
        "create schema two",
        "create table one.orders (id integer primary key, updated_at timestamptz not null)",
        "create table two.orders (id text primary key, updated_at timestamp(3) not null)",
        "insert into one.orders values (1, '2026-01-01')",
        "insert into two.orders values ('x', '2026-01-01')",
        f'alter database "{sa.make_url(postgres_db).database}" set search_path = one',
    )
    with closing(orders(postgres_db)) as source, closing(orders(postgres_db)) as other:
        assert source.page(None, 4).rows[0]["id"] == 1
        before = source.describe().fingerprint()
        execute(postgres_db, f'alter database "{sa.make_url(postgres_db).database}" set search_path = two')
        with using(other):
            page = source.page(None, 4)
        assert (page.rows[0]["id"], page.cursors[0].value) == ("x", "2026-01-01T00:00:00.000000")
        assert source.describe().fingerprint() != before


def test_sessions_at_rest_are_known_as_reading_ones(url: str) -> None:
    """For as long as they are open; whose sources have left them does not matter."""
    make = samplers.Samplers()
    ours, samplers.SHARED = samplers.SHARED, make
    try:
        with closing(orders(url, bound="auto")) as one, closing(orders(url, bound="auto")) as other:
            with using(one):
                other.page(None, 20)
            known = [int(name.partition("@")[0]) for names in make._sessions.values() for name in names]
            assert sorted(known) == sorted(sessions(url))
            assert len(known) == 2
            end(url)
            other.page(None, 20)
            known = [int(name.partition("@")[0]) for names in make._sessions.values() for name in names]
            assert set(sessions(url)) <= set(known)
        assert make._sessions == {}
    finally:
        samplers.SHARED = ours


def test_idle_looks_of_two_sources_ask_no_more_than_of_one(url: str) -> None:
    asked: list[str] = []
    sa.event.listen(sa.Engine, "before_cursor_execute", note := lambda *call: asked.append(call[2]))
    try:
        counts = []
        for number in (1, 2):
            with ExitStack() as stack:
                made = [stack.enter_context(closing(orders(url, bound="delay"))) for _ in range(number)]
                cursors = [one.page(None, 20).cursors[-1] for one in made]
                for _ in range(2):
                    asked.clear()
                    for one, after in zip(made, cursors, strict=True):
                        page = one.page(after, 20, lag_cap=5)
                        assert list(page.rows) == []
                        assert (page.lag or one.lag(after, cap=5)).pending == 0
                counts.append(len(asked) / number)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    assert counts[0] == counts[1] <= 3


def test_a_source_that_was_forgotten_leaves_its_pool(url: str) -> None:
    source = orders(url)
    source.page(None, 20)
    assert len(sessions(url)) == 1
    del source
    wait_until(lambda: not sessions(url), "what rests is closed")


def test_looks_of_sources_that_come_and_go_share_a_connection(url: str) -> None:
    """As those of `poller health`, one for each look and poller."""
    with closing(orders(url)) as source:
        numbers = set()
        for _ in range(3):
            with closing(source.another()) as other:
                numbers.add(session_of(other))
        assert len(numbers) == len(sessions(url)) == 1
    wait_until(lambda: not sessions(url), "what rests is closed")


def test_a_url_that_says_more_has_a_pool_of_its_own(postgres_db: str) -> None:
    """The same server by another name of it, in other letters, with its port or without, is one."""

    kept: list[object] = []

    def pool(url: sa.URL) -> object:
        kept.append(orders(url)._session.database.pool)
        return kept[-1]

    url = sa.make_url(postgres_db)._replace(host="db.example", port=None)
    assert pool(url) is pool(url.set(host="DB.example", port=5432)) is pool(url.set(drivername="postgresql"))
    others = [
        url.set(username="other"),
        url.set(password="other"),
        url.set(database="other"),
        url.set(port=6432),
        url.update_query_dict({"application_name": "other"}),
    ]
    assert len({id(pool(one)) for one in [url, *others]}) == 6


def test_sqlite_and_given_engines_have_no_pool(sqlite_url: str) -> None:
    make_orders(sqlite_url, NINE)
    engine = sa.create_engine(sqlite_url)
    for one in (orders(sqlite_url), orders(engine)):
        one.page(None, 20)
        assert one._session.database.pool is None
        assert one._session.database.is_open
        one.close()


def test_how_many_connections_is_a_number_from_1(sqlite_url: str) -> None:
    with pytest.raises(ConfigError, match="`connections`"):
        orders(sqlite_url, connections=0)


FORKING = """
import os, sys
from poller.sources import SqlSource

def made():
    return SqlSource(sys.argv[1], table="orders", cursor_column="updated_at", cursor_time_zone="UTC",
                     pk_columns=["id"], bound="none", connections=1)

rests, keeps = made(), made()
rests.page(None, 20)
first = keeps.page(None, 4)
child = os.fork()
found = [len(rests.page(None, 20).rows), len(keeps.next_page(first.cursors[-1], 20).rows)]
number = rests._guard(lambda: rests._session.database.run(sys.argv[2]).rows[0][0])
print(*found, number, flush=True)
if child == 0:
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
print(len(rests.page(None, 20).rows), len(keeps.page(None, 20).rows), number)
rests.close()
keeps.close()
"""


def test_a_forked_child_has_connections_of_its_own(url: str) -> None:
    made = [sys.executable, "-c", FORKING, url, NUMBER[family(url)]]
    ended = subprocess.run(made, capture_output=True, text=True, timeout=60)
    assert ended.stderr == ""
    *early, last = (line.split() for line in ended.stdout.splitlines())
    assert {tuple(line[:2]) for line in early} == {("9", "5")}
    assert last[:2] == ["9", "9"]
    assert len({line[2] for line in early}) == 2
