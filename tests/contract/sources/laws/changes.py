"""A table is changed while it is followed: no row is lost in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.contract.sources.follower import End, Follower
from tests.contract.sources.laws.cases import Case, Laws, cases
from tests.contract.sources.place import MOMENTS, TABLE, Change, Moment, Place, Reading, Shape


def each(kind: type[Place]) -> Iterable[Case]:
    """Each change of a table at one of the moments in turn, in the ordinary run; everything in the soak."""
    for number, change in enumerate(kind.changes):
        for shape in change.shapes:
            for moment in MOMENTS:
                if moment != MOMENTS[2] or kind.watches:
                    soak = shape != "table" or moment != MOMENTS[1 + number % 3]
                    yield Case(f"{change.name}, {moment}, {shape}", (change, moment, shape), soak)


class ChangeLaws(Laws):
    """Needs `Place.changes`."""

    @cases("change, moment, shape", each)
    def test_a_change_loses_no_row_in_silence(self, place: Place, change: Change, moment: Moment, shape: Shape) -> None:
        """Each row that is in the table afterwards comes; or the poller says what it refuses or waits for, and each row
        comes once the change is taken back."""
        place.make(change.layout)
        reading = Reading(shape=shape, bound="auto" if moment == "before the page's statement" else "none")
        with meets(place, reading, moment, lambda: place.change(change.made, shape)) as met:
            end = met.drain()
            if end != End():
                _names_the_table(end)
                if change.undone is None:
                    met.poller.reset("beginning", by="law")
                else:
                    place.change(change.undone, shape)
                end = met.drain()
            lost = place.numbers() - set(met.numbers)
            assert not lost, f"{len(lost)} rows were lost: {sorted(lost)}; {end.says() or 'in silence'}"

    @cases("change", lambda kind: [Case(change.name, (change,), soak=True) for change in kind.changes])
    def test_a_running_poller_judges_a_change_as_a_new_one(self, place: Place, change: Change) -> None:
        """Both refuse it, for the same column, or neither does."""
        place.make(change.layout)
        with Follower(place, Reading()) as running:
            other = Follower(place, Reading())
            for follower in (running, other):
                follower.stop_at(2)
                follower.tick()
            place.change(change.made, "table")
            with other.again() as fresh:
                begins, goes_on = fresh.drain(), running.drain()
            assert goes_on.says() == begins.says()
            assert goes_on.refused is not None or set(running.numbers) == set(fresh.numbers)


def meets(place: Place, reading: Reading, moment: Moment, change: Callable[[], None]) -> Follower:
    """A follower that has read two batches, or none, and has met the change or is about to."""
    if moment == "before the page's statement":
        armed: list[Callable[[], None]] = []

        def before(statement: str) -> None:
            if armed and "ORDER BY" in statement.upper():
                armed.pop()()

        follower = Follower(place, reading, before=before)
        follower.stop_at(2)
        follower.tick()
        armed.append(change)
        return follower
    follower = Follower(place, reading)
    if moment == "before the first page":
        follower.look()
        change()
    elif moment == "between two pages":
        follower.at_batch(2, change)
    else:
        follower.stop_at(2)
        follower.tick()
        follower = follower.again()
        change()
    return follower


def _names_the_table(end: End) -> None:
    said = end.says()
    assert TABLE in said or "query" in said, said
