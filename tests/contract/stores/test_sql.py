"""What is particular to databases: their errors, their time limits, many processes, and dialects that are not here."""

from __future__ import annotations

import multiprocessing
import socket
import traceback
import uuid
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.dialects import mssql
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateTable

from poller.errors import ConfigError, StoreDenied, StoreError, StoreUnavailable, WriteConflict
from poller.ports import Found, Missing, Timeout, Unchanged
from poller.stores import SqlStore
from poller.stores.sql.schema import schema_for
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer
from tests.support.services import free_port

NAME = "state/shop/orders.json"
PASSWORD = "hunter2-do-not-show"


def body_of(store: SqlStore, name: str = NAME) -> bytes:
    answer = store.read(name)
    assert isinstance(answer, Found)
    return answer.body


def test_the_state_can_be_read_by_a_person(any_db: str) -> None:
    with closing(SqlStore(any_db)) as store:
        store.write(NAME, b'{"version": 1}', if_tag=None)
    engine = create_engine(any_db)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT name, body FROM poller_documents")).all() == [(NAME, '{"version": 1}')]
    engine.dispose()


def test_an_unchanged_document_is_not_sent_again(sqlite_url: str) -> None:
    engine, asked = create_engine(sqlite_url), []
    store = SqlStore(engine)
    written = store.write(NAME, b"x" * 1000, if_tag=None)

    @event.listens_for(engine, "before_cursor_execute")
    def _keep(connection: object, cursor: object, statement: str, parameters: Any, *rest: object) -> None:
        asked.append((statement, parameters))

    assert isinstance(store.read(NAME, unless=written.tag), Unchanged)
    (question,) = asked
    with engine.connect() as connection:
        row = connection.exec_driver_sql(*question).one()
    assert written.tag in row
    assert not [value for value in row if isinstance(value, str) and "x" * 10 in value]
    engine.dispose()


def test_two_prefixes_are_two_stores(sqlite_url: str) -> None:
    with closing(SqlStore(sqlite_url)) as one, closing(SqlStore(sqlite_url, prefix="other")) as other:
        one.write(NAME, b"1", if_tag=None)
        other.write(NAME, b"2", if_tag=None)
        assert (body_of(one), body_of(other)) == (b"1", b"2")


def test_an_engine_that_was_handed_in_stays_open(sqlite_url: str) -> None:
    engine = create_engine(sqlite_url)
    store = SqlStore(engine)
    store.write(NAME, b"1", if_tag=None)
    store.close()
    assert body_of(store) == b"1"
    with engine.begin() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
    engine.dispose()


def test_reading_creates_no_tables(any_db: str) -> None:
    with closing(SqlStore(any_db)) as store:
        assert isinstance(store.read(NAME), Missing)
        with pytest.raises(WriteConflict):
            store.write(NAME, b"1", if_tag="1")
    engine = create_engine(any_db)
    with engine.connect() as connection:
        assert not engine.dialect.has_table(connection, "poller_documents")
    engine.dispose()


# ------------------------------------------------------------------------------------------------------------ outages


@pytest.mark.parametrize("driver", ["postgresql+psycopg", "mysql+pymysql"])
def test_a_refused_connection_is_unavailable(driver: str) -> None:
    store = SqlStore(f"{driver}://root:{PASSWORD}@127.0.0.1:{free_port()}/shop")
    for ask in (lambda: store.read(NAME), lambda: store.write(NAME, b"1", if_tag=None), lambda: store.lines("a")):
        with pytest.raises(StoreUnavailable, match="refused") as caught:
            ask()
        assert "database shop at 127.0.0.1" in str(caught.value)
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))
        assert "may or may not" not in str(caught.value), "without a connection nothing is applied"
        assert not caught.value.sent


@pytest.mark.parametrize("driver", ["postgresql+psycopg", "mysql+pymysql"])
def test_a_server_that_never_answers_is_unavailable(driver: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = SqlStore(f"{driver}://root@127.0.0.1:{silent.getsockname()[1]}/shop")
        with pytest.raises(StoreUnavailable):
            store.read(NAME)


def test_a_lock_that_is_not_let_go_ends_at_the_time_limit(any_db: str) -> None:
    store = SqlStore(any_db)
    tag = store.write(NAME, b"1", if_tag=None).tag
    engine = create_engine(any_db)
    with engine.begin() as connection:
        connection.execute(text("UPDATE poller_documents SET tag = 'other'"))
        with pytest.raises(StoreUnavailable) as caught:
            store.write(NAME, b"2", if_tag=tag, timeout=Timeout(connect=0.2, read=0.2))
        # Ours ended it, and not a longer limit of the driver's.
        assert ("within 0.4 s" in str(caught.value)) != any_db.startswith("sqlite")
        assert NAME in str(caught.value)
    assert body_of(store) == b"1"
    engine.dispose()
    store.close()


def test_a_write_whose_tables_cannot_be_made_was_not_sent(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'state.db'}", connect_args={"timeout": 0.01})
    with engine.connect() as other, closing(SqlStore(engine)) as store:
        other.exec_driver_sql("CREATE TABLE theirs (id INTEGER)")
        other.commit()
        other.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable) as error:
            store.write(NAME, b"{}", if_tag=None, timeout=Timeout(0.1, 0.1))
        assert not error.value.sent
        assert "may or may not" not in str(error.value)
        other.rollback()
        store.write(NAME, b"{}", if_tag=None)
    engine.dispose()


def test_an_outage_needs_no_restart_of_ours(postgres_server: PostgresServer, postgres_db: str, mariadb_db: str) -> None:
    kills = {
        postgres_db: "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        mariadb_db: None,
    }
    for url, kill in kills.items():
        store = SqlStore(url)
        tag = store.write(NAME, b"1", if_tag=None).tag
        _end_connections(url, kill)
        assert body_of(store) == b"1"  # a connection that died idle is replaced unnoticed by a reader
        _end_connections(url, kill)
        with pytest.raises(StoreUnavailable):  # a writer gets an error, since its write may have been applied
            store.write(NAME, b"2", if_tag=tag)
        store.write(NAME, b"2", if_tag=tag)
        assert body_of(store) == b"2"
        store.close()


def _end_connections(url: str, kill: str | None) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        if kill is not None:
            connection.execute(text(kill))
        else:
            ours = "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
            for number in connection.execute(text(ours)).scalars().all():
                connection.execute(text(f"KILL {number}"))
    engine.dispose()


# -------------------------------------------------------------------------------------------------------------- rights


def test_a_wrong_password_is_denied(family_db: str) -> None:
    user, url = f"u{uuid.uuid4().hex[:8]}", make_url(family_db)
    store = SqlStore(url.set(username=user, password=PASSWORD).render_as_string(hide_password=False))
    with pytest.raises(StoreDenied) as caught:
        store.read(NAME)
    assert "password of state.url" in caught.value.next_step
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def test_a_missing_right_to_write_or_create_is_denied(postgres_db: str) -> None:
    role = f"r{uuid.uuid4().hex[:8]}"
    engine = create_engine(postgres_db, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE ROLE {role}"))
        connection.execute(text("REVOKE CREATE ON SCHEMA public FROM public"))
    limited = SqlStore(f"{postgres_db}?options=-c%20role%3D{role}")
    try:
        assert isinstance(limited.read(NAME), Missing)
        with pytest.raises(StoreDenied):
            limited.write(NAME, b"1", if_tag=None)
        with closing(SqlStore(postgres_db)) as owner:
            owner.write(NAME, b"1", if_tag=None)
        with pytest.raises(StoreDenied) as caught:
            limited.read(NAME)
        assert "SELECT, INSERT and UPDATE" in caught.value.next_step
    finally:
        limited.close()
        with engine.connect() as connection:
            connection.execute(text(f"DROP ROLE {role}"))
        engine.dispose()


def test_a_database_that_does_not_exist_is_said_to_be_missing(
    postgres_server: PostgresServer, mariadb_server: MariaDbServer
) -> None:
    for url in (postgres_server.url, mariadb_server.url):
        gone = make_url(url).set(database="no_such_database").render_as_string(hide_password=False)
        with pytest.raises(StoreError, match="Create the database"):
            SqlStore(gone).read(NAME)


# -------------------------------------------------------------------------------------------------------------- SQLite


def test_a_relative_sqlite_file_stands_in_the_given_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "down").mkdir(parents=True)
    store = SqlStore("sqlite:///deep/down/state.db", directory=tmp_path)
    monkeypatch.chdir("/")
    store.write(NAME, b"1", if_tag=None)
    assert (tmp_path / "deep" / "down" / "state.db").is_file()
    assert str(tmp_path / "deep" / "down" / "state.db") in store.locate(NAME)
    store.close()


def test_of_a_mistyped_path_nothing_is_begun(tmp_path: Path) -> None:
    """The folder is not made: every row would be delivered again. Once it is there, as a share is, the store works."""
    store = SqlStore(f"sqlite:///{tmp_path}/dwon/state.db")
    for ask in (lambda: store.read(NAME), lambda: store.write(NAME, b"1", if_tag=None)):
        with pytest.raises(StoreUnavailable, match=r"there is no folder .*dwon: correct state\.url, or create it"):
            ask()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "dwon").mkdir()
    store.write(NAME, b"1", if_tag=None)
    store.close()


def test_a_sqlite_file_that_cannot_be_opened_is_denied_by_path(tmp_path: Path) -> None:
    with pytest.raises(StoreDenied, match=str(tmp_path)):
        SqlStore(f"sqlite:///{tmp_path}").read(NAME)


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but somebody's notes " * 100)
    before = file.read_bytes()
    with pytest.raises(StoreError, match="not a database"):
        SqlStore(f"sqlite:///{file}").write(NAME, b"1", if_tag=None)
    assert file.read_bytes() == before


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "nonsense", "nosuch://host/db"])
def test_a_url_that_leads_nowhere_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SqlStore(url)
    assert caught.value.key == "state.url"


@pytest.mark.soak
def test_many_processes_share_one_sqlite_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}"
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as pool:
        counted = pool.map(count_up, [(url, 25)] * 4)
    assert counted == [25] * 4
    with closing(SqlStore(url)) as store:
        assert body_of(store) == b"100"
        assert len(store.lines("audit/a.jsonl")) == 100


def count_up(task: tuple[str, int]) -> int:
    """Raise the number in the document by one, `times` times, against others who do the same."""
    url, times = task
    done = 0
    with closing(SqlStore(url)) as store:
        while done < times:
            answer = store.read(NAME)
            number, tag = (int(answer.body), answer.tag) if isinstance(answer, Found) else (0, None)
            try:
                store.write(NAME, str(number + 1).encode(), if_tag=tag)
            except WriteConflict:
                continue
            store.append("audit/a.jsonl", str(number + 1))
            done += 1
    return done


# ------------------------------------------------------------------------------------------------ databases not at hand


def test_sql_servers_types_hold_documents_and_names() -> None:
    server = str(CreateTable(schema_for("mssql", "poller").documents).compile(dialect=mssql.dialect()))  # type: ignore[no-untyped-call]
    assert "body NVARCHAR(max)" in server
    assert "COLLATE Latin1_General_100_BIN2" in server
    assert "modified_at DATETIME2(6)" in server


def test_a_clock_without_a_zone_is_not_believed() -> None:
    clock = schema_for("somethingelse", "poller").clock
    assert clock.to_utc(datetime(2026, 4, 7, 1, 23, 45)) is None
    assert clock.to_utc(datetime(2026, 4, 7, 1, 23, 45, tzinfo=UTC)) == datetime(2026, 4, 7, 1, 23, 45, tzinfo=UTC)
