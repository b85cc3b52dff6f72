"""The laws that hold while others do the same at the same moment: real threads, each with a store of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from poller.contract.stores.place import Place
from poller.errors import WriteConflict
from poller.ports import Found, StateStore, Written

_NAME = "state/shop/orders.json"
_ROUNDS = 200


def _at_once(*calls: Callable[[], Written]) -> list[Written | None]:
    """What each call, started together, returned; None where it found a conflict."""
    start = Barrier(len(calls))

    def run(call: Callable[[], Written]) -> Written | None:
        start.wait()
        try:
            return call()
        except WriteConflict:
            return None

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_of_two_writers_with_the_same_tag_exactly_one_wins(place: Place) -> None:
    one, two = place.open(), place.open()
    tag = one.write(_NAME, b"start", if_tag=None).tag
    for number in range(_ROUNDS):
        bodies = [f"{writer} {number}".encode() for writer in (1, 2)]

        def attempt(store: StateStore, body: bytes, tag: str = tag) -> Callable[[], Written]:
            return lambda: store.write(_NAME, body, if_tag=tag)

        results = _at_once(attempt(one, bodies[0]), attempt(two, bodies[1]))
        assert [result is None for result in results].count(False) == 1
        winner = 0 if results[0] is not None else 1
        answer = one.read(_NAME)
        assert isinstance(answer, Found)
        won = results[winner]
        assert won is not None
        assert (answer.body, answer.tag) == (bodies[winner], won.tag)
        tag = answer.tag


def test_of_many_creators_one_wins_though_the_container_is_missing(place: Place) -> None:
    stores = [place.open() for _ in range(8)]

    def attempt(number: int) -> Callable[[], Written]:
        return lambda: stores[number].write(_NAME, str(number).encode(), if_tag=None)

    results = _at_once(*(attempt(number) for number in range(8)))
    winners = [number for number, result in enumerate(results) if result is not None]
    assert len(winners) == 1
    answer = stores[0].read(_NAME)
    assert isinstance(answer, Found)
    assert answer.body == str(winners[0]).encode()


def test_one_store_serves_many_threads(place: Place) -> None:
    store = place.open()

    def count_up(name: str) -> int:
        tag = store.write(name, b"0", if_tag=None).tag
        for number in range(1, 20):
            tag = store.write(name, str(number).encode(), if_tag=tag).tag
        answer = store.read(name)
        assert isinstance(answer, Found)
        return int(answer.body)

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(count_up, [f"state/shop/{number}.json" for number in range(6)])) == [19] * 6


def test_no_appended_line_is_lost_or_torn_among_many_appenders(place: Place) -> None:
    stores = [place.open() for _ in range(4)]
    name = "audit/shop/orders.jsonl"

    def append(number: int) -> None:
        for line in range(10):
            stores[number].append(name, f"{number}:{line}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(4)))
    lines = place.open().lines(name)
    assert sorted(lines) == sorted(f"{number}:{line}" for number in range(4) for line in range(10))
    assert list(place.open().names("audit/")) == [name]
