"""`format = "arrow"` on PostgreSQL: the rows, cursors and keys of `rows`, whichever way a page comes."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from poller.errors import SourceError, SourceUnavailable
from poller.model.cursor import Cursor
from poller.sources import SqlSource
from tests.integration.sources.tables import closing, execute

pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_postgresql")

from poller.sources.postgresql import adbc
from poller.sources.postgresql import arrow as tables
from tests.support.cases import each

COLUMNS = {
    "at": ("timestamptz", "timestamptz '2026-01-01 00:00:00.000001Z' + n / 3 * interval '0.7 s'"),
    "naive": ("timestamp", "timestamp '2026-01-01' + n * interval '1.000001 s'"),
    "day": ("date", "date '1999-12-31' + n"),
    "clock": ("time", "time '00:00' + n * interval '1.5 s'"),
    "small": ("smallint", "n"),
    "big": ("bigint", "9007199254740993 + n"),
    "price": ("numeric(12, 2)", "n * 1.10"),
    "odd": ("numeric", "case n % 3 when 0 then 'NaN'\\:\\:numeric when 1 then n else 1e-30 * n end"),
    "ratio": ("real", "n * 1.1"),
    "share": ("double precision", "n / 3.0"),
    "flag": ("boolean", "n % 2 = 0"),
    "name": ("text", "'n ' || lpad(n\\:\\:text, 6, '0')"),
    "padded": ("char(6)", "n\\:\\:text"),
    "doc": ("jsonb", """('{"n"\\: ' || n || ', "e"\\: "\\u00e9"}')\\:\\:jsonb"""),
    "uid": ("uuid", "md5(n\\:\\:text)\\:\\:uuid"),
    "raw": ("bytea", "decode(lpad(to_hex(n), 8, '0'), 'hex')"),
    "object": ("oid", "4294967295 - n"),
    "money": ("money", "n * 1.5"),
    "span": ("interval", "n * interval '1 mon 2 days 3.25 s'"),
    "mood": ("mood", "case n % 2 when 0 then 'sad' else 'happy' end\\:\\:mood"),
    "numbers": ("integer[]", "array[n, null, -n]"),
    "words": ("text[]", "array['a,b', null, '\"' || n]"),
    "prices": ("numeric[]", "array[n * 0.1]"),
    "times": ("timestamptz[]", "array[timestamptz '2026-01-01Z' + n * interval '1 h']"),
    "address": ("inet", "'10.0.0.1'\\:\\:inet + n"),
    "range": ("int4range", "int4range(n, n + 5)"),
    "pair": ("pair", "row(n, 'x,\"y')\\:\\:pair"),
    "half": ("pair", "row(case n % 3 when 0 then n end, null)\\:\\:pair"),
    "nothing": ("integer", "null"),
}
UNIQUE = ("uid", "name, day", "price", "at, raw", "big", "object")
ROWS = 1300


@pytest.fixture
def things(postgres_db: str) -> str:
    """A table with a column of each type, NULL in every fifth row where it may be."""
    declared = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    keys = ("at", "naive", "day", "big", "price", "name", "uid", "small", "raw", "object")
    chosen = ", ".join(
        f"cast({value if name in keys else f'case when n % 5 > 0 then {value} end'} as {kind})"
        for name, (kind, value) in COLUMNS.items()
    )
    execute(
        postgres_db,
        "create type mood as enum ('happy', 'sad')",
        "create type pair as (a integer, b text)",
        f"create table things (id integer primary key, {declared})",
        f"insert into things select n, {chosen} from generate_series(1, {ROWS}) n",
        *(f"alter table things alter {key} set not null" for key in keys),
        *(
            f"alter table things add unique ({key})"
            for key in ("uid", "name, day", "price", "at, raw", "big", "object")
        ),
    )
    return postgres_db


def source(url: Any, form: str = "arrow", **options: Any) -> SqlSource:
    given = {"table": "things", "cursor_column": "at", "pk_columns": ["id"], "bound": "none", "cursor_time_zone": "UTC"}
    json = {"json": "text"} if form == "rows" else {}
    return SqlSource(url, **{**given, "format": form, **json, **options})


def pages(found: SqlSource, size: int) -> Iterator[tuple[list[dict[str, Any]], list[Cursor], Any]]:
    after: Cursor | None = None
    while (page := found.page(after, size)).rows:
        yield [dict(row) for row in page.rows], list(page.cursors), page.table
        after = page.cursors[-1]


def connected(found: SqlSource) -> bool:
    session = adbc_of(found)
    return session is not None and session._connection is not None


def adbc_of(found: SqlSource) -> Any:
    """The session beside the pool's."""
    return found._session.database.facts().get("adbc")


def shown(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """By repr: NaN is not equal to itself, and Decimal('1.10') equals Decimal('1.1')."""
    return [repr(row) for row in rows]


@pytest.mark.guarantee(
    "Delivery",
    'With `format = "arrow"` rows, cursors and keys are those of `rows`, whichever way a page comes: a poller may '
    "change its format at any row",
)
@each(("size", "zone"), [(1200, "UTC"), (1200, "America/St_Johns"), (70, "Europe/Berlin")])
def test_rows_and_keys_are_those_of_the_format_rows(things: str, size: int, zone: str) -> None:
    """By ADBC and by psycopg."""
    url = sa.make_url(things).update_query_dict({"options": f"-c timezone={zone}"})
    with closing(source(url, "rows")) as rows, closing(source(url)) as arrow:
        for (wanted, cursors, none), (found, same, table) in zip(pages(rows, size), pages(arrow, size), strict=True):
            assert shown(found) == shown(wanted)
            assert same == cursors
            assert none is None
            assert (table.arrow().num_rows, table.arrow().column_names) == (len(wanted), list(wanted[0]))
        assert connected(arrow) is (size > tables.FEW)


@each("form", ["arrow", "rows"])
@each(("key", "constraint"), [("id", "things_pkey"), ("uid", "things_uid_key")])
def test_a_page_is_refused_once_its_key_is_not_unique(things: str, key: str, constraint: str, form: str) -> None:
    """Of the primary key the page itself asks, of another one the statement after it."""
    with closing(source(things, form, pk_columns=[key])) as reader:
        after = reader.page(None, 600).cursors[-1]
        execute(things, f"alter table things drop constraint {constraint}")
        for _ in range(2):
            with pytest.raises(SourceError, match=f"no unique index covers the key {key}"):
                reader.page(after, 600)
        execute(things, f"alter table things add constraint {constraint} unique ({key})")
        assert len(reader.page(after, 600).rows) == 600


def test_a_table_is_the_same_whichever_way_it_came(things: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(source(things)) as arrow:
        by_adbc = arrow.page(None, 1200).table
        assert connected(arrow)
        monkeypatch.setattr(tables, "FEW", 10_000)
        by_psycopg = arrow.page(None, 1200).table
    assert by_adbc is not None
    assert by_psycopg is not None
    assert by_adbc.arrow().equals(by_psycopg.arrow(), check_metadata=True)


@each(
    ("cursor", "kind", "keys"),
    [
        ("at", "timestamp+pk", ["id"]),
        ("naive", "timestamp+pk", ["uid"]),
        ("naive", "timestamp+pk", ["name", "day"]),
        ("day", "timestamp+pk", ["price"]),
        ("at", "timestamp+pk", ["at", "raw"]),
        ("big", "integer+pk", ["big"]),
        ("at", "timestamp+pk", ["object"]),
    ],
)
def test_a_poller_may_change_its_format_at_any_row(things: str, cursor: str, kind: str, keys: list[str]) -> None:
    options: dict[str, Any] = {"cursor_column": cursor, "cursor_kind": kind, "pk_columns": keys}
    with closing(source(things, "rows", **options)) as rows, closing(source(things, **options)) as arrow:
        assert arrow.describe() == rows.describe()
        seen: list[int] = []
        after: Cursor | None = None
        turns = [(arrow, 600), (rows, 7), (arrow, 5), (rows, 3), (arrow, 1000)]
        for turn, size in turns:
            page = turn.page(after, size)
            other = (rows if turn is arrow else arrow).page(after, size)
            assert list(page.cursors) == list(other.cursors)
            assert [turn.key(row, at) for row, at in zip(page.rows, page.cursors, strict=True)] == [
                turn.key(row, at) for row, at in zip(other.rows, other.cursors, strict=True)
            ]
            seen += [row["id"] for row in page.rows]
            after = page.cursors[-1]
    assert sorted(seen) == list(range(1, ROWS + 1))


@each("size", [1200, 70])
@each(
    ("column", "value"),
    [
        ("at", "infinity"),
        ("naive", "-infinity"),
        ("naive", "0044-03-15 12:00:00 BC"),
        ("naive", "294276-12-31 23:00:00"),
        ("day", "infinity"),
        ("day", "10000-01-01"),
        ("clock", "24:00"),
        ("numbers", "{{1,2},{3,4}}"),
    ],
)
def test_what_a_table_cannot_hold_is_refused(things: str, column: str, value: str, size: int) -> None:
    """ADBC returns another date, or a flat list, and no error."""
    execute(things, f"update things set {column} = '{value.replace(':', chr(92) + ':')}' where id = 3")
    with closing(source(things, cursor_column="big", cursor_kind="integer+pk")) as arrow:
        for _ in range(2):
            with pytest.raises(SourceError, match=column) as refused:
                arrow.page(None, size)
            assert 'format = "rows"' in refused.value.next_step
        execute(things, f"update things set {column} = default where id = 3" if column in ("clock", "numbers")
                else f"update things set {column} = '2026-01-01' where id = 3")  # fmt: skip
        assert len(arrow.page(None, size).rows) == size


def test_hostile_texts_of_a_checkpoint_stay_texts(postgres_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FEW", 0)
    names = [
        "'; drop table things; --",
        "\\'; drop table things; --",
        "x' OR 1=1 --",
        "E'\\x27",
        ":bound",
        "\\:v",
        "::text",
        "%s %(v)s %%",
        "$1 $tag$ x $tag$",
        "a\nb\tc\u2028d\x7f",
        "ä\U0001f600",
        "poller_here",
    ]
    execute(postgres_db, "create table things (at timestamptz, name text primary key, id integer)")
    rows = [{"name": name, "id": n} for n, name in enumerate(names)]
    execute(postgres_db, "insert into things values ('2026-01-01Z', :name, :id)", rows=rows)
    options: dict[str, Any] = {"pk_columns": ["name"], "filter": "name not like '%:never:%' and name <> E'\\\\:x'"}
    with closing(source(postgres_db, "rows", **options)) as wanted, closing(source(postgres_db, **options)) as arrow:
        for name in (*names, "", "zzz'"):
            after = Cursor(kind="timestamp+pk", value="2026-01-01T00:00:00.000000Z", tiebreaker={"name": name})
            assert shown(list(arrow.page(after, 100).rows)) == shown(list(wanted.page(after, 100).rows))
        assert connected(arrow)
        for hostile in ("2026-01-01'; drop table things; --", "'::timestamptz); delete from things; --"):
            with pytest.raises(SourceError):
                arrow.page(Cursor(kind="timestamp+pk", value=hostile, tiebreaker={"name": "a"}), 100)
        assert len(arrow.page(None, 100).rows) == len(names)


@pytest.mark.guarantee("Delivery", "A table is read on the bound's server, and no text of a checkpoint becomes SQL")
def test_rows_of_another_server_are_not_used(
    things: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An address may lead elsewhere the second time: here to another database."""
    elsewhere = adbc._address
    name = sa.make_url(things).database
    monkeypatch.setattr(adbc, "_address", lambda beside: elsewhere(beside).replace(f"dbname={name}", "dbname=postgres"))
    with closing(source(things)) as arrow, caplog.at_level(logging.WARNING, "poller"):
        for _ in range(2):
            assert len(arrow.page(None, 1200).rows) == 1200
    said = [one.getMessage() for one in caplog.records if "without ADBC" in one.getMessage()]
    assert len(said) == 1
    assert "another server" in said[0]


def test_a_page_of_another_session_is_not_used(things: str, caplog: pytest.LogCaptureFixture) -> None:
    with closing(source(things)) as arrow:
        arrow.page(None, 1200)
        adbc_of(arrow)._here += 1  # as if a pooler had changed the session behind the connection
        with caplog.at_level(logging.WARNING, "poller"):
            assert len(arrow.page(None, 1200).rows) == 1200
        assert "in another session" in caplog.text
        arrow._session.tables.not_before = float("-inf")  # type: ignore[union-attr]
        arrow.page(None, 1200)
        assert connected(arrow), "it is tried again later"


def test_a_lost_connection_of_the_driver_costs_no_row(things: str, caplog: pytest.LogCaptureFixture) -> None:
    with closing(source(things, filter="price > 0 and name <> 'top secret'")) as arrow:
        arrow.page(None, 1200)
        execute(
            things,
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where query like '%hashtextextended%' and pid <> pg_backend_pid()",
        )
        with caplog.at_level(logging.WARNING, "poller"):
            assert len(arrow.page(None, 1200).rows) == 1200
        assert "top secret" not in caplog.text, "the driver's errors quote the statement"


def test_the_query_timeout_holds(things: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FEW", 0)
    slow = "select t.*, pg_sleep(0.5) as slept from things t"
    with closing(source(things, table=None, query=slow, query_timeout="300ms")) as arrow:
        for _ in range(2):
            with pytest.raises(SourceUnavailable, match="300ms"):
                arrow.page(None, 1200)


def test_a_driver_that_never_answers_is_given_up() -> None:
    never = threading.Event()
    session = adbc.AdbcSession()
    session._seconds = 0.02
    with pytest.raises(OperationalError, match="statement timeout"):
        session._bounded(never.wait, "read")
    assert session._bounded(lambda: 1, "read") == 1, "on another thread"
    never.set()
    session.close()


def test_columns_that_change_are_seen(things: str) -> None:
    with closing(source(things)) as arrow:
        arrow.page(None, 1200)
        execute(things, "alter table things add extra integer default 7, drop share")
        assert set(arrow.page(None, 1200).rows[0]) >= {"extra"}
        execute(things, "alter table things alter small type text")
        assert arrow.page(None, 1200).rows[0]["small"] == "1"
        execute(things, "alter table things alter small type integer using small\\:\\:integer")
        assert arrow.page(None, 1200).rows[0]["small"] == 1


def test_a_given_engine_is_read_by_its_own_connections(things: str, caplog: pytest.LogCaptureFixture) -> None:
    engine = sa.create_engine(things)
    with caplog.at_level(logging.WARNING, "poller"), closing(source(engine)) as arrow:
        page = arrow.page(None, 1200)
        assert page.table is not None
        assert page.table.arrow().num_rows == 1200
        assert not connected(arrow)
    assert "was given an engine" in caplog.text
    engine.dispose()


def test_options_of_the_url_and_the_password_reach_the_driver(things: str) -> None:
    url = sa.make_url(things).set(password="s'ecret \\x", query={"connect_timeout": "3", "application_name": "my app"})
    with closing(source(url.render_as_string(hide_password=False))) as arrow:
        arrow.page(None, 1200)
        assert connected(arrow)
        session: Any = arrow._session
        from psycopg.conninfo import conninfo_to_dict

        given = conninfo_to_dict(adbc._address(session.database.driver_connection()))
        assert (given["password"], given["connect_timeout"], given["application_name"]) == (
            "s'ecret \\x",
            "3",
            "my app",
        )
        said = adbc_of(arrow)._asked("select current_setting('application_name') union all"
                                     " select current_setting('default_transaction_read_only')")  # fmt: skip
        assert said.column(0).to_pylist() == ["my app", "on"]


def test_a_query_and_chosen_columns_come_as_tables(things: str) -> None:
    query = "select id, at, name, price from things where id % 2 = 0 -- even"
    for options in ({"table": None, "query": query}, {"columns": ["name"]}):
        with closing(source(things, "rows", **options)) as rows, closing(source(things, **options)) as arrow:
            page = arrow.page(None, 600)
            assert shown(list(page.rows)) == shown(list(rows.page(None, 600).rows))
            assert connected(arrow)


FORKING = """
import os, sys
from poller.sources import SqlSource

source = SqlSource(sys.argv[1], table="things", cursor_column="at", pk_columns=["id"], bound="none", format="arrow")
first = source.page(None, 600)
child = os.fork()
rows = len(source.page(first.cursors[-1], 600).rows)
here = source._session.database.facts()["adbc"]._asked("select pg_backend_pid()").column(0)[0].as_py()
if child == 0:
    print(rows, here, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(len(source.page(first.cursors[-1], 600).rows), here)
source.close()
"""


def test_a_forked_child_reads_by_a_connection_of_its_own(things: str) -> None:
    ended = subprocess.run([sys.executable, "-c", FORKING, things], capture_output=True, text=True, timeout=60)
    child, parent = (line.split() for line in ended.stdout.splitlines())
    assert (child[0], parent[0], ended.stderr) == ("600", "600", "")
    assert child[1] != parent[1]
