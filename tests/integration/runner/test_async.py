"""Async handlers: awaited to their end, and cancelled when the lease is lost. And whatever else a handler may return
that is not done yet: awaited, or refused, but never taken for done."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from poller import Batch, Handler
from poller.errors import ConfigError
from poller.observability import StaleCommitRefused
from poller.ports import Row
from tests.integration.runner.fakes import World, Worlds, cursor_of, row
from tests.integration.runner.wire import lost_before, preceded


@pytest.mark.guarantee("Delivery", "A handler is done when the awaitable that it returned is done")
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


def test_an_async_handler_cancelled_in_the_grace_stops_writing(worlds: Worlds) -> None:
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


def test_an_async_handler_that_ignores_cancellation_never_commits(worlds: Worlds) -> None:
    world = worlds(rows=5)

    async def handle(batch: Batch) -> None:
        world.wire.write_faults.extend([lost_before] * 1000)
        world.runtime.sleep(60)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            world.wire.write_faults.clear()

    assert world.tick(handle).outcome == "lease_lost"
    assert len(world.emitted(StaleCommitRefused)) == 1
    assert world.state.checkpoint.cursor is None


def test_an_interrupt_ends_an_async_handler_before_the_release(worlds: Worlds) -> None:
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


# --- what a handler returns that is not done yet


def _refused(world: World, handler: Handler) -> str:
    """What is said of a handler that is refused before the lease is taken."""
    world.begun()
    with pytest.raises(ConfigError) as caught:
        world.tick(handler)
    assert world.wire.counts == (0, 0), "nothing was read or claimed"
    assert caught.value.key == "handler"
    return str(caught.value)


class Sink:
    """Writes batches, and notes how many rows were written to the end."""

    def __init__(self) -> None:
        self.done: list[int] = []

    async def write(self, batch: Batch) -> None:
        await asyncio.sleep(0.02)
        self.done.append(len(batch))

    def each(self, batch: Batch) -> Iterator[int]:
        for one in batch:
            self.done.append(one["id"])
            yield one["id"]

    async def each_later(self, batch: Batch) -> AsyncIterator[int]:
        for one in batch:
            self.done.append(one["id"])
            yield one["id"]

    def one(self, one: Row) -> int:
        self.done.append(one["id"])
        return 1


class Stepwise(Sink):
    def __call__(self, batch: Batch) -> Iterator[int]:
        return (yield from self.each(batch))


@pytest.mark.parametrize(
    "handler",
    [Sink().each, Sink().each_later, functools.partial(Sink.each, Sink()), Stepwise()],
    ids=["a generator", "an async one", "a partial of one", "an object that is one"],
)
def test_a_generator_is_refused_before_anything_is_claimed(worlds: Worlds, handler: Handler) -> None:
    assert "yield" in _refused(worlds(rows=5), handler)


LAZY: list[Callable[[Sink], Callable[[Batch], Any]]] = [
    lambda sink: lambda batch: sink.each(batch),
    lambda sink: lambda batch: sink.each_later(batch),
    lambda sink: lambda batch: map(sink.one, batch),
    lambda sink: lambda batch: (sink.one(one) for one in batch),
]


@pytest.mark.parametrize("lazy", LAZY, ids=["a generator", "an async one", "map", "an expression"])
@pytest.mark.parametrize("later", [False, True], ids=["returned", "returned by an async handler"])
def test_a_handler_that_returns_unconsumed_work_failed(
    worlds: Worlds, lazy: Callable[[Sink], Callable[[Batch], Any]], later: bool
) -> None:
    world, sink = worlds(rows=5), Sink()
    handle = lazy(sink)

    async def handle_later(batch: Batch) -> object:
        return handle(batch)

    result = world.tick(handle_later if later else handle)
    assert result.outcome == "handler_failed"
    assert "nothing goes through it" in (result.error or "")
    assert (sink.done, world.state.checkpoint.cursor) == ([], None)
    assert world.state.delivery.attempts == 1


def _forgotten_await(sink: Sink) -> Handler:
    async def handle(batch: Batch) -> object:
        return sink.write(batch)

    return handle


def _forgotten_task(sink: Sink) -> Handler:
    async def handle(batch: Batch) -> object:
        return asyncio.create_task(sink.write(batch))

    return handle


class Request:
    """As clients of HTTP give it: it is sent when it is awaited, and may be as often as one likes."""

    def __init__(self, sent: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._sent = sent

    def __await__(self) -> Generator[Any, None, Request]:
        yield from self._sent().__await__()
        return self


def _forgotten_request(sink: Sink) -> Handler:
    async def handle(batch: Batch) -> object:
        return Request(lambda: sink.write(batch))

    return handle


@pytest.mark.parametrize("forgetful", [_forgotten_await, _forgotten_task, _forgotten_request])
def test_an_awaitable_that_a_handler_returns_is_awaited(worlds: Worlds, forgetful: Callable[[Sink], Handler]) -> None:
    world, sink = worlds(rows=5), Sink()
    assert world.tick(forgetful(sink)).outcome == "delivered"
    assert sink.done == [5]


@contextmanager
def _elsewhere(kind: str) -> Iterator[Callable[[Coroutine[Any, Any, None]], object]]:
    """What begins work on another thread, and gives its future: of a pool, or of an event loop."""
    with ThreadPoolExecutor(1) as pool:
        if kind == "a pool":
            yield lambda work: pool.submit(asyncio.run, work)
            return
        running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

        async def serve() -> None:
            stop = asyncio.Event()
            running.set_result((asyncio.get_running_loop(), stop))
            await stop.wait()
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

        async def begin(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            return asyncio.create_task(work)

        served = pool.submit(asyncio.run, serve())
        loop, stop = running.result()
        if kind == "a loop":
            yield lambda work: asyncio.run_coroutine_threadsafe(begin(work), loop).result()
        else:
            yield lambda work: asyncio.run_coroutine_threadsafe(work, loop)
        loop.call_soon_threadsafe(stop.set)
        served.result()


@pytest.mark.parametrize("later", [False, True], ids=["returned", "returned by an async handler"])
@pytest.mark.parametrize(
    ("kind", "step"), [("a pool", "result()"), ("a loop", "await"), ("a loop, from a thread", "result()")]
)
def test_a_future_of_a_pool_or_of_another_loop_is_refused(worlds: Worlds, kind: str, step: str, later: bool) -> None:
    """It ends elsewhere, and is neither waited for nor taken for done: the batch comes again."""
    world, sink = worlds(rows=5), Sink()
    begun: list[Any] = []
    with _elsewhere(kind) as begin:

        def handle(batch: Batch) -> object:
            begun.append(begin(sink.write(batch)))
            return begun[-1]

        async def handle_later(batch: Batch) -> object:
            return handle(batch)

        result = world.tick(handle_later if later else handle)
    assert result.outcome == "handler_failed"
    assert "nothing waits" in (result.error or "")
    assert step in (result.error or "")
    assert (world.state.checkpoint.cursor, world.state.delivery.attempts) == (None, 1)
    if kind != "a pool":  # there it ran already
        assert (begun[0].cancelled(), sink.done) == (True, [])
    world.runtime.sleep(600)
    assert world.tick(lambda batch: asyncio.run(sink.write(batch))).rows == 5


def test_a_task_that_waits_for_the_tick_failed_and_never_runs(worlds: Worlds) -> None:
    """It could only run after the tick, which would wait for ever."""
    world = worlds(rows=5)
    tasks: list[asyncio.Task[None]] = []
    began: list[int] = []

    async def write(batch: Batch) -> None:
        began.append(len(batch))

    def handle(batch: Batch) -> object:
        tasks.append(asyncio.ensure_future(write(batch)))
        return tasks[-1]

    async def program() -> None:
        result = world.tick(handle)
        assert result.outcome == "handler_failed"
        assert "event loop" in (result.error or "")
        await asyncio.wait(tasks)  # here the loop would run it

    asyncio.run(program())
    assert began == []
    assert tasks[0].cancelled()


def test_what_is_done_when_it_is_returned_is_done(worlds: Worlds) -> None:
    """Values, and things that happen to be iterable, are nobody's work to be waited for."""
    world = worlds(rows=5)
    for returned in (5, [1, 2], iter([1, 2]), "all", {"sent": 5}, object()):
        assert world.tick(lambda batch, returned=returned: returned).outcome == "delivered"  # type: ignore[misc]
        world.table.rows.append(row(100 + len(world.table.rows)))
