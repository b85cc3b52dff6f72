"""One look for all who ask, on a clock and threads that the test holds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from poller.errors import StoreUnavailable
from poller.http.looks import LookTimedOut, SharedLook


class Slow:
    """A look that ends when the test says so."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.began = threading.Semaphore(0)
        self.times = 0

    def __call__(self) -> int:
        self.times += 1
        self.began.release()
        assert self.go_on.wait(30)
        return self.times


class Several:
    """Looks each of which ends when the test says so, and finds its own number."""

    def __init__(self) -> None:
        self.go_on = [threading.Event() for _ in range(4)]
        self.began = threading.Semaphore(0)
        self.times = 0

    def __call__(self) -> int:
        self.times += 1
        number = self.times
        self.began.release()
        assert self.go_on[number].wait(30)
        return number


def test_a_hundred_callers_at_once_cost_one_look_and_one_thread() -> None:
    slow = Slow()
    shared = SharedLook(slow, patience=30.0)
    before = threading.active_count()

    with ThreadPoolExecutor(100) as callers:
        answers = [callers.submit(shared.take) for _ in range(100)]
        slow.began.acquire()
        looking = threading.active_count() - before - len(callers._threads)
        slow.go_on.set()
        assert {one.result() for one in answers} == {1}

    assert slow.times == 1
    assert looking == 1


@pytest.mark.parametrize(
    ("took", "after", "looks"),
    [(0.0, 9.9, 1), (0.0, 10.1, 2), (4.0, 9.9, 1), (7.0, 13.9, 1), (7.0, 14.1, 2), (60.0, 19.9, 1), (60.0, 20.1, 2)],
)
def test_a_look_serves_for_twice_as_long_as_it_took(took: float, after: float, looks: int) -> None:
    """For `kept` at least, and for 20 s at most."""
    clock, times = [100.0], [0]

    def look() -> int:
        times[0] += 1
        clock[0] += took
        return times[0]

    shared = SharedLook(look, kept=10.0, patience=30.0, now=lambda: clock[0])
    shared.take()
    clock[0] += after

    assert shared.take() == looks


def test_a_look_that_hangs_is_waited_for_once_and_not_repeated() -> None:
    slow, clock = Slow(), [0.0]
    shared = SharedLook(slow, patience=8.0, now=lambda: clock[0])
    served: list[int] = []
    first = threading.Thread(target=lambda: served.append(shared.take()), daemon=True)
    first.start()
    slow.began.acquire()
    clock[0] = 8.1

    for _ in range(100):
        with pytest.raises(LookTimedOut):
            shared.take()

    assert slow.times == 1
    slow.go_on.set()
    first.join(30)
    assert served == [1], "a caller that asked in time gets it"
    assert shared.take() == 1, "and so does the next one"


@pytest.mark.guarantee(
    "Never silently dead",
    "A store, document, database or configuration that cannot be read is unhealthy, and hides no other poller",
)
def test_while_a_look_hangs_the_last_result_serves_for_a_while() -> None:
    """One database that hangs must not hide what is known of all others."""
    clock, slow = [0.0], Slow()
    shared = SharedLook(slow, hurry=0.01, now=lambda: clock[0])
    slow.go_on.set()
    assert shared.take() == 1
    slow.go_on.clear()

    clock[0] = 15.0
    assert [shared.take() for _ in range(3)] == [1, 1, 1]
    clock[0] = 30.1
    with pytest.raises(LookTimedOut):
        shared.take()
    assert slow.times == 2, "and the look goes on"
    slow.go_on.set()
    shared.settle(30)
    assert shared.take() == 2


def test_after_an_error_nothing_older_is_given_out() -> None:
    clock, slow, away = [0.0], Slow(), [False]

    def look() -> int:
        if away[0]:
            raise StoreUnavailable("away")
        return slow()

    shared = SharedLook(look, patience=0.2, hurry=0.01, now=lambda: clock[0])
    slow.go_on.set()
    assert shared.take() == 1
    clock[0], away[0] = 2.0, True
    with pytest.raises(StoreUnavailable):
        shared.take()
    clock[0], away[0] = 4.0, False
    slow.go_on.clear()
    with pytest.raises(LookTimedOut):
        shared.take()
    slow.go_on.set()


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (lambda: StoreUnavailable("away"), StoreUnavailable),
        (lambda: TimeoutError("of a socket"), TimeoutError),
        (lambda: SystemExit(3), RuntimeError),
    ],
)
def test_what_a_look_raises_reaches_each_caller(error: Callable[[], BaseException], seen: type[Exception]) -> None:
    clock, times = [0.0], [0]

    def look() -> int:
        times[0] += 1
        raise error()

    shared = SharedLook(look, now=lambda: clock[0])

    for _ in range(3):
        with pytest.raises(seen):
            shared.take()
    assert times == [1], "an outage is not asked about by each caller"
    clock[0] = 1.1
    with pytest.raises(seen):
        shared.take()
    assert times == [2]


def test_who_closes_connections_waits_for_a_look_under_way() -> None:
    slow = Slow()
    shared, served = SharedLook(slow), list[int]()
    shared.settle(30)  # nothing is under way
    first = threading.Thread(target=lambda: served.append(shared.take()), daemon=True)
    first.start()
    slow.began.acquire()
    threading.Timer(0.05, slow.go_on.set).start()

    shared.settle(30)

    assert slow.go_on.is_set()
    first.join(30)
    assert served == [1]


# --- when something was changed


def test_what_was_found_before_a_change_is_not_given_out() -> None:
    looks = Several()
    shared = SharedLook(looks, kept=60.0)
    for one in looks.go_on:
        one.set()
    assert (shared.take(), shared.take()) == (1, 1)

    shared.forget()

    assert (shared.take(), shared.take()) == (2, 2)


def test_a_failure_before_a_change_is_not_given_out() -> None:
    found = [StoreUnavailable("away")]

    def look() -> str:
        if found:
            raise found.pop()
        return "back"

    shared = SharedLook(look, now=lambda: 0.0)
    with pytest.raises(StoreUnavailable):
        shared.take()

    shared.forget()

    assert shared.take() == "back"


@pytest.mark.parametrize("first", [1, 2], ids=["the old one ends first", "the new one ends first"])
def test_a_look_under_way_at_a_change_is_not_kept(first: int) -> None:
    """Those who waited for it get it, and those who ask after the change never do."""
    looks = Several()
    shared = SharedLook(looks, patience=30.0, kept=60.0, now=lambda: 0.0)
    with ThreadPoolExecutor(2) as callers:
        before = callers.submit(shared.take)
        looks.began.acquire()
        shared.forget()
        after = callers.submit(shared.take)
        looks.began.acquire()
        waited = {1: before, 2: after}
        for number in (first, 3 - first):
            looks.go_on[number].set()
            assert waited[number].result(30) == number

    assert shared.take() == 2
    assert looks.times == 2


def test_a_look_that_hangs_at_a_change_keeps_no_page_waiting() -> None:
    """The look after it is a caller's whole patience away from its end, not what is left of the one that hangs."""
    clock, looks = [0.0], Several()
    shared = SharedLook(looks, patience=8.0, now=lambda: clock[0])
    with ThreadPoolExecutor(1) as callers:
        before = callers.submit(shared.take)
        looks.began.acquire()
        clock[0] = 100.0
        shared.forget()
        looks.go_on[2].set()

        assert shared.take() == 2
        looks.go_on[1].set()
        assert before.result(30) == 1


def test_nothing_found_before_a_change_serves_while_the_next_hangs() -> None:
    clock, looks = [0.0], Several()
    shared = SharedLook(looks, patience=8.0, now=lambda: clock[0])
    looks.go_on[1].set()
    assert shared.take() == 1
    shared.forget()
    with ThreadPoolExecutor(1) as callers:
        looks.began.acquire()
        after = callers.submit(shared.take)
        looks.began.acquire()
        clock[0] = 8.1
        with pytest.raises(LookTimedOut):
            shared.take()
        looks.go_on[2].set()

        assert after.result(30) == 2


def test_who_closes_connections_waits_for_a_forgotten_look_too() -> None:
    looks = Several()
    shared = SharedLook(looks)
    with ThreadPoolExecutor(1) as callers:
        before = callers.submit(shared.take)
        looks.began.acquire()
        shared.forget()
        looks.go_on[2].set()
        assert shared.take() == 2
        threading.Timer(0.05, looks.go_on[1].set).start()

        shared.settle(30)

        assert looks.go_on[1].is_set()
        assert before.result(30) == 1
