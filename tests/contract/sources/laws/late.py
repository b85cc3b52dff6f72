"""A row that commits late is never passed, and the bound never moves back."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from itertools import product
from random import Random

from poller.model.cursor import CursorKind
from poller.ports import Bound
from tests.contract.sources.follower import End, Follower
from tests.contract.sources.laws.cases import Case, Laws, cases
from tests.contract.sources.place import SHAPES, Place, Session, Shape

STEPS = 60


def each(kind: type[Place]) -> Iterable[Case]:
    for cursor, shape, bound in product(kind.filled, SHAPES, kind.bounds):
        if cursor == "timestamp+pk" or (shape, bound) == ("table", "auto"):
            for seed in range(1, 7 if bound == "auto" else 3):
                soak = seed > 1 or shape != "table" or bound != "auto"
                prove = seed > 3 or (shape != "table" and bound != "auto")
                yield Case(f"{cursor}, {shape}, {bound}, seed {seed}", (cursor, shape, bound, seed), soak, prove)


def each_filled(kind: type[Place]) -> Iterable[Case]:
    for cursor in kind.filled:
        for bound in kind.bounds if cursor == "timestamp+pk" else kind.bounds[:1]:
            yield Case(f"{cursor}, {bound}", (cursor, bound))


class LateLaws(Laws):
    """Needs `Place.filled`."""

    @cases("cursor, shape, bound, seed", each)
    def test_a_row_that_commits_late_is_never_passed(
        self, place: Place, cursor: CursorKind, shape: Shape, bound: str, seed: int
    ) -> None:
        """Transactions begin, write, commit and roll back in any order, with ticks and new processes between."""
        place.make_filled(cursor)
        random, reading = Random(seed), place.reading_filled(cursor, shape, bound)
        committed: list[int] = []
        bounds: list[Bound] = []
        follower = Follower(place, reading)
        if seed == 1:  # the others meet transactions at their first look, and each tick waits some seconds for them
            follower.drain()
        with ExitStack() as stack:
            stack.callback(lambda: follower.poller.close())
            writers = [stack.enter_context(place.session()) for _ in range(place.writers)]
            opened: dict[int, list[int]] = {}
            for number in range(1, STEPS + 1):
                chosen = random.randrange(len(writers))
                _step(random, place, writers[chosen], opened, chosen, number, committed, cursor)
                if random.random() < 0.5:
                    bounds.append(follower.tick().bound or Bound("none"))
                elif random.random() < 0.05:
                    follower = follower.again()
                    bounds.append(Bound("none"))
            for chosen in list(opened):
                writers[chosen].run("COMMIT")
                committed += opened.pop(chosen)
            assert follower.drain() == End()
            assert sorted(follower.numbers) == sorted(committed)
            assert len(committed) > STEPS / 4, "there was something to lose"
        _never_back(bounds)

    @cases("cursor, bound", each_filled)
    def test_rows_wait_for_one_that_was_begun_before_them(self, place: Place, cursor: CursorKind, bound: str) -> None:
        place.make_filled(cursor)
        place.run(place.added(cursor, 1))
        with Follower(place, place.reading_filled(cursor, bound=bound)) as follower:
            assert follower.drain() == End()
            if place.writers < 2:
                return
            with place.session() as slow:
                slow.run(place.begin, place.added(cursor, 2))
                place.run(place.added(cursor, 3))
                waits = follower.drain(patience=0.5)
                assert follower.numbers == [1]
                assert waits.waits is not None
                assert waits.waits.pending == 1
                assert waits.waits.bound is not None
                assert waits.waits.bound.kind.endswith(bound) or bound == "auto"
                slow.run("COMMIT")
            assert follower.drain() == End()
            assert sorted(follower.numbers) == [1, 2, 3]


def _step(
    random: Random,
    place: Place,
    writer: Session,
    opened: dict[int, list[int]],
    chosen: int,
    number: int,
    committed: list[int],
    cursor: CursorKind,
) -> None:
    """One of what a writer may do next."""
    mine = opened.get(chosen)
    if mine is None:
        writer.run(place.begin)
        opened[chosen] = mine = []
        if random.random() < 0.3:
            writer.run("SELECT COUNT(*) FROM followed")  # its clock has begun, and it has written nothing
            return
    elif random.random() < 0.5:
        writer.run("COMMIT")
        committed += opened.pop(chosen)
        return
    elif random.random() < 0.2:
        writer.run("ROLLBACK")
        del opened[chosen]
        return
    writer.run(place.added(cursor, number))
    mine.append(number)


def _never_back(bounds: list[Bound]) -> None:
    """Of each process, which a bound of kind `none` ends."""
    last: tuple[int, str] | None = None
    for bound in bounds:
        if bound.kind == "none":
            last = None
        elif bound.value is not None:
            here = (len(bound.value), bound.value) if bound.value.isdigit() else (0, bound.value)
            assert last is None or here >= last
            last = here
