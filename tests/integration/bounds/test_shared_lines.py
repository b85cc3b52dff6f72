"""Who may use whose sample: the rules of a line, without a server. A tracker that counts stands for one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from poller.databases import samplers
from poller.databases.samplers import ReadingConnection, Sample, Samplers, SharedSampler
from tests.support.services import wait_until

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
OWN: Any = "own"
BROKEN: Any = "broken"
"""Connections, by their names."""
HERE = ReadingConnection("server", "shop", "app", "7@noon")


class Counting:
    """Its samples are a second apart by the server's clock. `gate`: what a sample waits for, on that connection."""

    kind = "observed"

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.own: list[tuple[str, ...]] = []
        self.later: list[bool] = []
        self.began = float("-inf")
        self.gates: dict[str, Callable[[], object]] = {}

    def take(self, connection: Any, own: Collection[str], *, later: bool) -> Sample:
        self.began = time.monotonic()
        self.taken.append(connection)
        self.own.append(tuple(own))
        self.later.append(later)
        self.gates.get(connection, lambda: None)()
        clock = NOON + timedelta(seconds=len(self.taken))
        return Sample(clock, clock, clock)

    def remember(self) -> dict[str, Any] | None:
        return None

    def recall(self, memory: Mapping[str, Any]) -> None: ...


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "WINDOW", 3600.0)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "WINDOW", -1.0)


class Bench:
    def __init__(self) -> None:
        self.samplers = Samplers()
        self.tracker = Counting()
        self.joined: list[SharedSampler] = []

    def join(
        self,
        reading: ReadingConnection = HERE,
        *,
        numbers: bool = False,
        ignored: Collection[str] = (),
        kind: str = "observed",
        stays: bool = True,
    ) -> SharedSampler:
        """A reader, which is there until the end where it `stays`."""
        connection: Any = "making"
        made = self.samplers.join(
            reading, lambda _: self.tracker, connection, kind=kind, ignored=ignored, numbers=numbers
        )
        self.joined += [made] * stays
        return made


@contextmanager
def asking(reader: SharedSampler, connection: Any, found: list[Sample]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=lambda: found.append(reader.take(connection)))
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


def test_a_young_sample_serves_the_others_and_says_its_age(wide: None) -> None:
    bench = Bench()
    readers = [bench.join() for _ in range(3)]
    clocks = {reader.take(OWN).clock for reader in readers}
    assert len(bench.tracker.taken) == 1
    assert clocks == {NOON + timedelta(seconds=1)}
    assert bench.join().take(OWN).ago > 0


def test_who_asks_again_at_once_gets_news(wide: None) -> None:
    bench = Bench()
    one, other = bench.join(), bench.join()
    clocks = [reader.take(OWN).clock.second for reader in (one, one, other, one)]
    assert clocks == [1, 2, 2, 3]


def test_numbers_get_no_sample_that_began_before_they_asked(wide: None) -> None:
    bench = Bench()
    bench.join().take(OWN)
    assert bench.join(numbers=True).take(OWN).clock.second == 2


def test_numbers_get_nothing_that_was_found_before_they_asked(wide: None) -> None:
    """Also where somebody handed it out once more since, who missed a turn."""
    bench = Bench()
    found = Sample(NOON, NOON, NOON, again=True)
    assert bench.join()._is_enough(found, 2.0, 1.0)
    numbers = bench.join(numbers=True)
    assert not numbers._is_enough(found, 2.0, 1.0)
    assert numbers._is_enough(replace(found, again=False), 2.0, 1.0)
    numbers.take(OWN)
    assert bench.tracker.later == [True]


def test_a_sample_older_than_what_another_process_saw_is_not_used(wide: None) -> None:
    """Else the clock would seem to have gone back."""
    bench = Bench()
    bench.join().take(OWN)
    reader = bench.join()
    reader.recall({"clock": (NOON + timedelta(seconds=1.5)).isoformat()})
    assert reader.take(OWN).clock.second == 2
    assert bench.tracker.later == [False, True]


def test_waiters_share_the_sample_that_began_after_they_asked(narrow: None) -> None:
    bench = Bench()
    gate = threading.Event()
    bench.tracker.gates["first"] = gate.wait
    first, second, third = bench.join(), bench.join(), bench.join(numbers=True)
    line = bench.samplers.line(first._key)
    found: list[Sample] = []
    waiting = 0

    class Counted:
        """The line's lock, and how many wait for it."""

        def acquire(self, *args: Any, **kwargs: Any) -> bool:
            nonlocal waiting
            waiting += 1
            return lock.acquire(*args, **kwargs)

        def release(self) -> None:
            lock.release()

    lock, line.lock = line.lock, Counted()  # type: ignore[assignment]
    with asking(first, "first", found):
        wait_until(lambda: bench.tracker.taken == ["first"], "the first sample is under way")
        with asking(second, "second", found), asking(third, "third", found):
            wait_until(lambda: waiting == 3, "both wait")
            gate.set()
    assert len(bench.tracker.taken) == 2
    assert sorted(sample.clock.second for sample in found) == [1, 2, 2]


def test_the_error_of_one_connection_is_nobody_elses(wide: None) -> None:
    bench = Bench()

    def breaks() -> None:
        raise ConnectionError

    bench.tracker.gates["broken"] = breaks
    one, other = bench.join(), bench.join()
    with pytest.raises(ConnectionError):
        one.take(BROKEN)
    assert other.take(OWN).clock.second == 2
    assert one.take(OWN).clock.second == 2, "and it goes on with what the other found"


def test_a_connection_that_hangs_keeps_nobody_for_long(narrow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "PATIENCE", 0.05)
    bench = Bench()
    gate = threading.Event()
    bench.tracker.gates["hangs"] = gate.wait
    one, other = bench.join(), bench.join()
    found: list[Sample] = []
    with asking(one, "hangs", found):
        wait_until(lambda: bench.tracker.taken == ["hangs"], "it hangs")
        try:
            assert other.take(OWN).oldest is not None
        finally:
            gate.set()
    assert bench.samplers.line(one._key).began > float("-inf"), "the new line is in use"
    assert found
    assert found[0] is not bench.samplers.line(one._key).last


def test_who_waited_for_one_that_hung_goes_where_the_others_went(narrow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lines that go on side by side would take twice the looks."""
    bench = Bench()
    gate, waits = threading.Event(), threading.Event()
    bench.tracker.gates["hangs"] = gate.wait
    one, patient, other = bench.join(), bench.join(), bench.join()
    line = bench.samplers.line(one._key)
    lock = line.lock

    class Told:
        """The line's lock, which says when somebody waits for it who will not give up."""

        def acquire(self, timeout: float) -> bool:
            if timeout > 1:
                waits.set()
            return lock.acquire(timeout=timeout)

        def release(self) -> None:
            lock.release()

    found: list[Sample] = []
    with asking(one, "hangs", []):
        wait_until(lambda: bench.tracker.taken == ["hangs"], "it hangs")
        line.lock = Told()  # type: ignore[assignment]
        monkeypatch.setattr(samplers, "PATIENCE", 60.0)
        with asking(patient, "patient", found):
            waits.wait(60)
            monkeypatch.setattr(samplers, "PATIENCE", 0.01)
            other.take(OWN)
            gate.set()
    last = bench.samplers.line(one._key).last
    assert last is not None
    assert [sample.clock for sample in found] == [last.clock]


@pytest.mark.parametrize(
    "other",
    [
        {"reading": HERE._replace(server="server, started again")},
        {"reading": HERE._replace(database="other")},
        {"reading": HERE._replace(user="other")},
        {"ignored": ("etl",)},
        {"kind": "exact"},
    ],
)
def test_what_differs_in_any_part_shares_nothing(wide: None, other: dict[str, Any]) -> None:
    bench = Bench()
    bench.join().take(OWN)
    bench.join(**other).take(OWN)
    assert len(bench.tracker.taken) == 2


def test_samples_leave_out_the_readers_sessions_while_held(narrow: None) -> None:
    bench = Bench()
    one = bench.join()
    other = bench.join(HERE._replace(database="other", session="8@noon"), stays=False)
    bench.join(HERE._replace(server="elsewhere", session="9@noon"))
    one.take(OWN)
    del other
    one.take(OWN)
    assert [set(own) for own in bench.tracker.own] == [{"7@noon", "8@noon"}, {"7@noon"}]


def test_the_last_reader_that_leaves_takes_the_line_with_it(wide: None) -> None:
    bench = Bench()
    one, other = bench.join(stays=False), bench.join(stays=False)
    one.take(OWN)
    del one
    assert other.take(OWN).clock.second == 1, "while another is there it stays"
    del other
    assert (bench.samplers._lines, bench.samplers._readers, bench.samplers._sessions) == ({}, {}, {})
