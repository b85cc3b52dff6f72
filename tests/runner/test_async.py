"""Async handlers: awaited to their end, and cancelled when the lease is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from poller.batch import Batch
from poller.observability import StaleCommitRefused
from tests.runner.fakes import World, cursor_of, row
from tests.runner.wire import lost_before, preceded

Worlds = Callable[..., World]


def test_an_async_handler_is_awaited_before_its_batch_is_committed(worlds: Worlds) -> None:
    world = worlds(rows=15)
    order: list[str] = []

    async def handle(batch: Batch) -> None:
        order.append(f"begin {len(batch)}")
        await asyncio.sleep(0)
        assert world.state.lease.owner_id is not None
        order.append(f"end {len(batch)}")

    assert world.tick(handle).rows == 15
    assert order == ["begin 10", "end 10", "begin 5", "end 5"]
    assert world.state.checkpoint.cursor == cursor_of(row(15))


def test_an_async_handler_that_raises_failed(worlds: Worlds) -> None:
    world = worlds(rows=5)

    async def handle(batch: Batch) -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    assert world.tick(handle).error == "ValueError: no"


def test_an_async_handler_that_was_cancelled_by_itself_failed(worlds: Worlds) -> None:
    world = worlds(rows=5)

    async def handle(batch: Batch) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    assert world.tick(handle).outcome == "handler_failed"
    assert world.state.delivery.attempts == 1


def test_a_callable_that_returns_an_awaitable_is_awaited_too(worlds: Worlds) -> None:
    world = worlds(rows=5)
    done: list[int] = []

    class Sink:
        async def write(self, batch: Batch) -> None:
            await asyncio.sleep(0)
            done.append(len(batch))

        def __call__(self, batch: Batch) -> object:
            return self.write(batch)

    assert world.tick(Sink()).outcome == "delivered"
    assert done == [5]


def test_an_async_handler_runs_even_where_a_loop_runs_already(worlds: Worlds) -> None:
    """A tick inside a notebook or an async program blocks its loop, and works."""
    world = worlds(rows=5)
    loops: list[object] = []

    async def handle(batch: Batch) -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    async def program() -> None:
        loops.append(asyncio.get_running_loop())
        assert world.tick(handle).outcome == "delivered"

    asyncio.run(program())
    assert len(set(map(id, loops))) == 2


def test_a_failure_inside_a_running_loop_is_told_as_elsewhere(worlds: Worlds) -> None:
    world = worlds(rows=5)

    async def handle(batch: Batch) -> None:
        raise ValueError("no")

    async def program() -> None:
        assert world.tick(handle).error == "ValueError: no"

    asyncio.run(program())


@pytest.mark.parametrize("inside", [False, True])
def test_an_async_handler_is_cancelled_when_its_lease_is_lost(worlds: Worlds, inside: bool) -> None:
    world = worlds(rows=5)
    ended: list[str] = []

    async def handle(batch: Batch) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    def begin(batch: Batch) -> object:
        world.wire.write_faults.extend([lost_before] * 1000)
        world.runtime.sleep(59)
        return handle(batch)

    async def program() -> None:
        assert world.tick(begin).outcome == "lease_lost"

    if inside:
        asyncio.run(program())
    else:
        assert world.tick(begin).outcome == "lease_lost"
    assert ended == ["cancelled"]
    assert world.state.checkpoint.cursor is None


def test_an_async_handler_that_is_cancelled_in_the_last_grace_writes_nothing_more(worlds: Worlds) -> None:
    world = worlds(rows=5)

    async def handle(batch: Batch) -> None:
        world.wire.write_faults.append(preceded(lambda: world.runtime.sleep(1000)))
        world.runtime.sleep(58.5)
        world.wire.forget()
        assert batch.remaining() > 0
        await asyncio.sleep(3600)

    assert world.tick(handle).outcome == "lease_lost"
    assert world.wire.counts == (0, 0)
    assert "handler_failed" not in world.names()


def test_an_async_handler_that_ignores_its_cancellation_is_outlived_and_never_commits(worlds: Worlds) -> None:
    world = worlds(rows=5)

    async def handle(batch: Batch) -> None:
        world.wire.write_faults.extend([lost_before] * 1000)
        world.runtime.sleep(60)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            world.wire.write_faults.clear()

    assert world.tick(handle).outcome == "lease_lost"
    assert len(world.told(StaleCommitRefused)) == 1
    assert world.state.checkpoint.cursor is None


def test_an_interrupt_ends_an_async_handler_before_its_lease_is_given_back(worlds: Worlds) -> None:
    world = worlds(rows=5)
    order: list[str] = []

    async def handle(batch: Batch) -> None:
        async def interrupt() -> None:
            raise KeyboardInterrupt

        try:
            await asyncio.gather(asyncio.sleep(3600), interrupt())
        finally:
            order.append(f"ended while held by {world.state.lease.owner_id is not None}")

    with pytest.raises(KeyboardInterrupt):
        world.tick(handle)
    assert world.state.lease.owner_id is None
    assert world.state.delivery.attempts == 0
    assert order == ["ended while held by True"]
