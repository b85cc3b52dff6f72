"""What a poller asks of a database that has nothing new."""

from __future__ import annotations

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
