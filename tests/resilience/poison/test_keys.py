"""Fifty ordering keys, five of them with a row that fails: no row of a key is handled before an earlier one of it,
before, while and after the failing ones wait for a person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.resilience.poison.bench import Bench

KEYS = 50
POISONED = 5
BAD_ROUND = 3
"""In which round the poisoned keys get the row that fails."""


def id_of(turn: int, customer: int) -> int:
    """The id of a customer's row of a round: a later one is higher."""
    return turn * 100 + customer


class Shop:
    """Rounds of rows, one for each customer."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.rounds = 0
        bench.downstream.bad = {id_of(BAD_ROUND, customer) for customer in range(1, POISONED + 1)}

    def a_round(self) -> None:
        self.rounds += 1
        for customer in range(1, KEYS + 1):
            self.bench.insert([id_of(self.rounds, customer)], customer=customer)

    def handled(self) -> dict[int, list[int]]:
        """The rounds of each customer's rows in the order in which they were done."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for id_ in self.bench.downstream.done:
            found[id_ % 100].append(id_ // 100)
        return found

    def in_order(self, *, poisoned: int, healthy: int) -> None:
        """Each customer's rows were done in order, none twice, and up to this round."""
        handled = self.handled()
        for customer in range(1, KEYS + 1):
            through = poisoned if customer <= POISONED else healthy
            assert handled[customer] == list(range(1, through + 1)), customer


@pytest.mark.guarantee(
    "Delivery",
    "In the mode `quarantine` the rows of an ordering key are handled in order, also around a replay",
)
@pytest.mark.parametrize("named", [False, True], ids=["raises", "names-them"])
def test_rows_of_a_key_are_handled_in_order_around_a_replay(
    benches: Callable[..., Bench], postgres_db: str, named: bool
) -> None:
    bench = benches(postgres_db, on_poison="quarantine", ordering_key=["customer_id"], batch_size=40)
    bench.downstream.named = named
    shop = Shop(bench)
    for _ in range(4):
        shop.a_round()
    bench.run(40)
    while bench.waits[1] < POISONED:
        assert shop.rounds < 20, bench.state
        shop.a_round()
        bench.run(16)
    shop.in_order(poisoned=BAD_ROUND - 1, healthy=shop.rounds)
    assert bench.waits == (POISONED * (shop.rounds - BAD_ROUND), POISONED), "those behind a pending row wait with it"

    bench.downstream.bad = {id_of(BAD_ROUND, 1)}
    result = bench.poller.quarantine.replay(all=True, handler=bench.downstream, by="ada")
    assert {row.outcome for row in result.rows} > {"replayed"}
    bench.run(20)
    handled = shop.handled()
    assert handled[1] == list(range(1, BAD_ROUND)), "a row that fails once more holds up those behind it"
    assert all(handled[customer] == list(range(1, shop.rounds + 1)) for customer in range(2, KEYS + 1))

    shop.a_round()
    bench.downstream.bad = set()
    bench.run(4)
    bench.poller.quarantine.replay(all=True, handler=bench.downstream, by="ada")
    shop.a_round()
    bench.run(20)
    shop.in_order(poisoned=shop.rounds, healthy=shop.rounds)
    assert bench.waits == (0, 0)
    replays = [call for call in bench.downstream.calls if call.replay]
    assert {len(call.ids) for call in replays} == {1}
