"""SQLite's timestamps are texts, and sorted as texts: which forms sort as their times do, and what finds the others."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from poller.errors import SourceError
from poller.sources import SqlSource
from poller.sources.columns import TextForm
from poller.sources.sqlite.forms import FormWatch, is_odd
from tests.integration.sources.tables import add_orders, closing, drain, make_orders, orders
from tests.support.cases import each

SECONDS = ("09:59:59", "10:00:00", "10:00:01")
FRACTIONS = (0, 1, 9, 10, 100_000, 123_456, 499_999, 500_000, 999_990, 999_999)
ZONES = ("", "Z", "+00:00", "-05:00", "+0530", "+02")
MOMENTS = [datetime.fromisoformat(f"2026-01-05T{s}") + timedelta(microseconds=f) for s in SECONDS for f in FRACTIONS]


def _written(moment: datetime, zone: str, *, cut_off: bool = False) -> Iterator[str]:
    """Every text of a moment: its fraction in full, without trailing zeros, or (`cut_off`) at any length."""
    digits = f"{moment:%f}"
    for length in range(7):
        if cut_off or not digits[length:].strip("0"):
            yield f"{moment:%Y-%m-%dT%H:%M:%S}" + (f".{digits[:length]}" if length else "") + zone


@pytest.mark.guarantee(
    "Rows that commit late",
    "SQLite: texts of one form sort as their times, and a row of another form near the cursor is refused, not skipped",
)
@pytest.mark.parametrize("zone", ZONES)
def test_texts_of_one_form_sort_as_their_times(zone: str) -> None:
    texts = [(moment, text) for moment in MOMENTS for text in _written(moment, zone)]
    compared = 0
    for form in {TextForm.of(text) for _, text in texts}:
        assert form is not None
        fits = form.pattern().fullmatch
        for (a, low), (b, high) in itertools.pairwise(sorted((m, t) for m, t in texts if fits(t))):
            assert a == b or low < high, (form, low, high)
            compared += 1
    assert compared > len(MOMENTS)


@pytest.mark.parametrize("zone", ["", "+00:00", "-05:00", "+02"])
def test_a_fraction_of_any_length_is_of_the_same_form(zone: str) -> None:
    """As Python's isoformat writes it: none where it is zero."""
    form = TextForm.of(f"2026-01-05T10:00:00.123456{zone}")
    assert form is not None
    assert form.pattern().fullmatch(f"2026-01-05T10:00:00{zone}")
    assert not form.pattern().fullmatch(f"2026-01-05T10:00:00{'' if zone else 'Z'}")


def test_a_shorter_fraction_before_a_z_is_another_form() -> None:
    assert "10:00:00Z" > "10:00:00.5Z"
    form = TextForm.of("2026-01-05T10:00:00.500Z")
    assert form is not None
    assert not form.pattern().fullmatch("2026-01-05T10:00:00Z")
    assert not form.pattern().fullmatch("2026-01-05T10:00:00.5000Z")


@pytest.mark.parametrize("zone", ZONES)
def test_no_text_written_at_the_bound_or_later_sorts_below_it(zone: str) -> None:
    """Whoever writes it, and however many digits of the fraction are cut off."""
    forms = {TextForm.of(text) for moment in MOMENTS[:10] for text in _written(moment, zone)}
    for form, at in itertools.product(forms, MOMENTS):
        assert form is not None
        bound, fits = form.below(at), form.pattern().fullmatch
        later = (text for moment in MOMENTS if moment >= at for text in _written(moment, zone, cut_off=True))
        assert not [text for text in later if fits(text) and text < bound], (form, at)


def test_pythons_aware_isoformat_is_read_in_order(sqlite_url: str) -> None:
    stamps = [
        "2026-01-05T10:00:00.100000+00:00",
        "2026-01-05T10:00:01+00:00",
        "2026-01-05T10:00:01.000500+00:00",
        "2026-01-05T10:00:02+00:00",
    ]
    make_orders(sqlite_url, stamps)
    with closing(orders(sqlite_url, cursor_time_zone=None, bound="auto")) as source:
        page = source.page(None, 10)
        assert [cursor.value for cursor in page.cursors] == stamps
        assert [row["id"] for row in drain(source, 1)] == [1, 2, 3, 4]


@each(
    ("typed", "means"),
    [
        ("2026-01-05T10:00:01Z", "2026-01-05T10:00:01+00:00"),  # as the row there is written
        ("2026-01-05T10:00:00.1+00:00", "2026-01-05T10:00:00.100000+00:00"),
        ("2026-01-05 12:00:00.5+02:00", "2026-01-05T10:00:00.500000+00:00"),
        ("2026-01-05", "2026-01-05T00:00:00.000000+00:00"),
    ],
)
def test_what_is_typed_is_written_as_the_rows_are(sqlite_url: str, typed: str, means: str) -> None:
    make_orders(sqlite_url, ["2026-01-05T10:00:00.100000+00:00", "2026-01-05T10:00:01+00:00"])
    with closing(orders(sqlite_url, cursor_time_zone=None)) as source:
        assert source.parse_cursor(typed, None).value == means


# --- another form below the cursor ---------------------------------------------------------------------------------


def _execute(url: str, sql: str) -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute(sql)


BLANK = ["2026-01-01 00:00:00", "2026-01-05 10:00:00", "2026-01-06 10:00:00"]
TEES = ["2026-01-01T00:00:00", "2026-01-05T10:00:00", "2026-01-06T10:00:00"]


@each(
    ("stamps", "other", "form"),
    [
        (TEES, "2026-01-06 10:00:01", "YYYY-MM-DD HH:MM:SS"),
        (TEES, "2026-01-05 22:00:00", "YYYY-MM-DD HH:MM:SS"),
        (TEES, "2026-01-06", "YYYY-MM-DD"),
        (TEES, "2026-01-06T10:00", "YYYY-MM-DDTHH:MM"),
        (BLANK, "2026-01-06T09:00:00", "YYYY-MM-DDTHH:MM:SS"),
        ([f"{stamp}+00:00" for stamp in TEES], "2026-01-06T05:00:01-05:00", "YYYY-MM-DDTHH:MM:SS-05:00"),
        ([f"{stamp}.000Z" for stamp in TEES], "2026-01-06T10:00:00.1234Z", "YYYY-MM-DDTHH:MM:SS.ffffZ"),
    ],
)
def test_a_row_of_another_form_is_found_and_can_be_fixed(
    sqlite_url: str, stamps: list[str], other: str, form: str
) -> None:
    make_orders(sqlite_url, stamps)
    with closing(orders(sqlite_url)) as source:
        cursor = source.page(None, 10).cursors[-1]
    add_orders(sqlite_url, [other], first=4)
    with closing(orders(sqlite_url)) as source:
        with pytest.raises(SourceError):
            source.page(cursor, 10)
        with pytest.raises(SourceError) as refused:  # as long as it stands
            source.page(cursor, 10)
        error = refused.value
        assert error.column == "updated_at"
        assert "id=4" in error.message
        assert form in error.message
        assert str(TextForm.of(stamps[0])) in error.message
        fix = error.next_step.removeprefix("Run: ").partition("; Then")[0]
        assert fix.startswith('UPDATE "orders" SET')
        _execute(sqlite_url, fix)
        assert len(drain(source, 10)) == 4
        source.page(cursor, 10)


@each(
    ("stamps", "other"),
    [
        (BLANK, "2026-01-01"),
        (TEES, "2026-01-01T00:00"),
        ([f"{stamp}.250Z" for stamp in TEES], "2025-12-31T00:00:00Z"),
    ],
)
def test_what_fixes_a_form_takes_nothing_off_the_times_of_others(
    sqlite_url: str, stamps: list[str], other: str
) -> None:
    """The odd row comes first here, and its form was taken for the column's: all the others were to be cut off."""
    make_orders(sqlite_url, [other, *stamps])
    with closing(orders(sqlite_url)) as source, pytest.raises(SourceError) as refused:
        source.page(None, 10)
    _execute(sqlite_url, refused.value.next_step.removeprefix("Run: ").partition("; Then")[0])
    with closing(orders(sqlite_url)) as source:
        assert [row["updated_at"] for row in drain(source, 10)][1:] == stamps


@each("first", ["", "1767225600"])
def test_a_first_row_that_is_no_time_is_named_not_the_column(sqlite_url: str, first: str) -> None:
    make_orders(sqlite_url, [*TEES, first])
    with closing(orders(sqlite_url)) as source, pytest.raises(SourceError, match="id=4") as refused:
        source.page(None, 10)
    assert "filter" in refused.value.next_step
    with closing(orders(sqlite_url, filter="id <> 4")) as source:
        assert len(drain(source, 10)) == 3


class Timed:
    """A source whose watch for other forms has a clock of ours, and how often that looked."""

    def __init__(self, source: SqlSource) -> None:
        self.now, self.looks = 0.0, 0
        session = source._session
        session.forms = FormWatch(
            session.database, session.options, session.table.relation, session.table.quote, monotonic=lambda: self.now
        )
        run = session.database.run

        def counting(sql: str, params: dict[str, object] | None = None) -> object:
            self.looks += "poller_form" in str(sql)
            return run(sql, params)

        session.database.run = counting  # type: ignore[method-assign,assignment]


def test_they_are_looked_for_at_start_and_once_a_minute(sqlite_url: str) -> None:
    make_orders(sqlite_url, TEES)
    with closing(orders(sqlite_url)) as source:
        timed = Timed(source)
        cursor = source.page(None, 10).cursors[-1]
        assert timed.looks == 0, "from the beginning every row is met"
        source.page(cursor, 10)
        first = timed.looks
        assert first > 0
        timed.now = 59.0
        source.page(cursor, 10)
        assert timed.looks == first, "an idle page costs no more than before"
        add_orders(sqlite_url, ["2026-01-06 09:00:00"], first=4)
        timed.now = 60.0
        with pytest.raises(SourceError, match="two forms"):
            source.page(cursor, 10)


def test_a_look_reads_along_the_index(sqlite_url: str, tmp_path: Path) -> None:
    make_orders(sqlite_url, TEES)
    with closing(orders(sqlite_url)) as source:
        cursor = source.page(None, 10).cursors[-1]
        known = source._session.table.known
        assert known is not None
        assert known.cursor.form is not None
        for sql, params in source._session.forms.statements(known.cursor.form, cursor):
            plan = source._session.database.run(f"EXPLAIN QUERY PLAN {sql}", params).rows
            assert not [step for step in plan if str(step[3]).startswith("SCAN")], plan


def test_rows_of_another_form_that_the_filter_omits_disturb_nobody(sqlite_url: str) -> None:
    make_orders(sqlite_url, [*TEES, "2026-01-06 09:00:00"])
    with closing(orders(sqlite_url, filter="id <> 4")) as source:
        cursor = source.page(None, 10).cursors[-1]
        assert source.page(cursor, 10).rows == []


@each("indexed", [True, False])
@each(
    ("zone", "omitted", "other"),
    [
        ("", "2026-01-06 09:00:00", "2026-01-06 08:00:00"),  # of the other form, like the row behind them
        ("", "2026-01-06 09:00:00", "2026-01-06 09:30:00"),
        ("+00:00", "2026-01-06T09:00:00+00:00", "2026-01-06T05:00:01-05:00"),  # of the column's own form
        ("+00:00", "2026-01-06T09:00:00.25+00:00", "2026-01-06T05:00:01-05:00"),
        (".500Z", "2026-01-06T09:00:00.500Z", "2026-01-06T08:00:00.25Z"),
    ],
)
def test_no_row_that_the_filter_omits_hides_another(
    sqlite_url: str, zone: str, omitted: str, other: str, indexed: bool
) -> None:
    make_orders(sqlite_url, [f"{stamp}{zone}" for stamp in TEES])
    if not indexed:
        _execute(sqlite_url, "drop index orders_cursor")
    _execute(
        sqlite_url,
        "with recursive n (x) as (select 1000 union all select x + 1 from n where x < 2000)"
        f" insert into orders select x, '{omitted}', 'omitted', 1 from n",
    )
    with closing(orders(sqlite_url, filter="status <> 'omitted'")) as source:
        timed = Timed(source)
        cursor = source.page(None, 10).cursors[-1]
        assert source.page(cursor, 10).rows == []
        add_orders(sqlite_url, [other], first=4)
        timed.now = 60.0
        for _ in range(2):
            with pytest.raises(SourceError, match="id=4"):
                source.page(cursor, 10)


@each("zone", ZONES)
def test_a_look_finds_each_text_that_is_not_of_the_form(sqlite_url: str, zone: str) -> None:
    """The search in SQL and the pattern that pages are compared with say the same of every text."""
    texts = {text for moment in MOMENTS for suffix in {"", zone} for text in _written(moment, suffix, cut_off=True)}
    texts |= {"2026-01-05", "2026-01-05T10:00", "2026-01-05 10:00:00", "2026-01-05T10:00:00." + zone, "2026-01-05T"}
    texts |= {"2026-01-05T10:00:00.1x1" + zone, "2026-01-05T1a:00:00" + zone, "2026-01-05T10:00:00.1" + zone + "0"}
    make_orders(sqlite_url, sorted(texts))
    with closing(orders(sqlite_url)) as source:
        run = source._session.database.run
        for form in {TextForm.of(text) for text in texts} - {None}:
            assert form is not None
            odd, params = is_odd(form, "updated_at")
            found = {row[0] for row in run(f"select updated_at from orders where {odd}", params).rows}
            assert found == {text for text in texts if not form.pattern().fullmatch(text)}, form


@each("start_from", ["0001-01-01", "0001-01-01T00:01:00", "9999-12-31T23:59:59"])
def test_the_ends_of_the_calendar_are_looked_at_too(sqlite_url: str, start_from: str) -> None:
    make_orders(sqlite_url, TEES)
    with closing(orders(sqlite_url, start_from=start_from)) as source:
        assert len(source.page(source.start(), 10).rows) == (3 if start_from < "2" else 0)


def test_check_finds_them_too(sqlite_url: str) -> None:
    make_orders(sqlite_url, TEES)
    with closing(orders(sqlite_url)) as source:
        cursor = source.page(None, 10).cursors[-1]
        add_orders(sqlite_url, ["2026-01-06 09:00:00"], first=4)
        found = source.checkup(cursor, lambda: datetime.now(UTC)).findings
    assert [f.severity for f in found if f.check == "forms"] == ["error"]
