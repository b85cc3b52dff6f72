"""Every row comes once, in the database's order, however the pages are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from poller import SourceError
from tests.contract.sources.fills import bytes_of, cased, crossing, uuid_of
from tests.contract.sources.follower import End, Follower
from tests.contract.sources.laws.cases import Case, Laws, cases
from tests.contract.sources.place import BEGINNING, SHAPES, Layout, Place, Reading, Shape, in_ties

SIZES = (1, 2, 15, 30, 45, 1000)
"""Rows in a batch: two ties are 30 and 15, and all rows 45."""
KEYS: dict[str, Callable[[int], Any]] = {
    "integer": crossing, "text": cased, "number": lambda n: f"{n / 8:.3f}", "uuid": uuid_of, "bytes": bytes_of,
}  # fmt: skip


def each_key(kind: type[Place]) -> Iterable[Case]:
    for name, key_of in KEYS.items():
        if name in kind.types:
            yield from _shaped(name, Layout(key=name, key_of=key_of))
    yield from _shaped("two parts", Layout(key="text", key_of=lambda n: cased(n % 5), part_of=lambda n: n // 5))


def _shaped(name: str, layout: Layout) -> Iterable[Case]:
    for shape in SHAPES:
        for size in SIZES:
            soak = (size, shape) not in ((2, "table"), (15, "view"), (30, "query"))
            yield Case(f"{name}, {shape}, {size}", (layout, shape, size), soak)


def each_seed(kind: type[Place]) -> Iterable[Case]:
    return [Case(f"seed {seed}", (seed,), soak=seed > 2) for seed in range(1, 41)]


class RowLaws(Laws):
    @cases("layout, shape, size", each_key)
    def test_every_row_comes_once_in_order(self, place: Place, layout: Layout, shape: Shape, size: int) -> None:
        place.make(layout)
        with Follower(place, Reading(shape=shape, keys=layout.keys), batch=size) as follower:
            assert follower.drain() == End()
            assert follower.numbers == place.in_order(*layout.keys)
            place.fill(replace(layout, rows=3, moment_of=_next_day), first=46)
            assert follower.drain() == End()
            assert follower.numbers == place.in_order(*layout.keys)

    @cases("seed", each_seed)
    def test_rows_of_any_times_and_keys_come_once_in_order(self, place: Place, seed: int) -> None:
        """Times of few values, keys in any order, rows that a filter leaves out, and a new process now and then."""
        random = Random(seed)
        keys, steps = random.sample(range(1000), 60), [random.randrange(6) for _ in range(60)]
        layout = Layout(
            key_of=lambda n: keys[n - 1],
            moment_of=lambda n: BEGINNING + timedelta(milliseconds=250 * steps[n - 1]),
            rows=60,
        )
        place.make(layout)
        reading = Reading(shape=random.choice(SHAPES), where=random.choice([None, "v % 3 <> 0"]))
        follower = Follower(place, reading, batch=random.randint(1, 20))
        try:
            for _ in range(random.randrange(3)):
                follower.stop_at(1)
                follower.tick()
                follower = follower.again()
            assert follower.drain() == End()
        finally:
            follower.poller.close()
        wanted = [v for v in place.in_order("id") if reading.where is None or v % 3]
        assert follower.numbers == wanted

    @cases("shape", lambda kind: [Case(shape, (shape,)) for shape in SHAPES])
    def test_rows_without_a_time_are_refused_or_come_with_one(self, place: Place, shape: Shape) -> None:
        layout = Layout(moment_of=lambda n: None if n % 9 == 0 else in_ties(n), nulls=True)
        place.make(layout)
        with Follower(place, Reading(shape=shape)) as follower, pytest.raises(SourceError, match="ts"):
            follower.tick()
        with Follower(place, Reading(shape=shape, skip_nulls=True)) as follower:
            assert follower.drain() == End()
            assert follower.numbers == place.in_order("id")
            place.run("UPDATE followed SET ts = (SELECT m FROM (SELECT MAX(ts) AS m FROM followed) AS o) WHERE v = 45")
            assert follower.drain() == End()
            assert follower.numbers == place.in_order("id")


def _next_day(number: int) -> datetime:
    return BEGINNING + timedelta(days=1)
