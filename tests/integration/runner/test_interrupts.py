"""Ctrl-C while a page is read ahead: the source is one thread's at a time, also for the tick that comes next."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from poller import Batch
from poller.observability import StaleCommitRefused
from poller.ports import Page, Task
from poller.runtime import SystemRuntime
from tests.integration.runner.clockwork import Clockwork
from tests.integration.runner.fakes import Table, World, Worlds, add, row, settled
from tests.integration.runner.wire import fine

ROWS = 60


class Shared(Table):
    """A table that counts the threads that use it at once. `most`: how many there were; `now`: how many there are."""

    now = most = 0

    def page(self, after: Any, limit: int, *, lag_cap: int | None = None) -> Page:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return super().page(after, limit)
        finally:
            self.now -= 1


def shared(worlds: Worlds, **options: Any) -> tuple[World, Shared]:
    """Rows whose pages take two seconds each."""
    world = worlds(page_size=10, **options)
    world.table = table = Shared(world.runtime, [row(number) for number in range(1, ROWS + 1)])
    table.page_seconds = 2.0
    world.worker = world.another()
    return world, table


def fails_second(world: World) -> Callable[[Batch], None]:
    """A handler whose second call fails while the next page is read: the tick waits for the reader, and ends."""

    def handle(batch: Batch) -> None:
        if len(world.seen) == 1:
            raise ValueError("not now")
        world.take(batch)

    return handle


@pytest.mark.guarantee(
    "Rows that commit late",
    "Ctrl-C in a tick leaves no thread behind that uses the source: `KeyboardInterrupt` is raised once the page that"
    " is being read is there, however often it is pressed",
)
@pytest.mark.parametrize("times", [1, 2, 4])
@pytest.mark.parametrize("waits", ["for the next page", "to end"])
def test_ctrl_c_leaves_no_second_thread_on_the_source(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch, times: int, waits: str
) -> None:
    """It is thrown into the thread of the tick, while that waits for the page that is read ahead; and again."""
    world, table = shared(worlds)
    left, wait = times, Clockwork.wait

    def comes() -> bool:
        return bool(left and table.now and world.seen)

    def interrupted(self: Clockwork, ready: Callable[[], bool], timeout: float | None) -> bool:
        nonlocal left
        if timeout is not None or threading.current_thread() is not threading.main_thread():
            return wait(self, ready, timeout)
        wait(self, lambda: ready() or comes(), timeout)
        if comes():
            left -= 1
            raise KeyboardInterrupt
        return ready()

    monkeypatch.setattr(Clockwork, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.tick(fails_second(world) if waits == "to end" else world.take)
    assert (left, table.now) == (0, 0)
    while world.delivered[-1:] != [ROWS]:
        world.tick_when_due()
    assert table.most == 1
    assert Counter(world.delivered) == Counter(range(1, ROWS + 1))


@pytest.mark.parametrize("begun", [False, True], ids=["before it ran", "once it ran"])
def test_ctrl_c_while_the_reader_starts_leaves_none_behind(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    world, table = shared(worlds)
    spawn = world.runtime.spawn

    def interrupted(target: Callable[[], None], name: str) -> Task:
        if not name.startswith("poller-reader"):
            return spawn(target, name)
        spawn(target, name)
        if begun:
            world.runtime.sleep(1)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(world.runtime, "spawn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            world.tick()
    assert table.now == 0
    world.tick()
    assert (table.most, world.delivered) == (1, list(range(1, ROWS + 1)))


@pytest.mark.parametrize("begun", ["never", "later", "at once"])
@pytest.mark.parametrize("lanes", [1, 3])
def test_ctrl_c_while_the_committer_starts_loses_no_commit(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch, lanes: int, begun: str
) -> None:
    """Whether its thread runs is not known then: what the handler has done lands once, before the lease is free."""
    world = settled(worlds(max_uncommitted=4, concurrency=lanes, batch_size=5))
    add(world, 1, ROWS)
    spawn, under_way = world.runtime.spawn, []

    def interrupted(target: Callable[[], None], name: str) -> Task:
        if not name.startswith("poller-committer"):
            return spawn(target, name)
        if begun != "never":
            spawn(target, name)
        if begun == "at once":
            world.runtime.sleep(0.5)
        raise KeyboardInterrupt

    def slow(do: Callable[[], Any]) -> Any:
        under_way.append(1)
        world.runtime.sleep(1)
        under_way.pop()
        return do()

    world.wire.write_faults.extend([fine, *[slow] * 3])  # the first takes the lease
    with monkeypatch.context() as patch:
        patch.setattr(world.runtime, "spawn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            world.tick(world.busy(0.1))
    assert (under_way, world.state.lease.owner_id) == ([], None)
    assert world.delivered != []
    world.tick()
    assert sorted(world.delivered) == list(range(1, ROWS + 1)), "each once"
    assert world.emitted(StaleCommitRefused) == []


def test_a_thread_is_waited_for_after_ctrl_c() -> None:
    """A `threading.Thread` counts as ended once an interrupt ended a `join`, though it runs (Python 3.11, 3.12)."""
    waits, was, goes_on = threading.Event(), threading.Event(), threading.Event()

    def interrupt(*_: object) -> None:
        if not was.is_set():
            was.set()
            raise KeyboardInterrupt

    def work() -> None:
        waits.wait()
        while not was.wait(0.05):  # one that comes right before the wait begins does not end it
            os.kill(os.getpid(), signal.SIGINT)
        goes_on.wait()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        task = SystemRuntime().spawn(work, "other")
        waits.set()
        with pytest.raises(KeyboardInterrupt):
            task.join()
        task.join(0.01)
        assert task.is_alive()
    finally:
        goes_on.set()
        signal.signal(signal.SIGINT, before)
    task.join()
    assert not task.is_alive()
