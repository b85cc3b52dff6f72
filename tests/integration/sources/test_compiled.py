"""The statements as each database gets them. SQL Server is held by its text alone: none runs here."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mssql, mysql, postgresql, sqlite

from poller.model.cursor import Cursor
from poller.sources.columns import CursorColumn, Family
from poller.sources.database import dialect_for
from poller.sources.page import Relation, Statements

ENGINES: dict[str, Callable[[], Any]] = {
    "mssql": mssql.dialect,
    "postgresql": postgresql.dialect,
    "mysql": mysql.dialect,
    "sqlite": sqlite.dialect,
}
_DATETIME2: Any = mssql.DATETIME2
_DATETIMEOFFSET: Any = mssql.DATETIMEOFFSET
CURSORS = {
    "mssql": _DATETIME2(7),
}
AFTER = Cursor(kind="timestamp+pk", value="2026-01-01T00:00:00.1234567", tiebreaker={"region": "eu", "id": 7})


def _statements(family: str, kind: Any = None) -> Statements:
    dialect = dialect_for(family)
    quote = ENGINES[family]().identifier_preparer.quote
    if family in CURSORS:
        cursor = dialect.from_type("updated_at", kind or CURSORS[family], False)
        keys = [dialect.from_type("region", sa.VARCHAR(8), False), dialect.from_type("id", sa.Integer(), False)]
    else:
        cursor = CursorColumn("updated_at", Family.TIMESTAMP, "timestamp")
        keys = [CursorColumn("region", Family.TEXT, "text"), CursorColumn("id", Family.INTEGER, "integer")]
    relation = Relation.table("Orders", "shop", "(a = 1 OR b = 2)", quote)
    return Statements(dialect, quote, relation, cursor, keys, ("id", "updated_at", "region"))


def _page(family: str, after: Cursor | None = AFTER, below: str | None = None, kind: Any = None) -> list[str]:
    statements = _statements(family, kind)
    return [_text(family, statements.select(r, 10)[0]) for r in statements.ranges(after, below)]


def _text(family: str, query: sa.Select[Any]) -> str:
    """As a server of the family gets it, with its parameters as they are bound."""
    made: Any = ENGINES[family]
    return " ".join(str(query.compile(dialect=made(paramstyle="named"))).split())


ORDERING = {
    "mssql": (
        "CAST([Orders].customer AS varchar(64)) AS poller_ordering_0",
        "CAST([Orders].name AS nvarchar(max)) AS poller_ordering_1",
        "CAST([Orders].rate AS nvarchar(max)) AS poller_ordering_2",
        "LOWER(CONVERT(varchar(max), [Orders].token, 2)) AS poller_ordering_3 FROM",
    ),
}


@pytest.mark.parametrize("family", list(ORDERING))
def test_an_ordering_keys_text_follows_the_cursors(family: str) -> None:
    dialect = dialect_for(family)
    quote = ENGINES[family]().identifier_preparer.quote
    kinds = {"customer": sa.Integer(), "name": sa.String(200), "rate": sa.Float(), "token": sa.LargeBinary()}
    ordering = [dialect.from_type(name, kind, True) for name, kind in kinds.items()]
    cursor = dialect.from_type("updated_at", CURSORS[family], False)
    key = dialect.from_type("id", sa.Integer(), False)
    relation = Relation.table("Orders", None, None, quote)
    statements = Statements(dialect, quote, relation, cursor, [key], ("id", "updated_at"), (), ordering)
    sql = _text(family, statements.select(statements.ranges(None, None)[0], 10)[0])
    places = [sql.index(text) for text in (" poller_cursor_0", *ORDERING[family])]
    assert places == sorted(places)


@pytest.mark.parametrize("family", ["mysql", "sqlite", "mssql"])
def test_a_tie_is_a_range_of_its_own(family: str) -> None:
    tie, rest = _page(family)
    inside = ".updated_at <= " if family == "mysql" else ".updated_at = "
    assert inside in tie.partition("WHERE")[2].replace("]", "").replace("`", "")
    assert ".updated_at > " in rest.partition("WHERE")[2].replace("]", "")
    assert "region >" not in rest.partition("WHERE")[2]


def test_sql_server_to_the_last_100_nanoseconds() -> None:
    tie, rest = _page("mssql", below="2026-02-01T00:00:00.0000000")
    assert rest.startswith(
        "SELECT TOP __[POSTCOMPILE_param_1] [Orders].id, [Orders].updated_at, [Orders].region, STUFF(LEFT(CONVERT("
    )
    assert "CAST([Orders].updated_at AS datetime2(7)), 121), 27), 11, 1, 'T') AS poller_cursor_0" in rest
    assert "FROM shop.[Orders] AS [Orders] WHERE (a = 1 OR b = 2)" in rest
    assert "[Orders].updated_at > CAST(:v AS datetime2(7))" in rest
    assert "[Orders].updated_at < CAST(:bound AS datetime2(7))" in rest
    assert "[Orders].region >= CAST(:k0 AS varchar(8)) AND ([Orders].region > CAST(:k0 AS varchar(8)) OR [" in tie
    assert "NOLOCK" not in tie + rest


@pytest.mark.parametrize(
    ("kind", "rendered", "taken_back"),
    [
        (_DATETIME2(3), "datetime2(7)), 121), 26)", "CAST(:v AS datetime2(7))"),
        (mssql.DATETIME(), "datetime2(7)), 121), 27)", "CAST(CAST(:v AS datetime2(7)) AS datetime)"),
        (mssql.SMALLDATETIME(), "datetime2(7)), 121), 26)", "CAST(CAST(:v AS datetime2(7)) AS smalldatetime)"),
        (_DATETIMEOFFSET(7), "SWITCHOFFSET([Orders].updated_at, '+00:00')", "CAST(:v AS datetimeoffset(7))"),
        (mssql.DATE(), "CONVERT(varchar(10), [Orders].updated_at, 23)", "CAST(:v AS date)"),
    ],
)
def test_sql_servers_time_types(kind: Any, rendered: str, taken_back: str) -> None:
    sql = _page("mssql", kind=kind)[1]
    assert rendered in sql
    assert taken_back in sql


def test_a_zone_suffix_is_bound_as_the_database_reads_it() -> None:
    dialect = dialect_for("mssql")
    bound = dialect.bind("2026-01-01T00:00:00.0000000Z", dialect.from_type("c", _DATETIMEOFFSET(7), False))
    assert bound == "2026-01-01T00:00:00.0000000Z"


@pytest.mark.parametrize("family", list(ENGINES))
def test_every_other_statement_compiles(family: str) -> None:
    statements = _statements(family)
    for query in (
        *(statements.lag(stretch, 5)[0] for stretch in statements.ranges(AFTER, None)),
        statements.lag(statements.ranges(AFTER, None)[0], 5, nulls=9)[0],
        statements.between(None, AFTER, 5)[0],
        statements.between(AFTER, AFTER, 5)[0],
        statements.nulls(5)[0],
        statements.clock(),
        statements.highest(),
        *(probe for _, probe in statements.bad_keys(5)),
    ):
        assert _text(family, query)


def test_a_text_is_rendered_whole_and_with_its_national_characters() -> None:
    column = dialect_for("mssql").from_type("c", sa.Unicode(200), False)
    assert column.family is Family.TEXT
    assert dialect_for("mssql").render("c", column) == "CAST(c AS nvarchar(max))"
    assert dialect_for("mssql").render("n", CursorColumn("n", Family.INTEGER)) == "CAST(n AS varchar(64))"


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (("c", Decimal, None, 38, 38, 18, True), "numeric(38, 18)"),
        (("c", Decimal, None, 12, 12, 0, True), "numeric(12, 0)"),
        (("c", Decimal, None, None, None, None, None), "numeric(38, 10)"),
        ((), "numeric(38, 10)"),
    ],
)
def test_a_querys_number_keeps_all_its_digits(described: tuple[object, ...], expected: str) -> None:
    dialect = dialect_for("mssql")
    assert dialect.casts(dialect.from_value("c", Decimal("1.5"), described)) == (expected,)
