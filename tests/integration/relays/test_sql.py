"""`poller.relays:sql` into SQLite, PostgreSQL and MariaDB: each row once, none older than it was, failures by name."""

from __future__ import annotations

import json
import pickle
import socket
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, Table, create_engine, event, inspect, make_url, text

from poller import Batch, ConfigError, Poller, Standing, load_app
from poller.relays import relay
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.relays.endpoint import called
from tests.integration.relays.into import url_of
from tests.support import entra
from tests.support.certificates import certificates
from tests.support.mariadb import MariaDbServer
from tests.support.server import DatabaseServer
from tests.support.services import free_port, wait_until
from tests.support.shop_folder import write_shop

SECRET = "s3cr3t-of-the-shop"
COPY = """
CREATE TABLE copy (id INTEGER PRIMARY KEY NOT NULL, name VARCHAR(20), version INTEGER,
    CONSTRAINT few CHECK (version < 100))
"""


@pytest.fixture(scope="module")
def databases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Engine]]:
    """One of each server for all tests of this file, made when it is first asked for."""
    with ExitStack() as ends:

        class Made(dict[str, Engine]):
            def __missing__(self, kind: str) -> Engine:
                url = f"sqlite:///{tmp_path_factory.mktemp('relays')}/target.db"
                if kind != "sqlite":
                    server: DatabaseServer = request.getfixturevalue(f"{kind}_server")
                    url = server.new_database()
                    ends.callback(server.drop_database, url)
                self[kind] = create_engine(url)
                ends.callback(self[kind].dispose)
                return self[kind]

        yield Made()


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def target(request: pytest.FixtureRequest, databases: dict[str, Engine]) -> Engine:
    """As new, but for the table `copy`."""
    engine = databases[request.param]
    with engine.begin() as connection:
        for name in inspect(connection).get_table_names():
            connection.execute(text(f"DROP TABLE {name}"))
        connection.execute(text(COPY))
    return engine


def batch(*rows: dict[str, Any], through: int = 0) -> Batch:
    return Batch.of_rows(rows, poller_name="orders", standing=Standing(app_name="shop", through=through or len(rows)))


def row(id_: int, name: str | None = "a", version: int | None = 1) -> dict[str, Any]:
    return {"id": id_, "name": name, "version": version}


def rows_of(engine: Engine, wanted: str = "SELECT id, name, version FROM copy ORDER BY id") -> list[Any]:
    with engine.connect() as connection:
        return [tuple(one) for one in connection.execute(text(wanted))]


def test_rows_are_added_and_replaced(target: Engine, made: Any) -> None:
    write = made()
    assert called(write, batch(row(1), row(2))).error is None
    assert called(write, batch(row(2, "b", 2), row(3, None, None))).error is None
    assert rows_of(target) == [(1, "a", 1), (2, "b", 2), (3, None, None)]


def test_insert_changes_nothing_that_is_there(target: Engine, made: Any) -> None:
    write = made(mode="insert")
    assert called(write, batch(row(1), row(2))).error is None
    assert called(write, batch(row(1), row(2))).named == (), "a repeat is no second version"
    result = called(write, batch(row(3), row(2, "b", 2), row(4), through=5))
    assert [one.position for one in result.named] == [1]
    assert rows_of(target) == [(1, "a", 1), (2, "a", 1), (3, "a", 1), (4, "a", 1)]


def test_insert_keeps_each_version_of_a_row(target: Engine, made: Any) -> None:
    with target.begin() as connection:
        connection.execute(text("CREATE TABLE history (id INTEGER, version INTEGER, PRIMARY KEY (id, version))"))
    write = made(
        table="history", mode="insert", key_columns=["id", "version"], columns={"id": "id", "version": "version"}
    )
    assert called(write, batch(row(1), row(1, "b", 2))).error is None
    assert rows_of(target, "SELECT id, version FROM history ORDER BY version") == [(1, 1), (1, 2)]


def test_insert_and_a_version_column_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="has no meaning with mode") as caught:
        relay("sql", url="sqlite://", table="t", key_columns=["id"], mode="insert", version_column="version")
    assert caught.value.key == "version_column"


def test_a_batch_that_comes_again_is_applied_once(target: Engine, made: Any) -> None:
    write = made()
    write(batch(row(1), row(2)))
    with target.begin() as connection:
        connection.execute(text("DELETE FROM copy WHERE id = 1"))
    write(batch(row(1), row(2), row(3)))
    assert rows_of(target) == [(2, "a", 1), (3, "a", 1)], "what was applied is not applied again"


def test_rows_that_are_refused_are_named_and_the_others_done(target: Engine, made: Any) -> None:
    refused = batch(row(1), row(2, version=100), row(3), row(2, "later", 2), row(4, version=SECRET))  # type: ignore[arg-type]
    write = made()
    result = called(write, refused)
    assert [one.position for one in result.failed] == [1, 3, 4]
    assert "earlier row of the same key" in result.failed[1].text
    assert SECRET not in str(result)
    assert rows_of(target) == [(1, "a", 1), (3, "a", 1)]

    assert called(write, batch(row(2, version=99), row(1))).error is None
    assert rows_of(target) == [(1, "a", 1), (2, "a", 99), (3, "a", 1)]


def test_a_row_that_no_statement_can_have_is_named(target: Engine, made: Any) -> None:
    with target.begin() as connection:
        connection.execute(text("CREATE TABLE wide (id INTEGER, name VARCHAR(20), version INTEGER, UNIQUE (id))"))
    rows = [row(1), row(2, "\udc80"), row(None, SECRET), row(3)]  # type: ignore[arg-type]
    if target.dialect.name == "mysql":
        rows.append(row(4, "'" * 8_500_000))  # 17 MB in a statement, of which the server takes 16
    result = called(made(table="wide"), batch(*rows))
    assert [one.position for one in result.failed] == [1, 2, 4][: len(rows) - 2]
    assert SECRET not in str(result)
    assert rows_of(target, "SELECT id, name, version FROM wide ORDER BY id") == [(1, "a", 1), (3, "a", 1)]


def test_an_older_version_replaces_no_newer_one(target: Engine, made: Any) -> None:
    write = made(version_column="version")
    for name, version in [("a", 2), ("b", 1), ("c", 3), ("d", 3), ("e", None)]:
        assert called(write, batch(row(1, name, version))).error is None
        if name == "d":
            assert rows_of(target) == [(1, "d", 3)]
    assert rows_of(target) == [(1, "e", None)], "that a row has no version does not make it older"
    assert called(made(), batch(row(1, "older", 1))).error is None
    assert rows_of(target) == [(1, "older", 1)], "without a version column the last one that comes is there"


def test_versions_are_compared_for_each_row_of_a_batch(target: Engine, made: Any) -> None:
    write = made(version_column="version")
    assert called(write, batch(row(1, "a", 2), row(2, "b", 2), row(3, "c", None))).error is None
    assert called(write, batch(row(1, "older", 1), row(2, "newer", 3), row(3, "later", 1))).error is None
    assert rows_of(target) == [(1, "a", 2), (2, "newer", 3), (3, "later", 1)]


def test_a_column_may_have_any_name(target: Engine, made: Any) -> None:
    names = ["a%b", "50%%", "%s", "%(x)s", "a:b", "select", "a b", 'a"b', "a`b", "a``%`"]
    columns = [Column("id", Integer, primary_key=True, autoincrement=False), *(Column(name, Integer) for name in names)]
    Table("odd", MetaData(), *columns).create(target)
    write = made(table="odd")
    rows = [{"id": id_, **{name: id_ * 100 + at for at, name in enumerate(names)}} for id_ in (1, 2)]
    assert called(write, batch(rows[0])).error is None
    assert called(write, batch(*rows)).error is None
    assert called(write, batch(*[{**one, "%s": -1} for one in rows])).error is None
    assert rows_of(target, "SELECT * FROM odd ORDER BY id") == [tuple({**one, "%s": -1}.values()) for one in rows]


def test_a_key_may_have_any_name(target: Engine, made: Any) -> None:
    key = "the `key`"
    Table("odd", MetaData(), Column(key, Integer, primary_key=True, autoincrement=False), Column("n", Integer)).create(
        target
    )
    write = made(table="odd", key_columns=[key])
    assert {one.severity for one in write.checkup()} == {"ok"}
    for n in (1, 2):
        assert called(write, batch({key: 1, "n": n})).error is None
    assert rows_of(target, "SELECT * FROM odd") == [(1, 2)]


def test_a_column_of_json_may_have_any_name(target: Engine, made: Any) -> None:
    """It is known as one: a text that looks like a number stays a text."""
    with target.begin() as connection:
        name = connection.dialect.identifier_preparer.quote_identifier("do`c")
        connection.execute(text(f"CREATE TABLE odd (id INTEGER PRIMARY KEY NOT NULL, {name} JSON)"))
    assert called(made(table="odd"), batch({"id": 1, "do`c": "1.50"})).error is None
    stored = "CAST({} AS text)" if target.dialect.name == "postgresql" else "{}"
    assert rows_of(target, f"SELECT {stored.format(name)} FROM odd") == [('"1.50"',)]


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
def test_columns_are_taken_by_the_names_that_are_given(target: Engine, made: Any) -> None:
    write = made(columns={"id": "order", "name": "who?"})
    assert called(write, batch({"order": 1, "who?": "a", "more": 2})).error is None
    assert rows_of(target) == [(1, "a", None)]


def test_a_table_of_keys_alone_takes_each_once(target: Engine, made: Any) -> None:
    with target.begin() as connection:
        connection.execute(text("CREATE TABLE pairs (a INTEGER NOT NULL, b INTEGER NOT NULL, UNIQUE (b, a))"))
    write = made(table="pairs", key_columns=["a", "b"])
    assert called(write, batch({"a": 1, "b": 2}, {"a": 1, "b": 3})).error is None
    assert called(write, batch({"a": 1, "b": 2, "c": 0})).error is not None
    assert called(made(table="pairs", key_columns=["a", "b"]), batch({"b": 2, "a": 1})).error is None
    assert rows_of(target, "SELECT a, b FROM pairs ORDER BY b") == [(1, 2), (1, 3)]


KINDS = {
    "postgresql": "i bigint, d numeric(20,4), f double precision, at timestamptz, local timestamp, day date, "
    "b bytea, u uuid, doc jsonb, flag boolean, span interval, list integer[]",
    "mysql": "i bigint, d decimal(20,4), f double, at datetime(6), local datetime(6), day date, b blob, u varchar(36), "
    "doc json, flag boolean, span time(6), list text",
    "sqlite": "i integer, d text, f real, at text, local text, day text, b blob, u text, doc text, flag integer, "
    "span text, list text",
}
VALUES: dict[str, Any] = {
    "i": 2**53 + 1,
    "d": Decimal("1234567890.1250"),
    "f": 0.1,
    "at": datetime(2026, 4, 7, 1, 2, 3, 456789, tzinfo=UTC),
    "local": datetime(2026, 4, 7, 1, 2, 3, 456789),
    "day": date(2026, 4, 7),
    "b": b"\x00\xff",
    "u": uuid.UUID(int=7),
    "doc": {"a": [1, None, "é"], "s": "x"},
    "flag": True,
    "span": timedelta(hours=5, microseconds=7),
    "list": [1, 2],
}


def test_values_arrive_as_they_are(target: Engine, made: Any) -> None:
    family = {"mariadb": "mysql"}.get(target.dialect.name, target.dialect.name)
    with target.begin() as connection:
        connection.execute(text(f"CREATE TABLE kinds (id integer primary key not null, {KINDS[family]})"))
    write = made(table="kinds")
    nothing = dict.fromkeys(VALUES)
    assert called(write, batch({"id": 1, **VALUES}, {"id": 2, **nothing})).error is None
    (seen,) = rows_of(target, f"SELECT {', '.join(VALUES)} FROM kinds WHERE id = 1")
    found = dict(zip(VALUES, seen, strict=True))
    assert rows_of(target, f"SELECT {', '.join(VALUES)} FROM kinds WHERE id = 2") == [(None,) * len(VALUES)]
    expected = dict(VALUES)
    if family == "sqlite":
        expected |= {"d": "1234567890.1250", "day": "2026-04-07", "span": "PT18000.000007S"}
        expected |= {"at": "2026-04-07 01:02:03.456789+00:00", "local": "2026-04-07 01:02:03.456789"}
    if family == "mysql":
        expected["at"] = VALUES["at"].replace(tzinfo=None)
    if family != "postgresql":
        expected["u"] = str(VALUES["u"])
        found |= {name: json.loads(found[name]) for name in ("doc", "list")}
    assert found == expected


def test_a_value_that_would_be_lost_is_refused_by_name(target: Engine, made: Any) -> None:
    with target.begin() as connection:
        connection.execute(
            text("CREATE TABLE small (id INTEGER PRIMARY KEY NOT NULL, f DOUBLE PRECISION, t VARCHAR(3))")
        )
    write = made(table="small")
    rows = [{"id": 1, "f": 0.5, "t": "abc"}, {"id": 2, "f": float("nan"), "t": "a"}, {"id": 3, "f": 1.0, "t": "abcd"}]
    named = {"postgresql": [2], "sqlite": [1], "mysql": [1, 2], "mariadb": [1, 2]}[target.dialect.name]
    assert [one.position for one in called(write, batch(*rows)).failed] == named
    assert {one[0] for one in rows_of(target, "SELECT id FROM small")} == {1, 2, 3} - {at + 1 for at in named}


ANOTHER: list[tuple[dict[str, Any], str, str]] = [
    ({"table": "cpoy"}, "table", "names no table"),
    ({"key_columns": ["name"]}, "key_columns", "is not a primary or unique key of copy; its keys: id"),
    ({"columns": {"id": "id", "nmae": "name"}}, "columns", "names no column of the table copy"),
    ({"columns": {"id": "id", "name": "nmae"}}, "columns", 'names "nmae", which the rows do not have'),
]


def test_another_table_is_a_clear_error(made: Any) -> None:
    for settings, key, words in ANOTHER:
        write = made(**settings)
        result = called(write, batch(row(1)))
        assert isinstance(result.error, ConfigError), settings
        assert (result.error.key, words in str(result.error)) == (key, True), settings
        if key != "columns":
            (finding,) = [one for one in write.checkup() if one.check == "relay"]
            assert (finding.severity, words in finding.message) == ("error", True), settings


UNFIT = {
    "deferrable": (
        "postgres",
        "CREATE TABLE odd (id INTEGER PRIMARY KEY DEFERRABLE, name VARCHAR(20), version INTEGER)",
        "key_columns",
        "id of the table odd",
        "NOT DEFERRABLE",
    ),
    "identity": (
        "postgres",
        "CREATE TABLE odd (id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name VARCHAR(20), version INTEGER)",
        "key_columns",
        '"id" of the table odd',
        "ALTER TABLE odd ALTER COLUMN id SET GENERATED BY DEFAULT",
    ),
    "generated": (
        "*",
        "CREATE TABLE odd (id INTEGER PRIMARY KEY NOT NULL, name TEXT GENERATED ALWAYS AS ('a') STORED, version INT)",
        "columns",
        '"name" of the table odd',
        "Name the other columns in `columns`",
    ),
    "engine": (
        "mariadb",
        "CREATE TABLE odd (id INTEGER PRIMARY KEY, name VARCHAR(20), version INTEGER) ENGINE=MyISAM",
        "table",
        "MyISAM",
        "ALTER TABLE odd ENGINE=InnoDB",
    ),
}


@pytest.mark.guarantee(
    "Delivery",
    "A table that cannot take the rows of the relay `sql` is found by `poller check`, and is not an outage",
)
@pytest.mark.parametrize("what", UNFIT)
def test_a_table_that_takes_no_row_is_found_by_check(
    what: str, databases: dict[str, Engine], request: pytest.FixtureRequest
) -> None:
    kind, ddl, key, words, step = UNFIT[what]
    for one in ["sqlite", "postgres", "mariadb"] if kind == "*" else [kind]:
        engine = databases[one]
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE IF EXISTS odd"))
            connection.execute(text(ddl))
        write = relay("sql", url=url_of(engine), table="odd", key_columns=["id"])
        request.addfinalizer(write.close)
        (finding,) = [f for f in [*write.checkup(), *write.check_columns(tuple(row(1)))] if f.severity == "error"][:1]
        assert (finding.check, words in finding.message) == ("relay", True), finding
        assert step in str(finding.fix)
        result = called(write, batch(row(1)))
        assert isinstance(result.error, ConfigError), "a failure of the batch, and no outage"
        assert (result.end, result.error.key, words in str(result.error)) == ("raised", key, True)
        assert rows_of(engine, "SELECT * FROM odd") == []


def test_a_key_that_becomes_deferrable_is_no_outage(databases: dict[str, Engine]) -> None:
    engine = databases["postgres"]
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE deferred (id INTEGER PRIMARY KEY, name TEXT, version INTEGER)"))
    write = relay("sql", url=url_of(engine), table="deferred", key_columns=["id"])
    assert called(write, batch(row(1))).error is None
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE deferred DROP CONSTRAINT deferred_pkey, ADD PRIMARY KEY (id) DEFERRABLE"))
    assert called(write, batch(row(2))).end == "raised"
    assert "is DEFERRABLE" in str(called(write, batch(row(2))).error)
    write.close()


def test_check_finds_columns_that_the_table_lacks(made: Any) -> None:
    write = made()
    assert [one.severity for one in write.checkup()][-1:] == ["ok"]
    assert write.check_columns(tuple(row(1))) == []
    (finding,) = write.check_columns(("id", "nmae"))
    assert (finding.severity, '"nmae"' in finding.message) == ("error", True)


def test_a_table_that_was_changed_is_looked_at_again(target: Engine, made: Any) -> None:
    write = made()
    assert called(write, batch(row(1))).error is None
    with target.begin() as connection:
        connection.execute(text("ALTER TABLE copy DROP COLUMN name"))
    assert called(write, batch(row(2))).error is not None
    assert "column" in str(called(write, batch(row(2))).error)
    assert called(write, batch({"id": 2, "version": 1})).error is None


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
def test_a_relay_in_another_process_is_one(made: Any, target: Engine) -> None:
    arrived = pickle.loads(pickle.dumps(made()))
    assert called(arrived, batch(row(1))).error is None
    arrived.close()
    assert called(arrived, batch(row(2))).error is None
    arrived.close()
    assert len(rows_of(target)) == 2


@pytest.mark.parametrize("driver", ["postgresql", "mysql+pymysql"])
def test_a_server_that_is_down_is_no_rows_fault(driver: str) -> None:
    url = f"{driver}://u:{SECRET}@127.0.0.1:{free_port()}/shop"
    write = relay("sql", url_env="URL", environ={"URL": url}, table="copy", key_columns=["id"])
    result = called(write, batch(row(1)))
    assert (result.end, result.named, result.seconds) == ("later", (), 30.0)
    shown = f"{result.error} {write!r} {write.settings!r} {write.checkup()}"
    assert SECRET not in shown
    assert write.checkup()[-1].severity == "error"


@pytest.mark.parametrize("driver", ["postgresql+psycopg", "mysql+pymysql"])
def test_a_server_that_does_not_greet_is_no_rows_fault(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hangs, or what stands before it accepts connections for it."""
    monkeypatch.setattr("poller.relays.sql_target.CONNECT", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{driver}://u:{SECRET}@127.0.0.1:{silent.getsockname()[1]}/shop"
        result = called(relay("sql", url=url, table="copy", key_columns=["id"], timeout="1s"), batch(row(1)))
    assert (result.end, result.named, result.seconds) == ("later", (), 30.0)


@pytest.mark.parametrize(("kind", "option"), [("postgres", "sslrootcert"), ("mariadb", "ssl_ca")])
def test_what_is_wrong_with_tls_is_said(kind: str, option: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """It is an outage: a person replaces the certificate, or the file that the URL names, and all rows come again."""
    plain: DatabaseServer = request.getfixturevalue(f"{kind}_server")
    with getattr(entra, kind)() as server:
        own = make_url(server.url)
        wrong = {
            "authority": own.update_query_dict({option: str(certificates(tmp_path).authority)}),
            "name": own.set(host="localhost"),
            "no TLS": make_url(plain.url).update_query_dict(own.query),
            "file": own.update_query_dict({option: str(tmp_path / "none.pem")}),
        }
        for what, url in wrong.items():
            write = relay("sql", url=url.render_as_string(hide_password=False), table="copy", key_columns=["id"])
            result = called(write, batch(row(1)))
            assert (result.end, result.named) == ("later", ()), what
            for said in (str(result.error), write.checkup()[-1].message):
                if (what, kind) == ("file", "mariadb"):  # before anything is asked over TLS
                    assert "a file that the options of its URL name" in said
                else:
                    assert f"TLS failed: {SAID[kind, what]}" in said
                    assert f"{option} in the options of the URL must name" in said
            write.close()


SAID = {
    ("postgres", "authority"): "certificate verify failed",
    ("postgres", "name"): "server certificate for",
    ("postgres", "no TLS"): "server does not support SSL",
    ("postgres", "file"): "root certificate file",
    ("mariadb", "authority"): "",
    ("mariadb", "name"): "Hostname mismatch",
    ("mariadb", "no TLS"): "SSL is required but the server",
}


def test_a_postgresql_that_vanishes_is_not_waited_for_all_day() -> None:
    asked: dict[str, Any] = {}

    def noted(*given: Any) -> None:
        asked.update(given[3])

    event.listen(Engine, "do_connect", noted)
    try:
        url = f"postgresql+psycopg://ann@127.0.0.1:{free_port()}/shop"
        copying = relay("sql", url=url, table="copy", key_columns=["id"])
        assert called(copying, batch(row(1))).end == "later"
    finally:
        event.remove(Engine, "do_connect", noted)

    assert asked["keepalives_idle"] + asked["keepalives_interval"] * asked["keepalives_count"] <= 30


def test_a_batch_is_larger_than_a_statement_of_the_server_may_be() -> None:
    rows = [row(id_, "x" * 4_000) for id_ in range(1, 201)]
    with MariaDbServer.start({"max_allowed_packet": "262144"}) as server:
        engine = create_engine(server.new_database())
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE copy (id INTEGER PRIMARY KEY, name TEXT, version INTEGER)"))
        write = relay("sql", url=url_of(engine), table="copy", key_columns=["id"])
        assert called(write, batch(*rows)).error is None
        assert rows_of(engine, "SELECT count(*), min(length(name)) FROM copy") == [(200, 4_000)]

        write.close()
        server.execute("SET GLOBAL max_allowed_packet = 65536")
        later = [row(id_, "y" * 4_000, 2) for id_ in range(1, 201)]
        results = [called(write, batch(*later, through=400)) for _ in range(2)]
        assert results[-1].error is None, "a smaller limit is noticed, at the latest after one refusal"
        assert rows_of(engine, "SELECT DISTINCT version FROM copy") == [(2,)]
        write.close()
        engine.dispose()


def test_connections_that_were_ended_meanwhile_are_replaced(postgres_db: str) -> None:
    engine = create_engine(postgres_db)
    with engine.begin() as connection:
        connection.execute(text(COPY))
    write = relay("sql", url=postgres_db, table="copy", key_columns=["id"])
    write(batch(row(1)))
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    rows_of(engine, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    assert called(write, batch(row(2))).error is None
    write.close()
    engine.dispose()


def test_a_row_that_another_locks_comes_again_soon(target: Engine, made: Any) -> None:
    write, hurried = made(), made(timeout="3s")  # only the one that the lock holds up: a busy machine takes its second
    write(batch(row(1)))
    with target.begin() as other:
        other.execute(text("UPDATE copy SET version = 5"))
        result = called(hurried, batch(row(1, "b")))
    assert (result.end, result.named) == ("later", ()), str(result.error)
    assert called(write, batch(row(1, "b"))).error is None
    assert rows_of(target) == [(1, "b", 1)]


def test_a_worker_that_was_stopped_in_a_pipeline_holds_up_no_other(
    databases: dict[str, Engine],
) -> None:
    """PostgreSQL ends neither a statement nor an idle transaction then: it waits for the rest of the pipeline."""
    engine = databases["postgres"]
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS copy, poller_fence, poller_applied"))
        connection.execute(text(COPY))
    write = relay("sql", url=url_of(engine), table="copy", key_columns=["id"], timeout="2s")
    assert called(write, batch(row(1))).error is None
    stopped = engine.raw_connection()
    driver: Any = stopped.driver_connection
    stopped.detach()  # it goes back to no pool
    sent = driver.pgconn
    sent.enter_pipeline_mode()
    for statement in (b"BEGIN", b"SELECT * FROM poller_fence FOR UPDATE"):
        sent.send_query_params(statement, None)
    sent.send_flush_request()
    sent.flush()
    locked = "SELECT count(*) FROM pg_locks WHERE relation = to_regclass('poller_fence') AND mode = 'RowShareLock'"
    wait_until(lambda: rows_of(engine, locked) == [(1,)], "the fence to be locked")
    ends: list[str] = []

    def arrived() -> bool:
        ends.append(called(write, batch(row(1, "b"), through=2)).end)
        return ends[-1] == "returned"

    wait_until(arrived, "the row to arrive", seconds=60)
    assert ends[0] == "later"
    sent.finish()
    assert rows_of(engine) == [(1, "b", 1)]
    write.close()


SLOW = {
    "postgres": [
        """CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.name = 'slow' THEN PERFORM pg_sleep(30); END IF; RETURN NEW; END $$""",
        "CREATE TRIGGER slow BEFORE INSERT ON copy FOR EACH ROW EXECUTE FUNCTION slowly()",
    ],
    "mariadb": ["CREATE TRIGGER slow BEFORE INSERT ON copy FOR EACH ROW SET @x = IF(NEW.name = 'slow', SLEEP(30), 0)"],
}


@pytest.fixture(params=SLOW)
def slow(request: pytest.FixtureRequest, databases: dict[str, Engine]) -> Iterator[Engine]:
    """With the table `copy`, in which a row named `slow` takes half a minute."""
    engine = databases[request.param]
    with engine.begin() as connection:
        for statement in ["DROP TABLE IF EXISTS copy, poller_fence, poller_applied", COPY, *SLOW[request.param]]:
            connection.execute(text(statement))
    yield engine
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS copy, poller_fence, poller_applied"))
        if request.param == "postgres":
            connection.execute(text("DROP FUNCTION slowly"))


def test_a_statement_that_takes_too_long_is_a_failure(slow: Engine) -> None:
    write = relay("sql", url=url_of(slow), table="copy", key_columns=["id"], timeout="2s")
    result = called(write, batch(row(1), row(2, "slow"), row(3)))
    assert (result.end, result.named) == ("raised", ()), "attempts are counted, so that the batch is divided"
    assert "did not take a batch within 2s" in str(result.error)
    assert "`timeout`" in str(result.error)
    assert "not available" not in str(result.error)
    assert called(write, batch(row(1), row(3))).error is None
    write.close()


@pytest.mark.guarantee(
    "Delivery",
    "A row that takes too long in the target of the relay `sql` holds up no other for ever",
)
def test_a_row_that_takes_too_long_holds_up_no_other(slow: Engine, tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path}/source.db"
    engine = create_engine(source)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE copy (id INTEGER PRIMARY KEY, name TEXT, version INTEGER)"))
        connection.execute(text("INSERT INTO copy VALUES (1, 'a', 1), (2, 'slow', 1), (3, 'c', 1), (4, 'd', 1)"))
    engine.dispose()
    write = relay("sql", url=url_of(slow), table="copy", key_columns=["id"], timeout="2s")
    options: dict[str, Any] = {"on_poison": "quarantine", "max_attempts": 1, "retry_backoff": "500ms"}
    table = SqlSource(source, table="copy", cursor_column="id", cursor_kind="integer+pk", pk_columns=["id"])
    with Poller("orders", source=table, store=MemoryStore(), app_name="shop", **options) as orders:

        def arrived() -> list[int]:
            orders.tick(write)
            return [one[0] for one in rows_of(slow)]

        wait_until(lambda: arrived() == [1, 3, 4], "the other rows to arrive", seconds=120)
        listed = orders.quarantine.list()
        assert [one.pk for one in [*listed.aside, *listed.pending]] == [{"id": 2}]
    write.close()


def test_a_poller_that_is_closed_keeps_no_connection(tmp_path: Path, databases: dict[str, Engine]) -> None:
    engine = databases["postgres"]
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE arrived (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT)"))
    write_shop(tmp_path, "")
    file = tmp_path / "poller.toml"
    relayed = 'handler = "poller.relays:sql"\nrelay = {url_env = "TO", table = "arrived", key_columns = ["id"]}'
    file.write_text(file.read_text().replace('handler = "handlers:on_orders"', relayed))
    here = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    engine.dispose()
    with load_app(file, {"TO": url_of(engine)}) as app:
        assert app.pollers["orders"].tick().outcome == "delivered"
        assert len(rows_of(engine, f"SELECT pid {here}")) > 0
    wait_until(lambda: rows_of(engine, f"SELECT pid {here}") == [], "the server to see them end")
    assert rows_of(engine, "SELECT id FROM arrived") == [(1,)]


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        ({}, "url", "is missing: give url or url_env"),
        ({"url": "sqlite:///a.db", "url_env": "URL"}, "url_env", "exclude each other"),
        ({"url_env": "URL"}, "url_env", "URL, which is not set"),
        ({"url": SECRET}, "url", "is not a SQLAlchemy URL"),
        ({"url_env": "WRONG"}, "url_env", "is not a SQLAlchemy URL"),
        ({"url": f"oracle://u:{SECRET}@h/d"}, "url", "cannot be fenced"),
        ({"url": f"postgresql://u:{SECRET}@h/d", "identity": True}, "identity", "password"),
        ({"url": "sqlite:///a.db", "version_column": "id"}, "version_column", "cannot grow"),
        ({"url": "sqlite:///a.db", "columns": {"b": "c"}}, "key_columns", "not in columns"),
        ({"url": "sqlite:///a.db", "key_columns": ["a", "a"]}, "key_columns", "twice"),
    ],
    ids=["none", "both", "unset", "no-url", "no-url-there", "oracle", "identity", "version", "columns", "twice"],
)
def test_a_wrong_setting_is_refused_without_its_value(settings: dict[str, Any], key: str, words: str) -> None:
    given = {"table": "copy", "key_columns": ["id"], **settings}
    with pytest.raises(ConfigError) as caught:
        relay("sql", environ={"WRONG": SECRET}, **given)
    assert caught.value.key == key
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_poller_copies_into_a_file_beside_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path starts at the folder of poller.toml, wherever the command is started."""
    write_shop(tmp_path, "")
    engine = create_engine(f"sqlite:///{tmp_path}/copy.db")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE copy (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT)"))
    file = tmp_path / "poller.toml"
    table = 'relay = {url = "sqlite:///copy.db", table = "copy", key_columns = ["id"]}'
    settings = f'handler = "poller.relays:sql"\n{table}\n'
    for isolation in ("thread", "process"):
        made = file.read_text().replace('handler = "handlers:on_orders"', f'{settings}isolation = "{isolation}"')
        (tmp_path / f"{isolation}.toml").write_text(made)
        monkeypatch.chdir("/")
        with load_app(tmp_path / f"{isolation}.toml", {}) as app:
            orders = app.pollers["orders"]
            assert {one.severity for one in orders.check() if one.check in ("handler", "relay")} == {"ok"}
            assert orders.tick().outcome == ("delivered" if isolation == "thread" else "idle")
            if isolation == "process":
                orders.reset("beginning", allow_skip=True)
                assert orders.tick().outcome == "delivered"
    assert rows_of(engine, "SELECT * FROM copy") == [(1, "2026-01-01 00:00:00.000")]
    engine.dispose()
