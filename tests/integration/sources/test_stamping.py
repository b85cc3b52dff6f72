"""What a column's DEFAULT, a trigger and a view say of the zone of its times, and of zones by another name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy.exc import ProgrammingError

from poller.sources.stamping import (
    LOCAL,
    Origin,
    Reading,
    Rule,
    Stamp,
    Watched,
    assigned,
    follow,
    instants,
    is_earlier,
    mssql,
    of_name,
    oracle,
    read,
)

YEAR = instants(datetime(2026, 7, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("family", "sql", "reading", "zone"),
    [
        ("postgresql", "now()", Reading.SESSION, ""),
        ("postgresql", "CURRENT_TIMESTAMP", Reading.SESSION, ""),
        ("postgresql", "('now'::text)::timestamp without time zone", Reading.SESSION, ""),
        ("postgresql", "date_trunc('second', clock_timestamp())", Reading.SESSION, ""),
        ("postgresql", "(now() AT TIME ZONE 'utc'::text)", Reading.FIXED, "utc"),
        ("postgresql", "timezone('Europe/Berlin'::text, now())", Reading.FIXED, "Europe/Berlin"),
        ("postgresql", "now() AT TIME ZONE 'utc' AT TIME ZONE 'Europe/Berlin'", Reading.UNKNOWN, ""),
        ("postgresql", "LOCALTIMESTAMP AT TIME ZONE 'utc'", Reading.UNKNOWN, ""),
        ("postgresql", "(now() AT TIME ZONE '02:00:00'::interval)", Reading.UNKNOWN, ""),  # ISO's sign
        ("postgresql", "shop.utc_now()", Reading.UNKNOWN, ""),
        ("postgresql", "'2026-01-01 00:00:00'::timestamp without time zone", Reading.NOTHING, ""),
        ("mysql", "current_timestamp(6)", Reading.SESSION, ""),
        ("mysql", "utc_timestamp(6)", Reading.FIXED, "UTC"),
        ("mysql", "convert_tz(now(), 'SYSTEM', '+00:00')", Reading.UNKNOWN, ""),
        ("mysql", "2026-01-01 00:00:00", Reading.NOTHING, ""),
        ("sqlite", "CURRENT_TIMESTAMP", Reading.FIXED, "UTC"),
        ("sqlite", "strftime('%Y-%m-%dT%H:%M:%f', 'now')", Reading.FIXED, "UTC"),
        ("sqlite", "datetime('now', 'localtime')", Reading.FIXED, LOCAL),
        ("sqlite", "datetime('now', '+2 hours')", Reading.UNKNOWN, ""),
        ("sqlite", "''", Reading.NOTHING, ""),
        ("mssql", "(getdate())", Reading.SESSION, ""),
        ("mssql", "(CONVERT([datetime2](7),sysutcdatetime()))", Reading.FIXED, "UTC"),
        ("mssql", "SYSDATETIMEOFFSET() AT TIME ZONE 'UTC'", Reading.FIXED, "UTC"),
        ("mssql", "[dbo].[utc_now]()", Reading.UNKNOWN, ""),
        ("oracle", "SYSDATE", Reading.SESSION, ""),
        ("oracle", "SYS_EXTRACT_UTC(SYSTIMESTAMP)", Reading.FIXED, "UTC"),
        ("oracle", "CAST(SYSTIMESTAMP AT TIME ZONE 'UTC' AS TIMESTAMP)", Reading.FIXED, "UTC"),
        ("oracle", "CURRENT_TIMESTAMP", Reading.UNKNOWN, ""),  # of each client's session
    ],
)
def test_the_zone_of_an_expression(family: str, sql: str, reading: Reading, zone: str) -> None:
    assert read(sql, family) == (reading, zone)


@pytest.mark.parametrize(
    ("family", "sql", "earlier"),
    [
        ("postgresql", "date_trunc('hour'::text, now())", True),
        ("postgresql", "date_trunc('milliseconds'::text, now())", False),
        ("postgresql", "(now() - '00:01:00'::interval)", True),
        ("postgresql", "(now())::date", True),
        ("postgresql", "(CURRENT_DATE + LOCALTIME)", False),
        ("postgresql", "'2026-01-01'::date", False),
        ("mysql", "date(utc_timestamp())", True),
        ("mysql", "current_timestamp(6)", False),
        ("sqlite", "date('now')", True),
        ("sqlite", "date('now') || ' ' || time('now')", False),
        ("sqlite", "datetime('now', 'start of month')", True),
        ("mssql", "cast(getdate() as date)", True),
        ("oracle", "trunc(sysdate)", True),
        ("oracle", "systimestamp", False),
    ],
)
def test_which_stamps_lie_before_their_moment(family: str, sql: str, earlier: bool) -> None:
    assert is_earlier(sql, family) is earlier


@pytest.mark.parametrize(
    ("body", "to_new", "expected"),
    [
        ("begin NEW.updated_at := now(); return new; end", True, ["now()"]),
        ('new."updated_at" = now() -- new.updated_at := utc;\n;', True, ["now()"]),
        ("begin new.total := 1; return new; end", True, []),
        ("begin new := jsonb_populate_record(new, tg_argv[0]); end", True, None),
        ("begin select now() into new.updated_at; return new; end", True, None),
        ("UPDATE orders SET n = 1, updated_at = datetime('now') WHERE id = NEW.id;", False, ["datetime('now')"]),
        ("begin if new.updated_at < old.updated_at then raise 'back'; end if; return new; end", True, []),
        ("begin if new.updated_at = old.updated_at then new.updated_at := now(); end if; end", True, ["now()"]),
        ("INSERT INTO log VALUES (old.updated_at);", False, []),
        ("UPDATE customers SET updated_at = now() WHERE id = new.customer_id;", False, []),
        ("UPDATE customers SET n = 1; UPDATE o SET updated_at = now() FROM shop.orders o", False, ["now()"]),
    ],
)
def test_what_a_trigger_gives_the_column(body: str, to_new: bool, expected: list[str] | None) -> None:
    found = assigned(body, "updated_at", to_new=to_new, tables=["orders"])
    assert (None if found is None else [one.strip() for one in found]) == expected


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ("select * from orders", (None, "orders", "updated_at")),
        ("select o.*, c.name from shop.orders o join c on c.id = o.c", ("shop", "orders", "updated_at")),
        ("select id, changed as updated_at from seen", (None, "orders", "at")),
        ("select greatest(a, b) as updated_at from orders", (None, None, "")),
        ("select * from a union all select * from b", (None, None, "")),
        ("select *, now() as n from (select * from orders) as o", (None, None, "")),
    ],
)
def test_a_column_is_followed_to_its_table(query: str, at: tuple[str | None, str | None, str]) -> None:
    views = {"seen": "select id, at as changed from orders"}
    found = follow("mysql", None, None, query, "updated_at", lambda _, name: views.get(name))
    assert (found.schema, found.table, found.column) == at


def test_zones_are_compared_by_their_clocks_not_by_their_names() -> None:
    def stamp(name: str) -> Stamp:
        return Stamp(name, "the server", of_name(name, YEAR))

    assert not any(stamp(name).differs(UTC) for name in ("UTC", "Etc/UTC", "GMT", "+00:00"))
    assert stamp("Europe/London").differs(UTC)  # though it is the same in winter
    assert not stamp("Europe/Berlin").differs(ZoneInfo("Europe/Paris"))
    assert not Stamp("", "a trigger", None).differs(UTC)
    assert [stamp(name).iana for name in ("Etc/UCT", "Asia/Tokyo", "+05:00", "-05:30")] == [
        "UTC",
        "Asia/Tokyo",
        "Etc/GMT-5",
        None,
    ]


class Pretended:
    """A connection to a server that is not available here: it answers by a word in the statement."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        rows = next(rows for word, rows in self._answers.items() if word in str(statement))
        if isinstance(rows, Exception):
            raise rows
        return Rows(SimpleNamespace(**row) if isinstance(row, dict) else row for row in rows)


class Rows(list[Any]):
    """The rows of an answer."""

    def one_or_none(self) -> Any:
        return self[0] if self else None

    one = scalar_one = one_or_none

    def scalars(self) -> Rows:
        return self


def test_sql_servers_zone_by_its_name_or_as_it_is_now() -> None:
    watched = Watched("mssql", "dbo", "orders", None, "updated_at")
    denied = ProgrammingError("SELECT", {}, Exception("CURRENT_TIMEZONE_ID is not a recognized built-in function name"))
    clock = datetime(2026, 7, 1)
    for answers, zone in (
        ({"VALUES": [-300] * len(YEAR), "CURRENT_TIMEZONE_ID": ["SA Pacific Standard Time"]}, "Etc/GMT+5"),
        ({"CURRENT_TIMEZONE_ID": denied, "SYSDATETIME": [{"minutes": 121, "clock": clock}]}, "Etc/GMT-2"),
    ):
        connection: Any = Pretended(answers)
        (stamp,) = mssql.server(connection, watched, Origin("dbo", "orders", "updated_at"), YEAR)
        assert stamp.iana == zone
        assert stamp.differs(UTC)


def test_sql_servers_default_trigger_and_rowversion() -> None:
    body = "CREATE TRIGGER touch ON orders AFTER UPDATE AS UPDATE o SET updated_at = SYSUTCDATETIME() FROM orders o"
    facts = {"has_default": 7, "is_computed": False, "computed": None}
    connection: Any = Pretended(
        {
            "sys.views": [],
            "sys.columns": [{"kind": "datetime2", "made": "(getdate())", **facts}],
            "sys.triggers": [{"name": "touch", "events": "UPDATE", "body": body}],
        }
    )
    found = mssql.origin(connection, Watched("mssql", "dbo", "orders", None, "updated_at"))
    assert [(rule.sql or "").strip() for rule in found.rules] == ["(getdate())", "SYSUTCDATETIME()"]
    assert any(rule.updates for rule in found.rules)
    connection = Pretended(
        {"sys.views": [], "sys.columns": [{"kind": "timestamp", "made": None, **facts}], "sys.triggers": []}
    )
    assert any(rule.updates for rule in mssql.origin(connection, Watched("mssql", None, "orders", None, "rv")).rules)


def test_oracles_zone_and_trigger() -> None:
    watched = Watched("oracle", None, "orders", None, "updated_at")
    body = "BEGIN :NEW.updated_at := SYS_EXTRACT_UTC(SYSTIMESTAMP); END;"
    connection: Any = Pretended(
        {
            "all_views": [],
            "all_tab_cols": [{"kind": "TIMESTAMP(6)", "made": "SYSTIMESTAMP ", "generated": "NO"}],
            "all_triggers": [{"name": "TOUCH", "event": "INSERT OR UPDATE", "condition": None, "body": body}],
            "TIMEZONE_HOUR": [{"zone": "-05:00", "seconds": -18000, "clock": "2026-07-01T12:00:00"}],
        }
    )
    found = oracle.origin(connection, watched)
    assert [rule.what for rule in found.rules] == ["the column's DEFAULT SYSTIMESTAMP", 'the trigger "TOUCH"']
    assert found.rules[1] == Rule('the trigger "TOUCH"', "SYS_EXTRACT_UTC(SYSTIMESTAMP)", True, True)
    (stamp,) = oracle.server(connection, watched, found, YEAR)
    assert (stamp.iana, stamp.differs(UTC)) == ("Etc/GMT+5", True)
