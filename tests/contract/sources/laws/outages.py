"""What the database cannot give now is not taken for nothing: no outage is "no rows", no odd value ends a page."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

import pytest

from poller import SourceUnavailable
from tests.contract.sources.follower import BATCH, End, Follower
from tests.contract.sources.laws.cases import Case, Laws, cases
from tests.contract.sources.place import SHAPES, Layout, Place, Reading, Shape


def if_stops(kind: type[Place]) -> Iterable[Case]:
    return [Case(shape, (shape,), soak=shape != "table") for shape in SHAPES] if kind.stops else ()


def each_value(kind: type[Place]) -> Iterable[Case]:
    return [Case(f"{sql} {literal}", (sql, literal)) for sql, literal in kind.unreadable]


class OutageLaws(Laws):
    """Needs `Place.outage`, `Place.cut`, `Place.unreadable`."""

    @cases("shape", if_stops)
    def test_an_outage_is_not_taken_for_no_rows(self, place: Place, shape: Shape) -> None:
        place.make(Layout())
        with Follower(place, Reading(shape=shape, timeout="1s")) as follower:
            follower.stop_at(2)
            follower.tick()
            with place.outage():
                for _ in range(2):
                    with pytest.raises(SourceUnavailable) as error:
                        follower.tick()
                    assert str(error.value)
            assert len(follower.rows) == 2 * BATCH
            assert follower.drain() == End()
            assert follower.numbers == place.in_order("id")

    @cases("shape", if_stops)
    def test_an_outage_between_two_pages_loses_no_row(self, place: Place, shape: Shape) -> None:
        place.make(Layout())
        with Follower(place, Reading(shape=shape, timeout="1s")) as follower:
            with ExitStack() as until:
                follower.at_batch(2, lambda: until.enter_context(place.outage()))
                with pytest.raises(SourceUnavailable):
                    follower.tick()
            assert follower.drain() == End()
            assert sorted(set(follower.numbers)) == sorted(place.numbers())

    @cases("case", lambda kind: [Case("", ("",))] if kind.cuts else ())
    def test_a_connection_that_is_cut_loses_no_row(self, place: Place, case: str) -> None:
        place.make(Layout())
        with Follower(place, Reading()) as follower:
            follower.at_batch(1, place.cut)
            follower.at_batch(3, place.cut)
            ends = [follower.drain() for _ in range(3)]
            assert ends[-1] == End()
            assert sorted(set(follower.numbers)) == sorted(place.numbers())

    @cases("sql, literal", each_value)
    def test_a_value_that_python_has_not_holds_up_no_row(self, place: Place, sql: str, literal: str) -> None:
        place.create(f"id integer NOT NULL, ts {place.type('moment')} NOT NULL", more=f", odd {sql}")
        place.fill(Layout(rows=9))
        place.run(f"UPDATE followed SET odd = {literal} WHERE v = 5")
        with Follower(place, Reading(), batch=3) as follower:
            assert follower.drain() == End()
            assert follower.numbers == place.in_order("id")
            odd = [row["v"] for row in follower.rows if row["odd"] is not None]
            assert odd == [5]
