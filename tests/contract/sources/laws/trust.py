"""What a bound rests on ends while it is relied on: no row is passed, and the poller says what it waits for."""

from __future__ import annotations

import time
from collections.abc import Iterable

from poller import SourceError
from poller.model.cursor import CursorKind
from tests.contract.sources.follower import PATIENCE, End, Follower
from tests.contract.sources.laws.cases import Case, Laws, cases
from tests.contract.sources.place import Place, Weakening


def each(kind: type[Place]) -> Iterable[Case]:
    return [Case(weakening.name, (weakening,)) for weakening in kind.weakenings]


def each_late(kind: type[Place]) -> Iterable[Case]:
    return [Case(one.name, (one,)) for one in kind.weakenings if one.late and kind.writers > 1]


def of_numbers(kind: type[Place]) -> Iterable[Case]:
    return [Case("", ("integer+pk",))] if "integer+pk" in kind.filled and kind.goes_back else ()


def in_blocks(kind: type[Place]) -> Iterable[Case]:
    return [Case(one.name, (one,)) for one in kind.weakenings if one.blocks]


class TrustLaws(Laws):
    """Needs `Place.filled` and `Place.weakenings`; for the last one `Place.go_back`."""

    @cases("weakening", each_late)
    def test_no_row_is_passed_while_a_guarantee_is_lost(self, place: Place, weakening: Weakening) -> None:
        """It is lost while a transaction is open, and is back when that has committed."""
        cursor = weakening.cursor
        place.make_filled(cursor)
        place.run(place.added(cursor, 1))
        with Follower(place, place.reading_filled(cursor)) as follower:
            assert follower.drain() == End()
            with place.session() as slow:
                slow.run(place.begin, place.added(cursor, 2))
                place.change(weakening.made, "table")
                try:
                    place.cut()
                    place.run(place.added(cursor, 3))
                    follower.drain(patience=1)
                    slow.run("COMMIT")
                    follower.drain(patience=1)
                finally:
                    place.change(weakening.undone, "table")
            place.cut()
            assert follower.drain() == End()
            assert set(follower.numbers) == {1, 2, 3}

    @cases("weakening", in_blocks)
    def test_no_number_is_passed_when_sessions_get_blocks(self, place: Place, weakening: Weakening) -> None:
        """The numbers of a session's block are below those of another's, and come later, from no open transaction."""
        cursor = weakening.cursor
        place.make_filled(cursor)
        place.run(place.added(cursor, 1))
        with Follower(place, place.reading_filled(cursor)) as follower:
            assert follower.drain() == End()
            place.change(weakening.made, "table")
            with place.session() as one, place.session() as other:
                one.run(place.added(cursor, 2))
                other.run(place.added(cursor, 3))
                follower.drain(patience=1)
                one.run(place.added(cursor, 4))
                follower.drain(patience=1)
            place.change(weakening.undone, "table")
            place.run(place.added(cursor, 5))
            assert follower.drain() == End()
            assert set(follower.numbers) == {1, 2, 3, 4, 5}

    @cases("weakening", each)
    def test_a_running_poller_judges_as_one_that_begins(self, place: Place, weakening: Weakening) -> None:
        """What a new process refuses, or calls a lesser bound, a running one does not go on with as before."""
        cursor = weakening.cursor
        place.make_filled(cursor)
        place.run(place.added(cursor, 1))
        with Follower(place, place.reading_filled(cursor)) as running:
            assert running.drain() == End()
            place.change(weakening.made, "table")
            try:
                place.cut()
                place.run(place.added(cursor, 2))
                with Follower(place, place.reading_filled(cursor)) as fresh:
                    begins = _verdict(fresh)
                goes_on = _verdict(running, patience=PATIENCE)
            finally:
                place.change(weakening.undone, "table")
            assert begins in goes_on, "or it waits, and says why"
            place.cut()
            assert running.drain() == End()
            assert set(running.numbers) == {1, 2}

    @cases("cursor", of_numbers)
    def test_a_server_that_went_back_is_not_idle(self, place: Place, cursor: CursorKind) -> None:
        """It hands out numbers below the checkpoint: nothing is read, and that is said, until a person moves it."""
        place.make_filled(cursor)
        place.run(*(place.added(cursor, number) for number in range(1, 21)))
        with Follower(place, place.reading_filled(cursor)) as follower:
            assert follower.drain() == End()
            place.go_back(10)
            place.run(*(place.added(cursor, number) for number in range(101, 106)))
            told = follower.tick().bound
            assert told is not None
            assert told.below_checkpoint
            assert told.reason
            assert len(follower.rows) == 20
            follower.poller.reset("beginning", by="law")
            assert follower.drain() == End()
            assert set(follower.numbers) >= place.numbers()


class FailOverLaws(Laws):
    """Needs `Place.filled` and `Place.fail_over`."""

    @cases("cursor", lambda kind: [Case(cursor, (cursor,), soak=True) for cursor in kind.filled if kind.fails_over])
    def test_a_successor_that_lags_passes_none_of_its_rows(self, place: Place, cursor: CursorKind) -> None:
        """It hands out numbers again that rows had which it never saw, and soon more than that."""
        place.make_filled(cursor)
        place.run(*(place.added(cursor, number) for number in range(1, 21)))
        with Follower(place, place.reading_filled(cursor)) as follower:
            assert follower.drain() == End()
            place.fail_over(10)
            place.run(*(place.added(cursor, number) for number in range(101, 121)))
            end = follower.drain(patience=2)
            if end != End():
                assert end.says()
                follower.poller.reset("beginning", by="law")
                end = follower.drain()
                if end.waits is not None:
                    assert end.waits.bound is not None
                    assert end.waits.bound.held_by
                    place.take_over()
                    end = follower.drain()
                assert end == End()
            lost = place.numbers() - set(follower.numbers)
            assert not lost, f"{len(lost)} rows were lost in silence: {sorted(lost)}"


def _verdict(follower: Follower, *, patience: float = 0.0) -> str:
    """What a poller calls its bound, of the row that it delivers if it does in time, or what it refuses: what shows no
    row need not be judged."""
    until = time.monotonic() + patience
    while True:
        try:
            done = follower.tick()
        except SourceError as error:
            return error.message
        if done.rows or time.monotonic() > until:
            return "no bound" if done.bound is None else done.bound.kind
        time.sleep(0.02)
