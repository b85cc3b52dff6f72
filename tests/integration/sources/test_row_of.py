"""One row by its key, as a person types it: the same row, cursor, key and ordering key as a page has, on every
database."""

from __future__ import annotations

import pytest

from poller.errors import SourceError
from poller.tick.current_row import current_row
from tests.integration.sources.tables import closing, execute, make_orders, orders
from tests.support.cases import each

STAMP = "2026-01-01 00:00:0{}.250000"


@each("key", [["id"], ["total", "id"], ["updated_at", "id"]])
def test_a_row_is_found_by_its_key_as_the_page_has_it(any_db: str, key: list[str]) -> None:
    make_orders(any_db, [STAMP.format(i // 4) for i in range(8)])
    with closing(orders(any_db, pk_columns=key)) as source:
        source.ordering_key = ("status",)
        page = source.page(None, 8)
        for position in (0, 5, 7):
            tiebreaker = page.cursors[position].tiebreaker or {}
            found = current_row(source, {name: str(value) for name, value in tiebreaker.items()})
            assert found is not None
            assert (found.row, found.cursor) == (page.rows[position], page.cursors[position])
            assert found.row_key == source.key(page.rows[position], page.cursors[position])
            assert page.ordering is not None
            assert found.ordering_key == page.ordering[position]


def test_it_is_the_row_as_it_is_now_or_none(any_db: str) -> None:
    make_orders(any_db, [STAMP.format(i) for i in range(3)])
    with closing(orders(any_db, filter="total < 2")) as source:
        before = current_row(source, {"id": "1"})
        execute(any_db, "update orders set updated_at = '2026-01-01 00\\:00\\:09' where id = 1")
        after = current_row(source, {"id": "1"})
        assert before is not None
        assert after is not None
        assert before.facts.id != after.facts.id
        assert (before.facts.pk, before.facts.key) == (after.facts.pk, after.facts.key)
        assert current_row(source, {"id": "99"}) is None
        assert current_row(source, {"id": "3"}) is None, "the filter leaves it out"
        with pytest.raises(SourceError, match="id"):
            current_row(source, {"id": "soon"})
