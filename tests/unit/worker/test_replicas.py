"""Hints of processes that run the same pollers: who looks at what, on a clock and in a store in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from poller.errors import StoreUnavailable
from poller.ports import Found, Listed, Missing, Timeout, Unchanged, Written
from poller.stores import MemoryStore
from poller.worker import Replicas
from tests.integration.runner.clockwork import Clockwork
from tests.support.cases import each

POLLERS = [f"p{number}" for number in range(1000)]
TEN = 10.0
"""Seconds between two looks of each."""


class Requests(MemoryStore):
    """Counts what it is asked; `away`: it does not answer."""

    def __init__(self, clock: Clockwork | None, *, server_time: bool = True) -> None:
        super().__init__(clock, server_time=server_time)
        self.asked: list[str] = []
        self.away = False

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.away:
            raise StoreUnavailable("No answer came.")

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        self._ask("read")
        return super().read(name, unless=unless, timeout=timeout)

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        self._ask("write")
        return super().write(name, body, if_tag=if_tag, timeout=timeout)

    def listed(self, prefix: str, *, timeout: Timeout | None = None) -> Iterator[Listed]:
        self._ask("list")
        return super().listed(prefix, timeout=timeout)


class Site:
    """Some processes, whose steps are taken by hand. `overdue`: what each says of itself."""

    def __init__(self, *, server_time: bool = True) -> None:
        self.clock = Clockwork()
        self.store = Requests(self.clock, server_time=server_time)
        self.processes: list[Replicas] = []
        self.overdue: dict[str, tuple[str, ...]] = {}

    def join(self, pollers: list[str] = POLLERS, looks: float = 6000.0) -> Replicas:
        process = Replicas(self.store, "shop", runtime=self.clock)
        process.begin(pollers, looks)
        self.processes.append(process)
        process.step()
        return process

    def go_on(self, seconds: float, *without: Replicas) -> None:
        """Everybody but `without` takes its steps, each second."""
        for _ in range(int(seconds)):
            self.clock.sleep(1)
            for process in self.processes:
                if process not in without and process.left() == 0:
                    process.step(self.overdue.get(process.id, ()))

    def share(self, process: Replicas) -> set[str]:
        """The pollers that it looks at each time. Chance is a half here, and never enough for a look."""
        return {name for name in POLLERS if process.wants(name, lambda: TEN)}

    def hints(self) -> list[str]:
        return sorted(self.store.names("replicas/"))


def covered(*shares: set[str]) -> bool:
    return set().union(*shares) == set(POLLERS)


def test_processes_share_all_pollers_among_them() -> None:
    site = Site()
    processes = [site.join() for _ in range(4)]
    site.go_on(20)
    shares = [site.share(process) for process in processes]
    assert covered(*shares)
    assert sum(map(len, shares)) == 1000, "nobody looks at what another does"
    assert all(200 < len(share) < 300 for share in shares)


def test_a_process_alone_looks_at_everything() -> None:
    site = Site()
    process = site.join()
    site.go_on(60)
    assert covered(site.share(process))


def test_who_leaves_is_replaced_at_the_next_look() -> None:
    site = Site()
    first, second = site.join(), site.join()
    site.go_on(20)
    second.end()
    site.go_on(15, second)
    assert covered(site.share(first))
    assert site.hints() == [f"replicas/shop/{first.id}"]


def test_who_was_killed_is_replaced_within_a_minute_and_removed() -> None:
    site = Site()
    first, killed = site.join(), site.join()
    site.go_on(30)
    site.go_on(60, killed)
    assert covered(site.share(first))
    site.go_on(45, killed)
    assert site.hints() == [f"replicas/shop/{first.id}"]


def test_only_the_share_of_who_leaves_changes_hands() -> None:
    site = Site()
    first, second, third = (site.join() for _ in range(3))
    site.go_on(20)
    before = site.share(first), site.share(second)
    third.end()
    site.go_on(20, third)
    assert before[0] < site.share(first)
    assert before[1] < site.share(second)


def test_what_one_is_overdue_with_the_next_takes_alone() -> None:
    site = Site()
    processes = [site.join() for _ in range(5)]
    site.go_on(20)
    busy = processes[0]
    late = sorted(site.share(busy))[:7]
    site.overdue[busy.id] = tuple(late)
    site.go_on(30)
    others = [site.share(process) for process in processes[1:]]
    assert [sum(name in share for share in others) for name in late] == [1] * 7
    assert set(late) <= site.share(busy), "it goes on too"
    del site.overdue[busy.id]
    site.go_on(30)
    assert not any(set(late) & site.share(process) for process in processes[1:])


def test_a_poller_that_nobody_serves_is_looked_at_by_chance() -> None:
    """A hint may lie: its process is alive and looks at nothing. 4 intervals is the average of all others together."""
    site = Site()
    processes = [site.join() for _ in range(20)]
    site.go_on(20)
    chance = processes[1]._ranking
    assert chance is not None
    for interval in (1.0, 10.0, 60.0, 3600.0, 86400.0):
        looks = 19 * chance.chance(interval)
        assert looks >= 1 or interval / looks <= min(4.3 * interval, 301)
    assert chance.chance(86400) == 1, "a nightly poller is looked at by everybody"


def test_hints_that_cannot_be_used_mean_looking_at_everything(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    first, _ = site.join(), site.join()
    site.go_on(20)
    site.store.away = True
    site.go_on(300)
    assert covered(site.share(first))
    assert len([record for record in caplog.records if "cannot be used" in record.message]) == 2, "once each"
    site.store.away = False
    site.go_on(60)
    assert not covered(site.share(first))


GARBAGE = [
    b"",
    b"\xff\xfe",
    b"[" * 40_000,
    b"[" * 30_000,
    b"{}",
    b"null",
    b'{"v": 2, "pollers": "x"}',
    b'{"v": 1, "pollers": 7}',
    json.dumps({"v": 1, "pollers": "x", "overdue": "p1" * 20_000}).encode(),
]


@each("body", GARBAGE)
def test_a_hint_full_of_garbage_is_nobodys(body: bytes) -> None:
    site = Site()
    site.store.write(f"replicas/shop/{'f' * 32}", body, if_tag=None)
    site.store.write("replicas/shop/README", body, if_tag=None)
    process = site.join()
    site.go_on(20)
    assert covered(site.share(process))
    site.go_on(100)
    assert site.hints() == [f"replicas/shop/{process.id}", "replicas/shop/README"], "what is not ours stays"


def test_names_that_are_no_texts_are_passed_over() -> None:
    site = Site()
    first, second = site.join(), site.join()
    name = f"replicas/shop/{second.id}"
    found = site.store.read(name)
    assert isinstance(found, Found)
    body = json.loads(found.body) | {"overdue": [None, 7, {"a": 1}, "p1"], "more": "of a later version"}
    site.store.write(name, json.dumps(body).encode(), if_tag=found.tag)
    site.go_on(16, second)
    assert not covered(site.share(first))
    assert first.wants("p1", lambda: TEN)


def test_a_hint_of_long_ago_counts_for_nothing() -> None:
    site = Site()
    site.join()
    site.clock.sleep(3600)
    process = site.join()
    assert covered(site.share(process))
    assert site.hints() == [f"replicas/shop/{process.id}"]


@pytest.mark.parametrize("hours", [-2, 2])
def test_wall_clocks_that_differ_change_nothing(hours: int) -> None:
    """Ages are differences of the store's own times."""
    site = Site()
    first = site.join()
    site.join()
    site.go_on(20)
    share = site.share(first)
    site.store._clock = Ahead(site.clock, hours)
    site.go_on(60)
    assert site.share(first) == share
    assert len(site.hints()) == 2


class Ahead:
    """The server's clock, which is right, as the others see it."""

    def __init__(self, clock: Clockwork, hours: int) -> None:
        self._clock, self._hours = clock, hours

    def utcnow(self) -> datetime:
        return self._clock.utcnow() + timedelta(hours=self._hours)


def test_without_times_of_the_store_a_hint_lives_while_it_changes() -> None:
    site = Site(server_time=False)
    first, killed = site.join(), site.join()
    site.go_on(60)
    assert not covered(site.share(first))
    site.go_on(60, killed)
    assert covered(site.share(first))
    site.go_on(60, killed)
    assert site.hints() == [f"replicas/shop/{first.id}"]


def test_two_processes_with_one_id_become_two() -> None:
    """A machine was cloned, or a process forked."""
    site = Site()
    first, second = site.join(), site.join()
    assert second._tag is not None
    site.store.remove(f"replicas/shop/{second.id}", if_tag=second._tag)
    second.id, second._tag = first.id, first._tag
    site.go_on(60)
    assert first.id != second.id
    assert sum(len(site.share(process)) for process in (first, second)) == 1000


def test_a_child_process_is_another_replica() -> None:
    site = Site()
    process = site.join()
    before = process.id
    process._reset_after_fork()
    process.step()
    assert process.id != before
    assert f"replicas/shop/{before}" in site.hints(), "the parent's is not the child's to remove"


def test_a_write_whose_answer_was_lost_is_its_own() -> None:
    site = Site()
    process = site.join()
    former = process.id, process._tag
    site.go_on(60)
    process._tag = former[1]
    site.go_on(60)
    assert process.id == former[0]
    assert len(site.hints()) == 1


def test_processes_of_other_pollers_share_nothing() -> None:
    """`poller run orders` beside `poller run`, or two versions while one is rolled out."""
    site = Site()
    some, everything = site.join(POLLERS[:500]), site.join()
    site.go_on(30)
    assert covered(site.share(everything))
    assert set(POLLERS[:500]) <= site.share(some)


@pytest.mark.parametrize(("pollers", "looks"), [(16, 960.0), (1000, 0.7)])
def test_few_pollers_or_looks_are_worth_no_hints(pollers: int, looks: float) -> None:
    site = Site()
    process = site.join(POLLERS[:pollers], looks=looks)
    assert process.left() == float("inf")
    site.store.asked.clear()
    site.go_on(600)
    assert site.store.asked == []


def test_hints_cost_a_few_requests_a_minute() -> None:
    site = Site()
    for _ in range(20):
        site.join()
    site.go_on(60)
    site.store.asked.clear()
    site.go_on(600)
    per_minute = {what: site.store.asked.count(what) / 10 / 20 for what in ("read", "write", "list")}
    assert 2 <= per_minute["write"] <= 2.6
    assert 4 <= per_minute["list"] <= 5.1
    assert per_minute["read"] <= 19 * 2.6
