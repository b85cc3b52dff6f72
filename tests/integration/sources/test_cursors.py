"""Positions: where a poller starts, what an operator types, how far behind it is, which key a version of a row has."""

from __future__ import annotations

import datetime

import pytest

from poller.errors import SourceError
from poller.model.cursor import Cursor
from tests.integration.sources.tables import add_orders, closing, drain, execute, family, make_orders, orders

STAMPS = [f"2026-01-01 00:00:0{i}.250000" for i in range(6)]


def _form(url: str, text: str) -> str:
    """How each database writes that text."""
    return {"postgresql": text.replace(" ", "T") + "Z", "mysql": text.replace(" ", "T"), "sqlite": text}[family(url)]


def test_where_a_source_starts(any_db: str) -> None:
    assert orders(any_db, start_from="beginning").start() is None
    make_orders(any_db, STAMPS)
    with closing(orders(any_db, start_from="now", bound="delay")) as source:
        start = source.start()
        assert start is not None
        assert start.tiebreaker is None
        assert list(source.page(start, 10).rows) == []
        at = datetime.datetime.fromisoformat(start.value).replace(tzinfo=datetime.UTC)
        age = datetime.datetime.now(datetime.UTC) - at
        assert datetime.timedelta(seconds=4) < age < datetime.timedelta(seconds=60)
    for given in ("2026-01-01 00:00:03.25", datetime.datetime(2026, 1, 1, 0, 0, 3, 250000)):
        with closing(orders(any_db, start_from=given)) as source:
            start = source.start()
            assert start is not None
            assert start.tiebreaker is None
            if not (family(any_db) == "sqlite" and isinstance(given, str)):  # a shorter fraction is a form of its own
                assert start.value == _form(any_db, STAMPS[3])
            assert [row["id"] for row in drain(source, 2, start)] == [4, 5, 6]


def test_what_is_typed_is_a_cursor_or_an_error_of_its_column(any_db: str) -> None:
    make_orders(any_db, STAMPS)
    execute(any_db, "update orders set total = 1")
    with closing(orders(any_db)) as source:
        cursor = source.parse_cursor(STAMPS[1], {"id": " 2 "})
        assert cursor == source.page(None, 2).cursors[1]
        assert cursor == Cursor(kind="timestamp+pk", value=_form(any_db, STAMPS[1]), tiebreaker={"id": 2})
        for other in (
            Cursor(kind="timestamp+pk", value=STAMPS[0], tiebreaker={"order_id": 1}),
            Cursor(kind="integer+pk", value="4", tiebreaker={"id": 1}),
        ):
            with pytest.raises(SourceError, match="pk_columns"):
                source.page(other, 1)
        page = source.page(None, 1)
        before = source.key(page.rows[0], page.cursors[0])
        assert before == source.key(page.rows[0], source.page(None, 1).cursors[0])
        execute(any_db, "update orders set updated_at = '2026-01-01 00\\:00\\:00.000001' where id = 1")
        page = source.page(None, 1)
        assert source.key(page.rows[0], page.cursors[0]) != before, "a later version of the row"
        assert before.startswith("orders/id=1/2026-01-01")
        assert " " not in before
    with closing(orders(any_db, pk_columns=["id", "total"])) as source:
        for pk, column in (({"id": "1"}, "total"), ({"id": "x", "total": "1"}, "id"), ({"ids": "1"}, "ids")):
            with pytest.raises(SourceError) as error:
                source.parse_cursor(STAMPS[0], pk)
            assert error.value.column == column
    for nonsense in ("soon", "2026-13-01", "12"):
        with closing(orders(any_db, start_from=nonsense)) as source, pytest.raises(SourceError) as error:
            source.start()
        assert error.value.column == "updated_at"
        assert "updated_at" in error.value.message
        assert nonsense not in error.value.message, "it may have come out of a setting"


def test_typed_offsets_become_utc_and_naive_columns_take_none(postgres_db: str, mariadb_db: str) -> None:
    make_orders(postgres_db, STAMPS)
    make_orders(mariadb_db, STAMPS)
    with closing(orders(postgres_db)) as source:
        assert source.parse_cursor("2026-01-01T02:00:00+02:00", {"id": "1"}).value == "2026-01-01T00:00:00.000000Z"
        assert source.parse_cursor("2026-01-01", {"id": "1"}).value == "2026-01-01T00:00:00.000000Z"
        assert source.parse_cursor("infinity", {"id": "1"}).value == "infinity"
    with closing(orders(mariadb_db)) as source, pytest.raises(SourceError, match="no time zone"):
        source.parse_cursor("2026-01-01T02:00:00+02:00", {"id": "1"})


def test_lag_is_the_age_of_the_oldest_row_and_a_capped_count(any_db: str) -> None:
    make_orders(any_db, STAMPS)
    with closing(orders(any_db, bound="auto")) as source:
        lag = source.lag(None, cap=4)
        expected = datetime.datetime.now(datetime.UTC) - datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        assert lag.seconds == pytest.approx(expected.total_seconds(), abs=30)
        assert (lag.pending, lag.pending_capped) == (4, True)
        after = source.page(None, 4).cursors[-1]
        lag = source.lag(after, cap=4)
        assert (lag.pending, lag.pending_capped) == (2, False)
        end = source.page(None, 6).cursors[-1]
        assert source.lag(end, cap=4).pending == 0
        assert source.lag(end, cap=4).seconds == 0.0


def test_rows_above_the_bound_are_lag_too(any_db: str) -> None:
    make_orders(any_db, STAMPS[:1])
    add_orders(any_db, ["2099-01-01 00:00:00.000000"], first=2)
    with closing(orders(any_db, bound="auto")) as source:
        page = source.page(None, 10)
        assert [row["id"] for row in page.rows] == [1], "a row dated 2099 does not drag the cursor along"
        lag = source.lag(page.cursors[-1], cap=10)
        assert (lag.pending, lag.seconds) == (1, 0.0)


def test_counts_between_two_cursors(any_db: str) -> None:
    make_orders(any_db, [STAMPS[i // 4] for i in range(12)])
    with closing(orders(any_db)) as source:
        at = source.page(None, 12).cursors
        assert source.count_between(None, at[5], cap=100) == (6, False)
        assert source.count_between(at[1], at[9], cap=100) == (8, False)
        assert source.count_between(at[9], at[1], cap=100) == (0, False)
        assert source.count_between(at[1], at[9], cap=5) == (5, True)
        assert source.count_between(at[1], None, cap=5) == (0, False)
        bare = Cursor(kind="timestamp+pk", value=at[5].value)
        assert source.count_between(None, bare, cap=100) == (4, False)
