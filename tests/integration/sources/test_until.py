"""Pages with an upper end: no row beyond it, wherever the end falls, on every database."""

from __future__ import annotations

from poller.model.cursor import Cursor
from poller.sources import SqlSource
from tests.integration.sources.tables import closing, make_orders, orders
from tests.support.cases import each

SECOND = "2026-01-01 00:00:0{}.250000"


def read(source: SqlSource, until: Cursor, size: int, after: Cursor | None = None) -> list[int]:
    ids: list[int] = []
    while (page := source.page(after, size, until=until)).rows:
        ids += [row["id"] for row in page.rows]
        after = page.cursors[-1]
    return ids


@each("last", [0, 4, 9, 24, 29])
def test_an_end_with_a_tiebreaker_is_read_and_nothing_behind_it(any_db: str, last: int) -> None:
    make_orders(any_db, [SECOND.format(i // 10) for i in range(30)])
    with closing(orders(any_db)) as source:
        until = source.page(None, 30).cursors[last]
        assert read(source, until, 4) == list(range(1, last + 2))
        assert read(source, until, 4, after=until) == []


def test_an_end_without_a_tiebreaker_stops_before_its_value(any_db: str) -> None:
    make_orders(any_db, [SECOND.format(i // 10) for i in range(30)])
    with closing(orders(any_db)) as source:
        until = source.parse_cursor(SECOND.format(2), None)
        assert until.tiebreaker is None
        assert read(source, until, 3) == list(range(1, 21))
        start = source.parse_cursor(SECOND.format(1), None)
        assert read(source, until, 3, after=start) == list(range(11, 21))
        assert source.count_between(start, until, cap=100) == (10, False)
