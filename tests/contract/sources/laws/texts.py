"""What the database holds comes back to it unchanged through the text of a checkpoint, in every zone."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from random import Random

import pytest

from poller.ports import InspectableSource, Source
from tests.contract.sources.follower import End, Follower
from tests.contract.sources.laws.cases import Case, Laws, cases
from tests.contract.sources.place import Place, Reading

ORDINARY = 2
"""Zones of the ordinary run, chosen by a seed."""


def each_edge(kind: type[Place]) -> Iterable[Case]:
    for name in kind.edges:
        yield Case(f"key {name}", ("id", name))
        if name in kind.times:
            yield Case(f"cursor {name}", ("ts", name))


def in_zones(kind: type[Place]) -> Iterable[Case]:
    """Each type and place of it in all zones, in `make prove`; else in a few."""
    if kind.zones is not Place.zones:
        for name in sorted(kind.times):
            for column in ("id", "ts"):
                yield Case(f"{name}, {column}, some", (name, column, ORDINARY))
                yield Case(f"{name}, {column}, all", (name, column, None), prove=True)


class TextLaws(Laws):
    """Needs `Place.edges`, and for zones `Place.zones`."""

    @cases("column, name", each_edge)
    def test_edge_values_come_back_through_text(self, place: Place, column: str, name: str) -> None:
        """The page after each of them begins with the next one; what an operator types is what the document says."""
        _make(place, column, name)
        _comes_back(place)

    @pytest.mark.timeout(900)
    @cases("name, column, share", in_zones)
    def test_edge_values_come_back_in_every_zone(self, place: Place, name: str, column: str, share: int | None) -> None:
        _make(place, column, name)
        zones = sorted(place.zones())
        for zone in zones if share is None else Random(f"{name} {column}").sample(zones, share):
            with place.in_zone(zone):
                try:
                    _comes_in_order(place)
                except AssertionError as error:
                    raise AssertionError(f"in {zone}") from error


def _make(place: Place, column: str, name: str) -> None:
    """A row for each value; other than that, they are of one moment, or keys from 1."""
    kind = place.type(name)
    if column == "id":
        place.create(f"id {kind} NOT NULL, ts {place.type('moment')} NOT NULL")
    else:
        place.create(f"id {place.type('integer')} NOT NULL, ts {kind} NOT NULL")
    one = place.literal_moment
    for number, value in enumerate(place.edges[name], 1):
        values = f"{value}, {one}" if column == "id" else f"{number}, {value}"
        place.run(f"INSERT INTO followed (id, ts, v) VALUES ({values}, {number})")


def _comes_back(place: Place) -> None:
    source = _comes_in_order(place)
    if not isinstance(source, InspectableSource):
        return
    with closing(source):
        for cursor in source.span(None, None, 1000).cursors:
            keys = {key: str(part) for key, part in (cursor.tiebreaker or {}).items()}
            assert source.parse_cursor(cursor.value, keys) == cursor


def _comes_in_order(place: Place) -> Source:
    with Follower(place, Reading(), batch=1) as follower:
        assert follower.drain() == End()
        assert follower.numbers == place.in_order("id")
        return follower.source
