"""What a poller asks of a database that has nothing new."""

from __future__ import annotations

from poller.model.cursor import CursorKind
from tests.contract.sources.follower import End, Follower
from tests.contract.sources.laws.cases import Case, Laws, cases
from tests.contract.sources.place import Place


class CostLaws(Laws):
    """Needs `Place.idle`, `Place.watches` and `Place.filled`."""

    @cases("idle", lambda kind: [Case("", (kind.idle,))] if kind.idle is not None and kind.watches else ())
    def test_an_idle_tick_sends_as_few_statements_as_it_says(self, place: Place, idle: int) -> None:
        """Once everything is learned; the cursor is a time that the database stamps."""
        place.make_filled("timestamp+pk")
        place.run(place.added("timestamp+pk", 1))
        sent: list[str] = []
        with Follower(place, place.reading_filled("timestamp+pk"), before=sent.append) as follower:
            assert follower.drain() == End()
            follower.tick()
            counts = []
            for _ in range(3):
                sent.clear()
                assert follower.tick().outcome == "idle"
                counts.append(len(sent))
            assert counts == [idle] * 3, sent

    @cases("cursor", lambda kind: [Case(one, (one,), soak=True) for one in kind.filled] if kind.writers > 1 else ())
    def test_what_was_open_at_the_first_look_delays_one_tick(self, place: Place, cursor: CursorKind) -> None:
        """A process that has just begun looks again and again, for seconds; later ticks leave that to the next one."""
        place.make_filled(cursor)
        place.run(place.added(cursor, 1))
        sent: list[str] = []
        with place.session() as slow:
            slow.run(place.begin, place.added(cursor, 2))
            with Follower(place, place.reading_filled(cursor), before=sent.append) as follower:
                counts = []
                for _ in range(3):
                    sent.clear()
                    follower.tick()
                    counts.append(len(sent))
                slow.run("COMMIT")
                assert follower.drain() == End()
                assert sorted(follower.numbers) == [1, 2]
        assert max(counts[1:]) < 12, counts
