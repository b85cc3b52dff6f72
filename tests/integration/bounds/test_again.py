"""A bound that serves several pages of a tick: only full ones, for a second, on the connection it was sampled on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from poller.errors import SourceError
from poller.sources import SqlSource
from poller.sources.current_bound import AGAIN_FOR
from tests.integration.sources.tables import add_orders, closing, execute, make_orders, orders
from tests.support.cases import each

LONG_AGO = [f"2026-01-01 00:00:{second:02}" for second in range(9)]


class Clock:
    """A monotonic clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def reading(url: str, **options: Any) -> Iterator[tuple[SqlSource, Clock, Callable[[], int]]]:
    """A source of nine orders, the clock by which its bound ages, and how many samples it has taken."""
    make_orders(url, LONG_AGO)
    clock, taken = Clock(), []
    with closing(orders(url, **options)) as source:
        bounding = source._session.bounding
        bounding._monotonic = clock
        sample = bounding.sample
        bounding.sample = lambda *args: (taken.append(1), sample(*args))[1]  # type: ignore[method-assign, func-returns-value]
        yield source, clock, lambda: len(taken)


def ids(page: Any) -> list[int]:
    return [row["id"] for row in page.rows]


@pytest.mark.guarantee("Rows that commit late", "A bound that serves several pages is still one that skips no row")
def test_full_pages_share_a_sample_and_its_age_counts_on(any_db: str) -> None:
    with reading(any_db, bound="delay") as (source, clock, samples):
        first = source.page(None, 3)
        clock.now += AGAIN_FOR / 2
        second = source.next_page(first.cursors[-1], 3)
        assert (ids(first), ids(second), samples()) == ([1, 2, 3], [4, 5, 6], 1)
        assert second.bound.value == first.bound.value
        assert (second.bound.age_seconds or 0) - (first.bound.age_seconds or 0) == pytest.approx(AGAIN_FOR / 2)
        source.page(first.cursors[-1], 3)
        assert samples() == 2, "a page of another tick takes its own"
        clock.now += AGAIN_FOR
        source.next_page(second.cursors[-1], 3)
        assert samples() == 3, "and so does one a second later"


def test_a_page_that_is_not_full_is_read_below_a_new_bound(any_db: str) -> None:
    """Else a row that became ready after the sample would wait for another tick."""
    with reading(any_db, bound="none") as (source, _, samples):
        first = source.page(None, 6)
        add_orders(any_db, ["2026-01-01 00:01:00"], first=10)
        assert ids(source.next_page(first.cursors[-1], 6)) == [7, 8, 9, 10]
        assert samples() == 2


def reconnects(source: SqlSource) -> None:
    source._session.database.close()


def fails(source: SqlSource) -> None:
    with pytest.raises(SourceError):
        source.parse_cursor("no such moment", None)


EVENTS: dict[str, Callable[[SqlSource], None]] = {
    "reconnected": reconnects,
    "failed": fails,
    "learned anew": lambda source: source._session.table.forget(),
    "recalled": lambda source: source.recall(source.remember() or {}),
    "closed": lambda source: source.close(),
}


@each("event", EVENTS)
def test_a_bound_does_not_outlive_it(postgres_db: str, event: str) -> None:
    with reading(postgres_db, bound="delay") as (source, _, samples):
        first = source.page(None, 3)
        EVENTS[event](source)
        assert ids(source.next_page(first.cursors[-1], 3)) == [4, 5, 6]
        assert samples() == 2


def test_a_bound_ends_where_its_connection_is_lent_to_another(postgres_db: str) -> None:
    """Also if it comes back: another source used it meanwhile."""
    with (
        reading(postgres_db, bound="delay", connections=1) as (source, _, samples),
        closing(orders(postgres_db, connections=1)) as other,
    ):
        first = source.page(None, 3)
        assert ids(other.page(None, 20)) == list(range(1, 10))
        assert ids(source.next_page(first.cursors[-1], 3)) == [4, 5, 6]
        assert samples() == 2


def test_behind_a_pooler_every_page_takes_its_own(postgres_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's number of the session is then another than the driver's."""
    with reading(postgres_db, bound="delay") as (source, _, samples):
        monkeypatch.setattr(type(source._session.database.dialect), "session_number", "SELECT pg_backend_pid() + 1")
        first = source.page(None, 3)
        assert ids(source.next_page(first.cursors[-1], 3)) == [4, 5, 6]
        assert samples() == 2


def test_while_the_clock_went_back_none_serves_again(postgres_db: str) -> None:
    with reading(postgres_db, bound="delay") as (source, _, samples):
        first = source.page(None, 3)
        bounding = source._session.bounding
        bounding._known = replace(bounding._known, clock="2099-01-01T00:00:00.000000Z")
        assert source.page(None, 3).bound.clock_went_back
        assert ids(source.next_page(first.cursors[-1], 3)) == [4, 5, 6]
        assert samples() == 3


def test_a_changed_type_of_the_cursor_takes_another(postgres_db: str) -> None:
    with reading(postgres_db, bound="delay") as (source, _, samples):
        first = source.page(None, 3)
        execute(postgres_db, "alter table orders alter column updated_at type timestamptz(3)")
        assert ids(source.next_page(first.cursors[-1], 3)) == [3, 4, 5], "digits may have been rounded"
        assert samples() >= 2
