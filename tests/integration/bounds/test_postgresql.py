"""PostgreSQL: what holds the bound, who is named, what is refused, and what only a guess is left for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from poller.errors import SourceError
from poller.sources import sampler as followed
from poller.sources.current_bound import choose
from poller.sources.database import dialect_for
from poller.sources.postgresql import bound as postgresql_bound
from tests.integration.bounds.pretended import Process, asked
from tests.integration.bounds.tables import add, another_process, ids, make, session, source
from tests.integration.sources.tables import execute
from tests.support.cases import each
from tests.support.postgres import PostgresServer
from tests.support.services import wait_until

BOUNDS = ["exact", "observed", "observed-strict"]
FAR = "2099-01-01T00:00:00.000000Z"


@pytest.fixture
def plain_user(postgres_db: str) -> Iterator[str]:
    """The URL of a role that may read the table and sees nobody else's activity."""
    make(postgres_db)
    name = "plain_" + str(sa.make_url(postgres_db).database)[-12:]
    execute(postgres_db, f"create role {name} login", f"grant select on stamped to {name}")
    yield sa.make_url(postgres_db).set(username=name).render_as_string(hide_password=False)
    execute(postgres_db, f"drop owned by {name}", f"drop role {name}")


@each("bound", BOUNDS)
def test_a_transaction_that_has_only_begun_holds_too(postgres_db: str, bound: str) -> None:
    """It has no transaction id yet, but its now() is taken."""
    make(postgres_db)
    with (
        source(postgres_db, bound=bound) as reader,
        session(postgres_db) as writer,
    ):
        assert ids(reader) == []
        writer.exec_driver_sql("begin")
        writer.exec_driver_sql("select now()")
        add(postgres_db, 1)
        assert ids(reader) == []
        writer.exec_driver_sql("insert into stamped values (2, now())")
        writer.exec_driver_sql("commit")
        assert ids(reader) == [2, 1]


@pytest.mark.guarantee(
    "Rows that commit late",
    "A column whose type is changed is never read as its old type, before the first page neither",
)
@each("read", [{}, {"table": "seen"}, {"table": None, "query": "select * from stamped"}])
def test_a_type_changed_before_the_first_page_passes_no_row(postgres_db: str, read: dict[str, Any]) -> None:
    """While the bound is not known no page is read; the old type's bound, compared in the session's zone, is hours
    ahead."""
    view = "create view seen as select * from stamped"
    make(postgres_db, "id bigint primary key, updated_at timestamp not null default (now() at time zone 'UTC')")
    execute(postgres_db, view, f"alter database {sa.make_url(postgres_db).database} set timezone = 'America/New_York'")
    add(postgres_db, 1)
    with source(postgres_db, bound="observed", **read) as reader:
        with session(postgres_db, "begin", "select 1"):
            assert reader.page(None, 10).bound.value is None
        execute(
            postgres_db,
            "drop view seen",
            "alter table stamped alter updated_at drop default",
            "alter table stamped alter updated_at type timestamptz using updated_at at time zone 'UTC'",
            "alter table stamped alter updated_at set default now()",
            view,
        )
        wait_until(lambda: ids(reader) == [1], "the first page")
        with session(postgres_db, "begin", "insert into stamped (id) values (2)") as writer:
            add(postgres_db, 3)
            assert ids(reader) == [1]
            assert ids(reader) == [1]
            writer.exec_driver_sql("commit")
        wait_until(lambda: ids(reader) == [1, 2, 3], "the rest")


def test_a_long_open_transaction_is_not_looked_at_again_and_again(postgres_db: str) -> None:
    """Two looks show that it stays; with 150 sessions each costs half a millisecond."""
    make(postgres_db)
    looks: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        if "pg_locks" in statement:
            looks.append(statement)

    with source(postgres_db, bound="observed") as reader:
        assert ids(reader) == []
        with session(postgres_db, "begin", "select pg_sleep(0.05)"):
            assert ids(reader) == []
            sa.event.listen(sa.Engine, "before_cursor_execute", note)
            try:
                assert reader.bound().value is not None
            finally:
                sa.event.remove(sa.Engine, "before_cursor_execute", note)
    assert len(looks) == 2


@pytest.mark.guarantee("Rows that commit late", "If a bound cannot be known it holds, and says what holds it")
@each("bound", BOUNDS)
def test_a_prepared_transaction_holds_and_is_named_with_its_end(postgres_db: str, bound: str) -> None:
    make(postgres_db)
    add(postgres_db, 1)
    with source(postgres_db, bound=bound) as reader:
        assert ids(reader) == [1]
        with session(postgres_db, "begin", "insert into stamped (id) values (2)", "prepare transaction 'forgotten'"):
            pass
        add(postgres_db, 3)
        page = reader.page(None, 10)
        assert [row["id"] for row in page.rows] == [1]
        assert "'forgotten'" in str(page.bound.held_by)
        assert "COMMIT PREPARED 'forgotten'" in str(page.bound.reason)
        with session(postgres_db, "commit prepared 'forgotten'"):
            pass
        assert ids(reader) == [1, 2, 3]


@each("bound", ["exact", "observed"])
def test_a_transaction_that_stays_open_is_named(postgres_db: str, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (followed, postgresql_bound):
        monkeypatch.setattr(module, "SHOWS_HOLDER_AFTER", 0.0)
    make(postgres_db)
    with source(postgres_db, bound=bound) as reader:
        reader.bound()
        with session(postgres_db, "begin", "select 1") as writer:
            pid = writer.exec_driver_sql("select pg_backend_pid()").scalar_one()
            held = reader.bound()
            assert f"pid {pid}" in str(held.held_by)
            assert "open" in str(held.reason)


def test_auto_without_privileges_observes_and_names_what_is_better(plain_user: str, postgres_db: str) -> None:
    with source(plain_user) as reader:
        bound = reader.bound()
        assert bound.kind == "observed"
        assert "GRANT pg_read_all_stats" in str(bound.reason)
        with session(postgres_db, "begin", "insert into stamped (id) values (1)") as writer:
            add(postgres_db, 2)
            assert ids(reader) == []
            writer.exec_driver_sql("commit")
        assert ids(reader) == [1, 2]


def test_exact_without_privileges_holds_instead_of_guessing(plain_user: str, postgres_db: str) -> None:
    add(postgres_db, 1)
    with session(postgres_db), source(plain_user, bound="exact") as reader:
        page = reader.page(None, 10)
    assert list(page.rows) == []
    assert "GRANT pg_read_all_stats" in str(page.bound.reason)


def test_a_session_that_hides_its_activity_holds_the_exact_bound(postgres_db: str) -> None:
    make(postgres_db)
    add(postgres_db, 1)
    with source(postgres_db) as reader:
        assert ids(reader) == [1]
        with session(postgres_db, "set track_activities = off"):
            add(postgres_db, 2)
            assert ids(reader) == [1]
            assert "track_activities" in str(reader.bound().reason)
        assert ids(reader) == [1, 2]


def test_users_that_only_read_may_be_ignored(plain_user: str, postgres_db: str) -> None:
    name = str(sa.make_url(plain_user).username)
    with session(plain_user, "begin", "select * from stamped"):
        add(postgres_db, 1)
        for bound in BOUNDS:
            with source(postgres_db, bound=bound) as reader:
                assert ids(reader) == []
            with source(postgres_db, bound=bound, bound_ignore_users=[name]) as reader:
                assert ids(reader) == [1]


def test_a_standby_is_refused() -> None:
    """Also where a connection to the primary came to lead to one, as behind a pooler after a fail-over."""
    with PostgresServer.start() as server:
        url = server.new_database()
        make(url)
        with session(url) as primary:
            stamped: dict[str, Any] = {"table": "stamped", "schema_name": None}
            dialect = dialect_for("postgresql")
            asks = [asked(**stamped, bound=wanted) for wanted in ("exact", "strict")]
            by_id = asked(**stamped, cursor_kind="xid8+pk", cursor_time_zone=None)
            asks.append(replace(by_id, highest=sa.text("SELECT max(id) FROM stamped")))
            samplers = [choose(dialect, each, primary) for each in asks]
            for sampler, each in zip(samplers, asks, strict=True):
                assert Process(sampler.rule, each.options).see(sampler.take(primary)).kind in BOUNDS
        data = Path(str(server.execute("show data_directory")[0][0]))
        server.stop()
        (data / "standby.signal").touch()
        server.restart()
        with source(url) as reader, pytest.raises(SourceError, match="standby") as error:
            reader.page(None, 10)
        assert "primary" in str(error.value.next_step)
        with source(url, bound="delay") as reader:
            assert reader.page(None, 10).bound.kind == "heuristic"
        with session(url) as standby:
            for sampler in samplers:
                with pytest.raises(SourceError, match="standby"):
                    sampler.take(standby)


def test_whole_seconds_are_read_only_below_the_last_whole_second(postgres_db: str) -> None:
    """`timestamptz(0)` rounds half seconds up: a row of 12.4 s stands at 12, one of 11.6 s too."""
    make(postgres_db, "id bigint primary key, updated_at timestamptz(0) not null default now()")
    with source(postgres_db) as reader, session(postgres_db, "begin", "select now()") as writer:
        began = writer.exec_driver_sql("select now()").scalar_one()
        bound = reader.bound()
        stands_at = writer.exec_driver_sql("select now()::timestamptz(0)").scalar_one()
    assert bound.value is not None
    assert bound.value.endswith(":" + bound.value[-10:-8] + ".000000Z")
    assert bound.value < began.strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    assert bound.value < stands_at.strftime("%Y-%m-%dT%H:%M:%S.000000Z")


@pytest.mark.guarantee("Rows that commit late", "A row from the future does not move the cursor there")
def test_a_row_dated_2099_waits_and_does_not_drag_the_cursor_along(postgres_db: str) -> None:
    make(postgres_db)
    with session(postgres_db, f"insert into stamped values (1, '{FAR}')"):
        pass
    add(postgres_db, 2)
    with source(postgres_db) as reader:
        page = reader.page(None, 10)
        assert [row["id"] for row in page.rows] == [2]
        add(postgres_db, 3)
        assert ids(reader, page.cursors[-1]) == [3]
        assert reader.lag(reader.page(None, 10).cursors[-1], cap=10).pending == 1


def test_a_cold_process_knows_only_what_is_remembered(postgres_db: str) -> None:
    make(postgres_db)
    with source(postgres_db, bound="observed") as first:
        first.bound()
        add(postgres_db, 1)
        first.bound()
        with session(postgres_db, "begin", "insert into stamped (id) values (2)") as writer:
            add(postgres_db, 3)
            assert ids(first) == [1]
            memory = first.remember()
            assert memory is not None
            with another_process(), source(postgres_db, bound="observed") as cold:
                page = cold.page(None, 10)
                assert list(page.rows) == []
                assert page.bound.value is None
                assert page.bound.cold
            with another_process(), source(postgres_db, bound="observed") as warm:
                warm.recall(memory)
                assert ids(warm) == [1]
                writer.exec_driver_sql("commit")
                assert ids(warm) == [1, 2, 3]


def test_a_cold_process_waits_for_what_its_first_sample_saw(postgres_db: str) -> None:
    make(postgres_db)
    add(postgres_db, 1)
    looks: list[str] = []
    with (
        session(postgres_db, "begin", "select 1") as writer,
        source(postgres_db, bound="observed", patience=3600) as reader,
    ):

        def end_it_at_last(connection: object, cursor: object, statement: str, *_: object) -> None:
            if "pg_locks" in statement:
                looks.append(statement)
                if len(looks) == 6:
                    writer.exec_driver_sql("commit")

        sa.event.listen(sa.Engine, "before_cursor_execute", end_it_at_last)
        try:
            assert ids(reader) == [1]
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", end_it_at_last)
    assert len(looks) >= 6, "looked again and again until it had ended"


def test_a_cold_process_with_nothing_to_read_does_not_wait(postgres_db: str) -> None:
    make(postgres_db)
    with session(postgres_db, "begin", "select 1"), source(postgres_db, bound="observed", patience=3600) as reader:
        page = reader.page(None, 10)
        assert page.bound.value is None
        assert not page.bound.cold


def test_samples_of_another_server_say_nothing(postgres_db: str) -> None:
    make(postgres_db)
    with source(postgres_db, bound="observed") as first:
        first.bound()
        memory = first.remember()
        assert memory is not None
    memory["samples"]["server"] = "2020-01-01 00:00:00+00"
    del memory["at"]
    with session(postgres_db, "begin", "select 1"), source(postgres_db, bound="observed") as reader:
        reader.recall(memory)
        assert reader.bound().value is None


@each("bound", BOUNDS)
def test_a_clock_that_went_back_is_waited_for(postgres_db: str, bound: str) -> None:
    make(postgres_db)
    add(postgres_db, 1)
    with source(postgres_db, bound=bound) as reader:
        reader.recall({"kind": bound, "clock": FAR})
        page = reader.page(None, 10)
        assert list(page.rows) == []
        assert page.bound.clock_went_back
        memory = reader.remember()
        assert memory is not None
        assert memory["clock"] == FAR


def test_memory_that_makes_no_sense_is_left_aside(postgres_db: str) -> None:
    make(postgres_db)
    add(postgres_db, 1)
    with source(postgres_db, bound="observed") as reader:
        reader.recall({"kind": "observed", "clock": 7, "at": "yesterday", "samples": {"sampled_at": "x", "open": 3}})
        assert ids(reader) == [1]
