"""What a column's DEFAULT, a trigger and a view say of the zone of its times, and of zones by another name."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from poller.sources.stamping import (
    Reading,
    Stamp,
    Watched,
    assigned,
    follow,
    instants,
    is_earlier,
    of_name,
    read,
)
from tests.support.cases import each

YEAR = instants(datetime(2026, 7, 1, tzinfo=UTC))


@each(
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
        ("sqlite", "datetime('now', 'localtime')", Reading.FIXED, "localtime"),
        ("sqlite", "datetime('now', '+2 hours')", Reading.UNKNOWN, ""),
        ("sqlite", "''", Reading.NOTHING, ""),
    ],
)
def test_the_zone_of_an_expression(family: str, sql: str, reading: Reading, zone: str) -> None:
    assert read(sql, family) == (reading, zone)


@each(
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
    ],
)
def test_which_stamps_lie_before_their_moment(family: str, sql: str, earlier: bool) -> None:
    assert is_earlier(sql, family) is earlier


@each(
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


@each(
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
    found = follow(Watched("mysql", None, None, query, "updated_at"), lambda _, name: views.get(name))
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
