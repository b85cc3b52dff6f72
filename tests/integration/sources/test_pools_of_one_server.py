"""A database per tenant: the pools of one server share what it takes, and each of its databases is read."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from poller import SourceUnavailable, load_app
from poller.databases import pools
from poller.sources import SqlSource
from tests.integration.sources.tables import drain, orders
from tests.integration.sources.tenants import MOST, Tenants
from tests.support.azurite import Azurite
from tests.support.postgres import PostgresServer
from tests.support.services import wait_until


def sources(stack: ExitStack, tenants: Tenants, **options: Any) -> list[SqlSource]:
    made = [tenants.source(at, **options) for at in range(len(tenants.urls))]
    for one in made:
        stack.callback(one.close)
    return made


@pytest.mark.guarantee(
    "Rows that commit late",
    "A server with more databases than it takes connections is read all the same, and others still get in",
)
def test_more_databases_than_connections_are_all_read(tenants: Tenants, stack: ExitStack) -> None:
    """And leave half of them to others."""
    made = sources(stack, tenants)
    for _ in range(3):
        assert [len(drain(one, 4)) for one in made] == [9] * 12
        assert len(tenants.sessions()) <= MOST // 2


def test_twelve_databases_at_once_wait_for_each_other(tenants: Tenants, stack: ExitStack) -> None:
    slow = "select o.* from orders o join (select true s from pg_sleep(0.2)) s on s.s"
    made = sources(stack, tenants, table=None, query=slow, bound="none")
    with ThreadPoolExecutor(12) as threads:
        read = list(threads.map(lambda one: len(one.page(None, 20).rows), made))
    assert read == [9] * 12
    assert len(tenants.sessions()) <= MOST // 2


def test_a_server_is_asked_before_it_is_full(tenants: Tenants, stack: ExitStack) -> None:
    """All databases at once, of a process that has just started: nobody is refused, and others get in."""
    refused: list[str] = []

    def note(context: sa.ExceptionContext) -> None:
        refused.append(str(context.original_exception))

    sa.event.listen(sa.Engine, "handle_error", note)
    stack.callback(sa.event.remove, sa.Engine, "handle_error", note)
    made = sources(stack, tenants, bound="none")
    begins = threading.Barrier(12)

    def read(one: SqlSource) -> int:
        begins.wait()
        return len(one.page(None, 20).rows)

    with ExitStack() as others, ThreadPoolExecutor(12) as threads:
        url = sa.make_url(tenants.urls[0])
        for _ in range(MOST - 5):
            others.enter_context(
                psycopg.connect(host=url.host, port=url.port, user=tenants.user, password="x", dbname=url.database)
            )
        assert list(threads.map(read, made)) == [9] * 12
    assert refused == []


def test_what_a_source_keeps_is_closed_for_another_database(tenants: Tenants, stack: ExitStack) -> None:
    """After full pages, which leave a connection with each source until others need it."""
    made = sources(stack, tenants, bound="none")
    first = [one.page(None, 4) for one in made]
    assert len(tenants.sessions()) <= MOST // 2
    rest = [len(one.next_page(page.cursors[-1], 9).rows) for one, page in zip(made, first, strict=True)]
    assert rest == [5] * 12


def test_who_finds_no_room_on_the_server_is_told_what_to_raise(tenants: Tenants, stack: ExitStack) -> None:
    made = sources(stack, tenants, bound="none", query_timeout="200ms")
    with ExitStack() as using:
        for one in made[: MOST // 2]:
            using.enter_context(one._session.database.lasting())
            one.page(None, 4)
        with pytest.raises(SourceUnavailable, match=rf"All {MOST // 2} connections .* server of") as refused:
            made[-1].page(None, 4)
        assert "max_connections" in refused.value.next_step
    assert len(made[-1].page(None, 20).rows) == 9


def test_what_others_take_is_found_out_by_refusals(tenants: Tenants, stack: ExitStack) -> None:
    """They came after the server was asked: one that rests makes room."""
    made = sources(stack, tenants, bound="none")
    for one in made[:3]:
        one.page(None, 20)
    url = sa.make_url(tenants.urls[0])
    with ExitStack() as others:
        for _ in range(MOST - 3):
            others.enter_context(
                psycopg.connect(host=url.host, port=url.port, user=tenants.user, password="x", dbname=url.database)
            )
        assert [len(one.page(None, 20).rows) for one in made] == [9] * 12
        assert len(tenants.sessions()) <= MOST


def test_a_users_own_limit_is_kept_over_all_databases(limited: Tenants, stack: ExitStack) -> None:
    made = sources(stack, limited)
    for _ in range(2):
        assert [len(drain(one, 4)) for one in made] == [9] * 3
        assert len(limited.sessions()) <= 2


def test_a_server_that_comes_back_with_less_is_asked_again(limited: Tenants, stack: ExitStack) -> None:
    limited.limit(20)
    made = sources(stack, limited)
    assert [len(drain(one, 4)) for one in made] == [9] * 3
    assert len(limited.sessions()) == 3
    limited.limit(1)
    limited.end()
    for _ in range(2):
        assert [len(drain(one, 4)) for one in made] == [9] * 3
        assert len(limited.sessions()) == 1


def test_a_limit_that_was_raised_is_seen_in_time(
    limited: Tenants, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sources(stack, limited)
    assert [len(drain(one, 4)) for one in made] == [9] * 3
    assert len(limited.sessions()) <= 2
    limited.limit(20)
    monkeypatch.setattr(pools, "ASKED_FOR", 0.0)
    assert [len(drain(one, 4)) for one in [*made, *made]] == [9] * 6
    assert len(limited.sessions()) == 3


def test_a_password_that_is_changed_takes_over_from_the_old(limited: Tenants, stack: ExitStack) -> None:
    """The pools of the old one close what rests there for those of the new one."""
    old = sources(stack, limited)
    assert [len(drain(one, 4)) for one in old] == [9] * 3
    change = {"postgresql": "alter user {} password 'y'", "mysql": "set password for {} = password('y')"}
    limited.do(change[limited.family].format(limited.user))
    for url in limited.urls:
        new = orders(sa.make_url(url).set(username=limited.user, password="y"), bound="auto")
        stack.callback(new.close)
        assert len(drain(new, 4)) == 9
    assert len(limited.sessions()) <= 2


@pytest.mark.parametrize("waits", [60.0, 0.05], ids=["in its turn", "not for ever"])
def test_a_source_that_needs_two_connections_is_not_passed_over(
    waits: float, postgres_server: PostgresServer, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its format is Arrow. Others that come later take no place from it; if none becomes free for long, they do."""
    monkeypatch.setattr(pools, "FIRST_FOR", waits)
    tenants = Tenants(postgres_server, 4, limit=2)
    stack.callback(tenants.drop)
    slow = "select o.* from orders o join (select true s from pg_sleep(0.2)) s on s.s"
    plain = [tenants.source(at, bound="none") for at in (0, 1)]
    arrow = tenants.source(2, bound="none", format="arrow")
    late = tenants.source(3, bound="none", table=None, query=slow)
    read: list[SqlSource] = []

    def read_all(source: SqlSource) -> None:
        with source._session.database.lasting():
            assert len(source.page(None, 20).rows) == 9
            read.append(source)

    for one in (*plain, arrow, late):
        stack.callback(one.close)
    pool = plain[0]._session.database.pool
    assert pool is not None
    threads = stack.enter_context(ThreadPoolExecutor(2))
    with ExitStack() as second:
        second.enter_context(plain[0]._session.database.lasting())
        plain[0].page(None, 4)
        with ExitStack() as first:
            first.enter_context(plain[1]._session.database.lasting())
            plain[1].page(None, 4)
            ends = [threads.submit(read_all, arrow)]
            wait_until(lambda: len(pool.server.waiting) == 1, "the first in line")
            ends.append(threads.submit(read_all, late))
            wait_until(lambda: len(pool.server.waiting) == 2, "the second in line")
        if waits < 1:
            wait_until(lambda: read == [late], "a place for the second")
        assert arrow not in read
    for end in ends:
        end.result(60)
    assert read == ([arrow, late] if waits > 1 else [late, arrow])


def test_check_counts_all_databases_of_the_server(limited: Tenants, stack: ExitStack) -> None:
    made = sources(stack, limited)
    found = {one.check: one for one in made[0].checkup(None, lambda: datetime.now(UTC)).findings}["connections"]
    assert found.severity == "warn"
    assert "3 databases of this server" in found.message
    assert "it takes 2 of this user; a process has at most 1 of them at once" in found.message
    limited.limit(100)
    made[0].close()
    found = {one.check: one for one in made[0].checkup(None, lambda: datetime.now(UTC)).findings}["connections"]
    assert (found.severity, "12 to 3 databases" in found.message) == ("ok", True), found.message
    assert "8 processes fit" in found.message


def test_a_user_per_database_shares_the_servers_connections(tenants: Tenants, stack: ExitStack) -> None:
    made = [orders(url, bound="auto") for url in tenants.urls[:2]]
    made += [tenants.source(at) for at in (2, 3)]
    for one in made:
        stack.callback(one.close)
    found = {one.check: one for one in made[3].checkup(None, lambda: datetime.now(UTC)).findings}["connections"]
    assert f"16 to 4 databases of this server, and it takes {MOST};" in found.message


def test_a_check_of_one_poller_counts_all_that_are_configured(
    tenants: Tenants, tmp_path: Path, azurite: Azurite, container: str
) -> None:
    lines = ['app_name = "many"', f'state = {{ container = "{container}", connection = "STORE" }}']
    lines += ['functions.mode = "queue"', "[templates.all.source]"]
    lines += ['table = "orders"', 'cursor_column = "updated_at"', 'pk_columns = ["id"]']
    for at, url in enumerate(tenants.urls):
        lines += [f"[pollers.t{at}]", 'template = "all"', f'source.url = "{url}"']
    path = tmp_path / "poller.toml"
    path.write_text("\n".join(lines))
    with load_app(path, {"STORE": azurite.connection_string}, observers=()) as app:
        (checked,) = app.check("t3")
    found = {one.check: one for one in checked.findings}["connections"]
    assert "at most 60 to 12 databases of this server" in found.message


def test_a_users_limit_that_others_use_up_is_an_outage(limited: Tenants, stack: ExitStack) -> None:
    """No wrong login, and no wrong query."""
    source = limited.source(0, bound="none", query_timeout="200ms")
    stack.callback(source.close)
    url = sa.make_url(limited.urls[1]).set(username=limited.user, password="x")
    for _ in range(2):
        stack.enter_context(sa.create_engine(url, poolclass=sa.NullPool).connect())
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        source.page(None, 20)
