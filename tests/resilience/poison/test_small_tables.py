"""Rows that fail in small tables: what is handed over, in which order, and what waits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.resilience.poison.bench import Bench


@pytest.fixture
def bench(benches: Callable[..., Bench], sqlite_url: str) -> Callable[..., Bench]:
    def make(**options: object) -> Bench:
        return benches(sqlite_url, **{"on_poison": "quarantine", "batch_size": 4, **options})

    return make


def test_batches_of_one_row_set_a_bad_one_aside(bench: Callable[..., Bench]) -> None:
    table = bench(batch_size=1)
    table.downstream.bad = {2}
    table.insert(range(1, 5))
    table.run(3)
    assert table.downstream.done == [1, 3, 4]
    assert table.waits == (1, 0)
    table.downstream.bad = set()
    table.run(10)
    assert table.downstream.done == [1, 3, 4, 2]
    assert table.waits == (0, 0)
    assert table.statuses() == ["delivered"]


def test_a_quiet_tables_last_row_is_bad_and_stays_aside(bench: Callable[..., Bench]) -> None:
    """Nothing is delivered beside it, so it gets no strikes; the poller is not wedged by it."""
    table = bench()
    table.downstream.bad = {3}
    table.insert(range(1, 4))
    outcomes = table.run(120)
    assert table.downstream.done == [1, 2]
    assert table.waits == (1, 0)
    assert outcomes[-1] in ("idle", "handler_failed")
    table.downstream.bad = set()
    table.run(10)
    assert table.downstream.done == [1, 2, 3]
    table.insert([4])
    table.run(2)
    assert table.downstream.done == [1, 2, 3, 4]


def test_two_adjacent_bad_rows_hold_up_no_other(bench: Callable[..., Bench]) -> None:
    table = bench(batch_size=8)
    table.downstream.bad = {4, 5}
    table.insert(range(1, 9))
    table.run(12)
    assert sorted(table.downstream.done) == [1, 2, 3, 6, 7, 8]
    assert table.waits == (2, 0)
    table.insert([9])
    for number in range(10, 16):
        table.run(8)
        table.insert([number])
    table.run(8)
    assert table.waits == (0, 2), "each of them failed again and again while others were delivered"
    assert sorted(table.downstream.done) == [1, 2, 3, *range(6, 16)]
    assert table.statuses() == ["pending", "pending"]


def test_a_bad_row_of_every_key_leaves_nothing_handled_later(bench: Callable[..., Bench]) -> None:
    """Each key's first row is bad: the others follow, and come in order when the rows are put right."""
    table = bench(ordering_key=["customer_id"], batch_size=3)
    table.downstream.bad = {1, 2, 3}
    for customer in (1, 2, 3):
        table.insert([customer], customer=customer)
    for customer in (1, 2, 3):
        table.insert([customer + 10, customer + 20], customer=customer)
    table.run(40)
    assert table.downstream.done == []
    assert table.waits == (9, 0)
    table.downstream.bad = set()
    table.run(20)
    assert [id_ % 10 for id_ in table.downstream.done].count(1) == 3
    assert all(
        [id_ for id_ in table.downstream.done if id_ % 10 == customer] == [customer, customer + 10, customer + 20]
        for customer in (1, 2, 3)
    )
    assert table.waits == (0, 0)


def test_a_row_mended_while_aside_comes_as_it_is_now_only(bench: Callable[..., Bench]) -> None:
    table = bench(retry_backoff="60s", retry_backoff_max="60s")
    table.downstream.bad, table.downstream.named = {2}, True
    table.insert(range(1, 4))
    table.tick()
    assert table.waits == (1, 0)
    table.downstream.bad = set()
    newer = table.touch(2)
    table.run(120)
    assert [call.versions for call in table.downstream.calls if 2 in call.done] == [(newer,)]
    assert table.waits == (0, 0)
    assert table.statuses() == ["superseded"]


def test_a_row_that_failed_and_is_deleted_comes_from_its_record(bench: Callable[..., Bench]) -> None:
    table = bench()
    table.downstream.bad = {2}
    table.insert(range(1, 4))
    table.run(6)
    table.delete(2)
    table.downstream.bad = set()
    table.run(10)
    assert table.downstream.done == [1, 3, 2]
    assert table.waits == (0, 0)


@pytest.mark.parametrize("mode", ["block", "halt", "quarantine"])
def test_a_window_whose_rows_move_away_ends(bench: Callable[..., Bench], mode: str) -> None:
    """The batch fails as a whole; while the bad row is searched for, all of its rows are written again."""
    table = bench(on_poison=mode, batch_size=4)
    table.downstream.bad = {1}
    table.insert(range(1, 5))
    while table.tick().outcome != "handler_failed" or table.state.delivery.window is None:
        table.runtime.sleep(1.0)
        if table.waits[0]:
            break
    for id_ in range(1, 5):
        table.touch(id_)
    table.downstream.bad = set()
    table.run(20)
    assert sorted(set(table.downstream.done)) == [1, 2, 3, 4]
    assert table.state.delivery.window is None
    assert table.waits == (0, 0)


def test_an_outage_sets_no_more_than_max_aside_rows_aside(bench: Callable[..., Bench]) -> None:
    table = bench(max_aside=2, retry_backoff_max="300s", batch_size=2)
    table.insert(range(1, 11))
    table.downstream.down = True
    table.run(60)
    assert table.downstream.done == []
    assert table.waits == (2, 0)
    table.downstream.down = False
    outcomes = table.run(300)
    assert sorted(table.downstream.done) == list(range(1, 11))
    assert table.waits == (0, 0)
    assert outcomes[-1] == "idle"
    assert table.statuses() == ["delivered", "delivered"]
    assert not table.emitted("row_quarantined")


def test_a_full_quarantine_blocks_and_says_so(bench: Callable[..., Bench]) -> None:
    table = bench(max_quarantined=2, max_aside=2, ordering_key=["customer_id"], batch_size=4, max_attempts=1)
    table.downstream.bad = {1, 2}
    table.insert([1, 2])
    table.insert([11], customer=1)
    table.insert([20])
    table.run(30)
    result = table.tick()
    assert result.outcome == "blocked"
    assert "max_quarantined is 2" in (result.error or "")
    assert not result.ok
    assert 11 not in table.downstream.done
    assert sum(table.waits) == 2


def test_a_row_too_large_for_a_record_blocks_and_says_why(bench: Callable[..., Bench]) -> None:
    table = bench(batch_size=4)
    table.downstream.bad = {2}
    table.insert([1])
    table.insert([2], note="x" * 1_100_000)
    table.insert([3])
    errors = []
    for _ in range(30):
        result = table.tick()
        errors.append(result.error or "")
        table.runtime.sleep(1.0)
    assert table.downstream.done == [1]
    assert table.waits == (0, 0)
    assert any("record" in error and "bytes" in error for error in errors), errors
    assert "xxx" not in "".join(errors)
    table.downstream.bad = set()
    table.run(20)
    assert table.downstream.done == [1, 2, 3]
