"""What PostgreSQL's JSON and intervals become in the tables of `poller.relays:sql`: the same, or the same text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, inspect, make_url, text

from poller import Poller, load_app
from poller.relays import relay
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.sources.tables import execute
from tests.support.server import DatabaseServer
from tests.support.services import wait_until

DOCUMENTS = (
    '{"p": 0.12345678901234567890123}',
    '{"b": 1.10, "a": [1e3, null, "x"]}',
    "0.12345678901234567890123",
    "123456789012345678901234567890",
    "1.50",
    "[true]",
    "true",
    "null",
    '"hello"',
    '"[1,2]"',
    '"{\\"a\\": 1}"',
    "[]",
    '"é \\\\ \\" \\n"',
)
INTERVALS = ("1 mon", "1 year", "-1 mons +2 days", "1 day", "24:00:00", "-01:00:00", "1 year 2 mons 3 days 04:05:06.7")
COLUMNS = {
    "postgresql": "doc jsonb, raw json, docs jsonb[], span interval, spans interval[]",
    "mariadb": "doc json, raw json, docs json, span varchar(99), spans longtext",
    "sqlite": "doc json, raw json, docs json, span text, spans text",
}
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rows": ({}, {}),
    "text": ({"json": "text"}, {}),
    "arrow": ({"format": "arrow"}, {}),
    "another process": ({}, {"isolation": "process"}),
    "lanes": ({}, {"concurrency": 3, "batch_size": 2}),
}
"""How rows are read, and how they are handed over."""


@pytest.fixture
def source(postgres_db: str) -> str:
    """A table of each document and interval, and of rows without any."""
    with psycopg.connect(postgres_db.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE copy (id integer PRIMARY KEY, {COLUMNS['postgresql']})".encode())
        insert = "INSERT INTO copy VALUES (%s, %s::jsonb, %s::json, %s::jsonb[], %s::interval, %s::interval[])"
        for id_, doc in enumerate(DOCUMENTS):
            span = INTERVALS[id_ % len(INTERVALS)]
            connection.execute(insert, [id_, doc, doc, [doc, None], span, [span, None]])
        connection.execute("INSERT INTO copy VALUES (99)")
    return postgres_db


@contextmanager
def made(request: pytest.FixtureRequest, folder: Path) -> Iterator[Engine]:
    with ExitStack() as ends:
        url = f"sqlite:///{folder}/target.db"
        if request.param != "sqlite":
            kind = {"postgresql": "postgres"}.get(request.param, request.param)
            server: DatabaseServer = request.getfixturevalue(f"{kind}_server")
            url = server.new_database()
            ends.callback(server.drop_database, url)
        engine = create_engine(url)
        ends.callback(engine.dispose)
        with engine.begin() as connection:
            connection.execute(text(f"CREATE TABLE copy (id integer PRIMARY KEY NOT NULL, {COLUMNS[request.param]})"))
        yield engine


TOO_LONG = {2, 3}
"""The numbers that are no double and no integer of 64 bits."""


@pytest.fixture(params=["postgresql", "mariadb"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """The same table, in a database of its own."""
    with made(request, tmp_path) as engine:
        yield engine


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def any_target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """The same with SQLite, which has no type for JSON."""
    with made(request, tmp_path) as engine:
        yield engine


def reading(url: str, **options: Any) -> SqlSource:
    keys: dict[str, Any] = {"cursor_column": "id", "cursor_kind": "integer+pk", "pk_columns": ["id"], "bound": "none"}
    if "query" not in options:
        keys["table"] = "copy"
    return SqlSource(url, **keys, **options)


def copied(url: str, to: Engine, options: dict[str, Any] | None = None, **more: Any) -> dict[str, list[Any]]:
    """One tick; then the columns of both tables as text, but for the ids. Each pair should be the same."""
    write = relay("sql", url=to.url.render_as_string(hide_password=False), table="copy", key_columns=["id"])
    with Poller("copy", source=reading(url, **(options or {})), store=MemoryStore(), app_name="shop", **more) as one:
        result = one.tick(write)
        assert (result.outcome, result.rows) == ("delivered", len(DOCUMENTS) + 1), result.error
    write.close()
    return stored(to)


def stored(engine: Engine) -> dict[str, list[Any]]:
    names = ["doc", "raw", "docs", "span", "spans"]
    cast = {"postgresql": "{}::text", "mysql": "{}", "mariadb": "{}", "sqlite": "CAST({} AS text)"}[engine.dialect.name]
    with engine.connect() as connection:
        rows = connection.execute(text(f"SELECT {', '.join(cast.format(n) for n in names)} FROM copy ORDER BY id"))
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def table_of(url: str) -> dict[str, list[Any]]:
    engine = create_engine(url)
    try:
        return stored(engine)
    finally:
        engine.dispose()


@pytest.mark.guarantee(
    "Delivery",
    "JSON and intervals go through the relay `sql` as their database wrote them, also from a record of a row that "
    "waited; what a column cannot hold is refused by name",
)
def test_json_arrives_as_it_was_written(source: str, target: Engine) -> None:
    wanted = table_of(source)
    for way, (read, handed) in WAYS.items():
        with target.begin() as connection:
            for table in inspect(connection).get_table_names():
                connection.execute(text(f"DELETE FROM {table}"))
        found = copied(source, target, read, **handed)
        assert (found["doc"], found["raw"]) == (wanted["doc"], wanted["raw"]), way
        if target.dialect.name == "postgresql":
            assert found == wanted, way
        else:
            assert found["docs"] == [None if one is None else f"[{one},null]" for one in wanted["doc"]], way


def test_json_arrives_in_columns_of_text_by_its_values(source: str, any_target: Engine) -> None:
    target = any_target
    kind = "longtext" if target.dialect.name == "mysql" else "text"
    with target.begin() as connection:
        connection.execute(text("DROP TABLE copy"))
        columns = ", ".join(f"{name} {kind}" for name in ("doc", "raw", "docs", "span", "spans"))
        connection.execute(text(f"CREATE TABLE copy (id integer PRIMARY KEY NOT NULL, {columns})"))
    found, wanted = copied(source, target), table_of(source)
    read = [None if one is None else json.loads(one) for one in wanted["doc"]]
    for here, there, value in zip(found["doc"], wanted["doc"], read, strict=True):
        if value is None:
            assert here is None
        elif isinstance(value, str):
            assert here == value
        elif isinstance(value, bool):
            assert here in ("true", "1")
        else:
            assert here == there, "numbers have all their digits"


def test_a_handler_of_another_kind_has_values_as_before(source: str, tmp_path: Path) -> None:
    """Also after the relay read with the same source: JSON is parsed, and only months are text."""
    to = create_engine(f"sqlite:///{tmp_path}/any.db")
    with to.begin() as connection:
        connection.execute(text("CREATE TABLE copy (id integer PRIMARY KEY, doc text)"))
    found: list[Any] = []
    write = relay("sql", url=str(to.url), table="copy", key_columns=["id"], columns={"id": "id", "doc": "doc"})
    with Poller("copy", source=reading(source), store=MemoryStore(), app_name="shop") as one:
        assert one.tick(write).rows == len(DOCUMENTS) + 1
        one.reset("beginning", allow_skip=True)
        assert one.tick(lambda batch: found.extend(batch.rows)).rows == len(DOCUMENTS) + 1
        one.reset("beginning", allow_skip=True)
        assert one.tick(write).rows == len(DOCUMENTS) + 1
    write.close()
    to.dispose()
    assert [row["doc"] for row in found[:-1]] == [json.loads(one) for one in DOCUMENTS]
    assert [type(row["span"]) for row in found[:7]] == [str, str, str, timedelta, timedelta, timedelta, str]


def test_months_stay_months(source: str, any_target: Engine) -> None:
    target, wanted = any_target, table_of(source)["span"]
    if target.dialect.name == "sqlite":
        with target.begin() as connection:
            connection.execute(text("DROP TABLE copy"))
            connection.execute(
                text("CREATE TABLE copy (id integer PRIMARY KEY, doc text, raw text, docs text, span text, spans text)")
            )
    for way in ("rows", "arrow"):
        with target.begin() as connection:
            for table in inspect(connection).get_table_names():
                connection.execute(text(f"DELETE FROM {table}"))
        found = copied(source, target, WAYS[way][0])["span"]
        if target.dialect.name == "postgresql":
            assert found == wanted, "a day is no 24 hours either"
        for here, there in zip(found, wanted, strict=True):
            if there is None or has_months(there):
                assert here == there, way


def test_what_a_column_cannot_hold_is_refused_by_name(source: str, any_target: Engine) -> None:
    """Months in a time of MariaDB's, and numbers of JSON that SQLite's have no digits for."""
    kind = any_target.dialect.name
    column, expected = {
        "postgresql": ("span", set[int]()),
        "mysql": ("span", {at for at in range(len(DOCUMENTS)) if has_months(INTERVALS[at % len(INTERVALS)])}),
        "sqlite": ("doc", TOO_LONG),
    }[kind]
    with any_target.begin() as connection:
        connection.execute(text("DROP TABLE copy"))
        columns = {"postgresql": "span interval", "mysql": "span time(6)", "sqlite": "doc json"}[kind]
        connection.execute(text(f"CREATE TABLE copy (id integer PRIMARY KEY NOT NULL, {columns})"))
    url = any_target.url.render_as_string(hide_password=False)
    write = relay("sql", url=url, table="copy", key_columns=["id"], columns={"id": "id", column: column})
    options: dict[str, Any] = {"on_poison": "quarantine", "max_attempts": 1}
    with Poller("copy", source=reading(source), store=MemoryStore(), app_name="shop", **options) as one:
        one.tick(write)
        listed = one.quarantine.list()
        assert {row.pk["id"] for row in [*listed.aside, *listed.pending]} == expected
        assert all(f'column "{column}"' in str(row.error) for row in [*listed.aside, *listed.pending])
    write.close()
    with any_target.connect() as connection:
        ids = {row[0] for row in connection.execute(text("SELECT id FROM copy"))}
    assert ids == {*range(len(DOCUMENTS)), 99} - expected


@pytest.mark.parametrize("target", ["postgresql"], indirect=True)
def test_a_row_that_was_set_aside_is_written_as_it_was_read(source: str, target: Engine) -> None:
    url = target.url.render_as_string(hide_password=False)
    options: dict[str, Any] = {"on_poison": "quarantine", "max_attempts": 1, "retry_backoff": "1s", "max_aside": 100}
    write = relay("sql", url=url, table="copy", key_columns=["id"])
    with target.begin() as connection:
        connection.execute(text("DROP TABLE copy"))
        columns = COLUMNS["postgresql"]
        connection.execute(text(f"CREATE TABLE copy (id integer PRIMARY KEY NOT NULL CHECK (id > 99), {columns})"))
    with Poller("copy", source=reading(source), store=MemoryStore(), app_name="shop", **options) as one:
        one.tick(write)
        assert len(one.quarantine.list().aside) == len(DOCUMENTS) + 1
        write.close()
        with target.begin() as connection:
            connection.execute(text("DROP TABLE copy"))
            connection.execute(text(f"CREATE TABLE copy (id integer PRIMARY KEY NOT NULL, {columns})"))
        wait_until(lambda: one.tick(write).ok and not one.quarantine.list().aside, "all rows", seconds=120)
    write.close()
    found, wanted = stored(target), table_of(source)
    assert found == wanted


@pytest.mark.parametrize("target", ["postgresql"], indirect=True)
def test_a_table_with_an_identity_and_collations_is_read_too(source: str, target: Engine) -> None:
    """SQLAlchemy asks for these in JSON."""
    execute(source, 'ALTER TABLE copy ADD name text COLLATE "C", ALTER id ADD GENERATED BY DEFAULT AS IDENTITY')
    with target.begin() as connection:
        connection.execute(text("ALTER TABLE copy ADD name varchar(20)"))
    assert copied(source, target)["doc"] == table_of(source)["doc"]
    assert copied(source, target, {"json": "text"})["doc"] == table_of(source)["doc"]


@pytest.mark.parametrize("target", ["postgresql"], indirect=True)
def test_json_fills_arrays_and_domains(source: str, target: Engine) -> None:
    """Lists of numbers an array; a domain what it is made of."""
    execute(source, "DELETE FROM copy WHERE id NOT IN (3, 11)", "UPDATE copy SET doc = '[1, 2]', raw = '\"a\"'")
    with target.begin() as connection:
        connection.execute(text("CREATE DOMAIN document AS jsonb"))
        connection.execute(text("ALTER TABLE copy DROP doc, DROP raw, ADD doc integer[], ADD raw document"))
    write = relay("sql", url=target.url.render_as_string(hide_password=False), table="copy", key_columns=["id"])
    with Poller("copy", source=reading(source), store=MemoryStore(), app_name="shop") as one:
        assert one.tick(write).rows == 2
    write.close()
    found = stored(target)
    assert (found["doc"], found["raw"]) == (["{1,2}"] * 2, ['"a"'] * 2)


MARIADB = ('{"a":0.12345678901234567890123}', "1.50", "true", "null", '"hello"', '"[1,2]"', "[1, 2]")


def test_json_of_mariadb_arrives_as_it_was_written(mariadb_db: str, any_target: Engine) -> None:
    engine = create_engine(mariadb_db)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE copy (id integer PRIMARY KEY, doc json, `do``c` json, plain longtext)"))
        for id_, doc in enumerate(MARIADB):
            given = {"id": id_, "doc": doc}
            connection.execute(text("INSERT INTO copy VALUES (:id, :doc, NULL, :doc)"), given)
    engine.dispose()
    with any_target.begin() as connection:
        connection.execute(text("DROP TABLE copy"))
        connection.execute(text("CREATE TABLE copy (id integer PRIMARY KEY NOT NULL, doc json, plain text)"))
    columns = {"id": "id", "doc": "doc", "plain": "plain"}
    url = any_target.url.render_as_string(hide_password=False)
    write = relay("sql", url=url, table="copy", key_columns=["id"], columns=columns)
    options: dict[str, Any] = {"on_poison": "quarantine", "max_attempts": 1}
    with Poller("copy", source=reading(mariadb_db), store=MemoryStore(), app_name="shop", **options) as one:
        assert one.tick(write).rows == len(MARIADB)
    write.close()
    with any_target.connect() as connection:
        doc = "doc" if any_target.dialect.name == "mysql" else "CAST(doc AS text)"
        rows = connection.execute(text(f"SELECT {doc}, plain FROM copy ORDER BY id")).all()
    assert [row[1] for row in rows] == list(MARIADB), "a text that looks like JSON is a text"
    short = any_target.dialect.name == "sqlite"  # whose columns keep JSON's numbers as numbers
    written = ["1.5" if short and one == "1.50" else one for one in MARIADB]
    assert [row[0] for row in rows] == written


@pytest.mark.parametrize("target", ["mariadb"], indirect=True)
def test_json_of_sqlite_arrives_as_it_was_written(tmp_path: Path, target: Engine) -> None:
    url = f"sqlite:///{tmp_path}/source.db"
    texts = ('{"a": 0.12345678901234567890123}', "true", "null", '"hello"', '"[1,2]"')
    execute(url, "CREATE TABLE copy (id integer PRIMARY KEY, doc JSON)")
    rows = [{"id": id_, "doc": doc} for id_, doc in enumerate([*texts, "1.5", "no JSON"])]
    execute(url, "INSERT INTO copy VALUES (:id, :doc)", rows=rows)
    write = relay("sql", url=target.url.render_as_string(hide_password=False), table="copy", key_columns=["id"])
    with Poller("copy", source=reading(url), store=MemoryStore(), app_name="shop") as one:
        assert one.tick(write).rows == len(rows)
    write.close()
    assert stored(target)["doc"] == [*texts, "1.5", '"no JSON"']


TEXTS = ("1.500", "12345678901234567890123", "1e400", "007", " 1 ", "true", "null", '"a"', '{"a": 1.50}', "[1, 2]")


@pytest.mark.parametrize("read", [{}, {"query": "SELECT * FROM copy"}], ids=["table", "query"])
def test_texts_stay_texts_in_columns_of_json(postgres_db: str, any_target: Engine, read: dict[str, Any]) -> None:
    """SQLite makes its own number of a text that looks like one, in a column that is declared as JSON."""
    execute(postgres_db, "CREATE TABLE copy (id integer PRIMARY KEY, doc varchar, raw numeric)")
    rows = [{"id": id_, "doc": doc} for id_, doc in enumerate(TEXTS)]
    execute(postgres_db, "INSERT INTO copy VALUES (:id, :doc, 12345678901234567890123.500)", rows=rows)
    write = relay("sql", url=any_target.url.render_as_string(hide_password=False), table="copy", key_columns=["id"])
    with Poller("copy", source=reading(postgres_db, **read), store=MemoryStore(), app_name="shop") as one:
        result = one.tick(write)
        assert (result.outcome, result.rows) == ("delivered", len(TEXTS)), result.error
    write.close()
    found = stored(any_target)
    assert found["doc"] == [doc if doc[0] in "{[" else json.dumps(doc) for doc in TEXTS]
    assert set(found["raw"]) == {'"12345678901234567890123.500"'}


def test_an_integer_beyond_sqlites_is_refused_for_its_json(mariadb_db: str, tmp_path: Path) -> None:
    execute(mariadb_db, "CREATE TABLE copy (id integer PRIMARY KEY, doc bigint unsigned)")
    execute(mariadb_db, "INSERT INTO copy VALUES (1, 9223372036854775807), (2, 18446744073709551615), (3, 7)")
    target = f"sqlite:///{tmp_path}/numbers.db"
    execute(target, "CREATE TABLE copy (id integer PRIMARY KEY NOT NULL, doc JSON)")
    write = relay("sql", url=target, table="copy", key_columns=["id"])
    options: dict[str, Any] = {"on_poison": "quarantine", "max_attempts": 1}
    with Poller("copy", source=reading(mariadb_db), store=MemoryStore(), app_name="shop", **options) as one:
        one.tick(write)
        listed = one.quarantine.list()
        refused = [(row.pk["id"], "more digits" in str(row.error)) for row in [*listed.aside, *listed.pending]]
        assert refused == [(2, True)]
    write.close()
    engine = create_engine(target)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT id, doc FROM copy")).all() == [(1, 2**63 - 1), (3, 7)]
    engine.dispose()


def test_an_empty_text_is_no_missing_value_in_any_mode(mariadb_db: str, tmp_path: Path) -> None:
    origin = f"sqlite:///{tmp_path}/origin.db"
    execute(
        origin, "CREATE TABLE copy (id integer PRIMARY KEY, name text)", "INSERT INTO copy VALUES (1, ''), (2, NULL)"
    )
    execute(mariadb_db, "CREATE TABLE copy (id integer PRIMARY KEY, name varchar(9))")
    modes = make_url(mariadb_db).update_query_dict({"init_command": "SET sql_mode = 'EMPTY_STRING_IS_NULL'"})
    write = relay("sql", url=modes.render_as_string(hide_password=False), table="copy", key_columns=["id"])
    with Poller("copy", source=reading(origin), store=MemoryStore(), app_name="shop") as one:
        assert one.tick(write).rows == 2
    write.close()
    engine = create_engine(mariadb_db)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT name FROM copy ORDER BY id")).scalars().all() == ["", None]
    engine.dispose()


CONFIGURED = """
app_name = "shop"
[state]
store = "sql"
url = "sqlite:///state.db"
[pollers.copy]
handler = "poller.relays:sql"
audit_window = "2h"
[pollers.copy.relay]
url = "%TO%"
table = "copy"
key_columns = ["id"]
[pollers.copy.source]
url = "%FROM%"
table = "copy"
cursor_column = "id"
cursor_kind = "integer+pk"
pk_columns = ["id"]
bound = "none"
"""


@pytest.mark.parametrize("target", ["postgresql"], indirect=True)
def test_a_late_row_is_written_as_it_is_in_the_table(source: str, target: Engine, tmp_path: Path) -> None:
    file = tmp_path / "poller.toml"
    file.write_text(CONFIGURED)
    environ = {"FROM": source, "TO": target.url.render_as_string(hide_password=False)}
    with load_app(file, environ) as app:
        assert app.pollers["copy"].tick().rows == len(DOCUMENTS) + 1
    execute(
        source, "DELETE FROM copy WHERE id = 2", "INSERT INTO copy (id, doc) VALUES (98, '1.0000000000000000000001')"
    )
    with load_app(file, environ) as app:
        found = app.pollers["copy"].recheck()
        assert len(found.rows) == 1
        app.pollers["copy"].redeliver(found)
    with target.connect() as connection:
        written = connection.execute(text("SELECT doc::text FROM copy WHERE id = 98")).scalar_one()
    assert written == "1.0000000000000000000001"


def has_months(span: str) -> bool:
    return "mon" in span or "year" in span
