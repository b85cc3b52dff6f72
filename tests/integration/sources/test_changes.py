"""The table changes under way: it goes on where that is safe, and stops with a clear word where rows could be lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from poller.errors import SourceError
from poller.model.cursor import Cursor
from poller.sources import SqlSource
from tests.integration.sources.tables import add_orders, closing, drain, execute, family, make_orders, orders
from tests.support.cases import each

STAMPS = [f"2026-01-01 00:00:0{i}.500000" for i in range(6)]


def half_way(source: SqlSource) -> Cursor:
    """The cursor after the third of six rows, as the document keeps it."""
    return Cursor.model_validate_json(source.page(None, 3).cursors[-1].model_dump_json())


def ids(source: SqlSource, after: Cursor) -> list[int]:
    return [row["id"] for row in drain(source, 2, after)]


def both(url: str, change: Callable[[], None], **keys: Any) -> list[Any]:
    """What a process that goes on sees after the change, and what one that begins anew sees: ids, or the error."""
    seen: list[Any] = []
    with closing(orders(url, **keys)) as running, closing(orders(url, **keys)) as fresh:
        after = half_way(running)
        change()
        for source in (running, fresh):
            try:
                seen.append(ids(source, after))
            except SourceError as error:
                seen.append(error)
    return seen


def stopped(seen: list[Any], *words: str) -> None:
    for error in seen:
        assert isinstance(error, SourceError), error
        assert error.next_step
        assert "\n" not in str(error)
        for word in words:
            assert word in str(error)


def test_a_projected_or_filtered_column_that_goes_is_named(any_db: str) -> None:
    make_orders(any_db, STAMPS)
    seen = both(
        any_db, lambda: execute(any_db, "alter table orders drop column status"), columns=["id", "status", "total"]
    )
    stopped(seen, "status")
    execute(any_db, "alter table orders add column status varchar(10)")
    seen = both(
        any_db,
        lambda: execute(any_db, "alter table orders drop column status"),
        filter="status is null or status <> 'draft'",
    )
    stopped(seen, "status")


def test_a_renamed_table_is_named_and_goes_on_under_its_new_name(any_db: str) -> None:
    make_orders(any_db, STAMPS)
    with closing(orders(any_db)) as before:
        after = half_way(before)
        execute(any_db, "alter table orders rename to sales")
        with pytest.raises(SourceError, match="orders"):
            before.page(after, 2)
        with closing(orders(any_db, table="sales")) as renamed:
            assert ids(renamed, after) == [4, 5, 6]
            assert renamed.describe().fingerprint() != before.describe().fingerprint(), "an operator must rebind"
        execute(any_db, "alter table sales rename to orders")
        assert ids(before, after) == [4, 5, 6], "and back again it goes on"


def test_rows_deleted_at_and_around_the_cursor_change_nothing(any_db: str) -> None:
    make_orders(any_db, STAMPS)
    assert both(any_db, lambda: execute(any_db, "delete from orders where id in (2, 3, 5)")) == [[4, 6], [4, 6]]
    execute(any_db, "delete from orders")
    with closing(orders(any_db)) as source:
        after = Cursor(kind="timestamp+pk", value=_value(any_db), tiebreaker={"id": 3})
        assert ids(source, after) == []
        add_orders(any_db, ["2026-01-02 00:00:00.500000"], first=9)
        assert ids(source, after) == [9]


def _value(url: str) -> str:
    """How the third row's cursor stands in the document."""
    if family(url) == "sqlite":
        return STAMPS[2]
    return STAMPS[2].replace(" ", "T") + ("Z" if family(url) == "postgresql" else "")


@pytest.mark.parametrize(
    ("database", "change", "repeats", "words"),
    [
        ("postgres_db", "alter table orders alter updated_at type timestamptz(0)", [2, 3], "0 digits"),
        ("postgres_db", "alter table orders alter id type text", [3], "text values now"),
        ("mariadb_db", "alter table orders modify updated_at datetime not null", [3], "0 digits"),
        ("mysql_db", "alter table orders modify updated_at datetime not null", [3], "0 digits"),
        ("mariadb_db", "alter table orders modify id varchar(20) not null", [3], "text values now"),
        ("mysql_db", "alter table orders modify id varchar(20) not null", [3], "text values now"),
    ],
)
def test_a_type_that_moves_rows_within_a_tie_begins_it_again(
    database: str, change: str, repeats: list[int], words: str, request: pytest.FixtureRequest
) -> None:
    url: str = request.getfixturevalue(database)
    make_orders(url, STAMPS)
    running, fresh = both(url, lambda: execute(url, change))
    assert [*map(int, running)] == [*repeats, 4, 5, 6]
    stopped([fresh], words)


def test_a_columns_zone_stops_also_where_the_session_has_another(postgres_db: str) -> None:
    """The text without a zone would be read in the session's: hours of rows skipped, or all of them again."""
    execute(
        postgres_db,
        "create table orders (id integer not null primary key, updated_at timestamp not null)",
        "insert into orders select n, timestamp '2026-01-01' + n * interval '1 hour' from generate_series(1, 6) n",
    )

    def change() -> None:
        execute(
            postgres_db,
            "alter table orders alter updated_at type timestamptz using updated_at at time zone 'UTC'",
        )

    stopped(both(f"{postgres_db}?options=-ctimezone%3DAsia/Tokyo", change), "has a time zone now")


@each("form", ["rows", "arrow"])
def test_no_row_under_other_types_is_not_taken_for_none(postgres_db: str, form: str) -> None:
    """As dates, all rows of the cursor's day sort below it: the page has none, and the error must come all the same."""
    if form == "arrow":
        pytest.importorskip("pyarrow")
    make_orders(postgres_db, STAMPS)
    change = "alter table orders alter updated_at type date"
    stopped(both(postgres_db, lambda: execute(postgres_db, change), format=form), "dates now")


def test_lag_and_counts_do_not_guess_either(postgres_db: str) -> None:
    make_orders(postgres_db, STAMPS)
    with closing(orders(postgres_db)) as source:
        after = half_way(source)
        execute(postgres_db, "alter table orders alter updated_at type timestamp")
    with closing(orders(postgres_db)) as source, pytest.raises(SourceError, match="no time zone now"):
        source.lag(after, cap=10)


def test_a_check_after_the_change_says_what_the_poller_says(postgres_db: str) -> None:
    make_orders(postgres_db, STAMPS)
    with closing(orders(postgres_db)) as source:
        after = half_way(source)
    execute(postgres_db, "alter table orders alter updated_at type timestamp")
    with closing(orders(postgres_db)) as source:
        found = source.checkup(after, lambda: datetime.now(UTC)).findings
    assert [one for one in found if one.severity == "error" and "no time zone now" in one.message]


def test_rows_that_a_changed_view_adds_below_the_checkpoint_stay(any_db: str) -> None:
    make_orders(any_db, STAMPS)
    view = "create view seen as select id, updated_at, status, total from orders"
    execute(any_db, f"{view} where id not in (2, 5)")

    def change() -> None:
        execute(any_db, "drop view seen", view)

    running, fresh = both(any_db, change, table="seen")
    repeats = [4] if family(any_db) == "postgresql" else []
    assert (running, fresh) == ([*repeats, 5, 6], [5, 6])


# --- what was learned of the table before a page was read -----------------------------------------------------------

VIEW = "create view seen as select id, updated_at, status, total from orders"
BEFORE_THE_FIRST_PAGE = [
    ("postgres_db", "alter table orders alter updated_at type timestamp using updated_at at time zone 'UTC'"),
    ("postgres_db", "alter table orders alter updated_at type timestamptz(0)"),
    ("postgres_db", "alter table orders alter id type text"),
    ("mariadb_db", "alter table orders modify updated_at timestamp(6) not null"),
    ("mysql_db", "alter table orders modify updated_at timestamp(6) not null"),
    ("mariadb_db", "alter table orders modify updated_at date not null"),
    ("mariadb_db", "alter table orders modify id varchar(20) not null"),
]


def kinds_of_source(url: str) -> dict[str, dict[str, Any]]:
    query = "select id, updated_at, status, total from orders where total >= 0"
    return {"table": {}, "view": {"table": "seen"}, "query": {"query": query}}


def seen_of(source: SqlSource) -> list[Any]:
    """The first page's cursors, and the same of one row after the other; or the error."""
    try:
        page = source.page(None, 10)
        return [
            [str(one) for one in page.cursors],
            [row["id"] for row in drain(source, 1)],
            (source.facts() or {})["columns"],
        ]
    except SourceError as error:
        return [error.message]


@each("kind", ["table", "view", "query"])
def test_sqlite_a_table_made_with_another_type_is_looked_at_again(sqlite_url: str, kind: str) -> None:
    make_orders(sqlite_url, STAMPS)
    execute(sqlite_url, VIEW)
    keys = kinds_of_source(sqlite_url)[kind]
    with closing(orders(sqlite_url, **keys)) as early, closing(orders(sqlite_url, **keys)) as fresh:
        assert early.lag(None, cap=10).pending == 6
        execute(
            sqlite_url,
            "drop table orders",
            "create table orders (id text not null primary key, updated_at text not null, status text, total integer)",
            *(f"insert into orders values ('k{n}', '2026-01-01T00\\:00\\:0{n}Z', null, 1)" for n in range(1, 7)),
        )
        assert seen_of(early) == seen_of(fresh)
        assert [row["id"] for row in drain(early, 2)] == [f"k{n}" for n in range(1, 7)]
