"""Async handlers of several lanes: tasks of one event loop, which runs on a thread of its own.

So what a handler keeps beside itself, such as a client's session, serves all lanes. A handler that blocks the loop
holds up the other lanes.

A call that fails, or whose lease is lost, is over when all is over that it began: its tasks are cancelled, and its
threads waited for. Else the other sends of an `asyncio.gather` would go on beside the next try of the same rows. What a
call that returned left behind is taken for a client's own, and goes on.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from poller.handler.batch import Batch, LeaseView
from poller.handler.call import EndedWork, Handler, call, ended, running_loop
from poller.handler.portable import NoRoom
from poller.handler.result import CallResult

LAST_WORDS = 5.0
"""Seconds: tasks that are left when the loop is closed may go on at most so long after they were cancelled."""


class LoopExecutor:
    """On the thread of the lane, as far as the handler is a plain function; what it returns to be awaited runs on the
    loop. A limit cannot be enforced here, as in `ThreadExecutor`."""

    spare = 0.0

    def __init__(self) -> None:
        self._starting = threading.Lock()  # held while the loop is started
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()  # of this loop

    def run(self, handler: Handler, batch: Batch, lease: LeaseView, limit: float) -> CallResult:  # noqa: ARG002
        """Run the handler to its end. Raises: as `call`."""
        return call(handler, batch, lease, self._complete)

    def close(self) -> None:
        """End the loop, once nothing runs on it; tasks that are left are cancelled."""
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
            closing, self._closing = self._closing, threading.Event()
        if loop is None or thread is None:
            return

        def end() -> None:
            closing.set()
            loop.stop()

        loop.call_soon_threadsafe(end)
        if thread is not threading.current_thread():
            thread.join()

    def _complete(self, work: Awaitable[Any], lease: LeaseView) -> Any:
        """Run the awaitable to its end on the loop; it is cancelled where the lease is lost. Raises: what it raises;
        NoRoom."""
        try:
            loop = self._running()
        except RuntimeError as error:
            if inspect.iscoroutine(work):
                work.close()
            raise NoRoom(
                f"No thread could be started for the event loop of the handlers: {error}.",
                next_step="Give this machine room for one more thread, or set concurrency = 1.",
            ) from error
        return asyncio.run_coroutine_threadsafe(_kept_apart(work, lease), loop).result().result()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                loop.set_task_factory(_task)
                loop.set_default_executor(_Threads(thread_name_prefix="poller-handlers"))
                thread = threading.Thread(
                    target=_serve, args=(loop, self._closing), name="poller-handlers", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # no further thread can be started now; a later call may find one
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop


class _Begun:
    """What one call began on its loop, as far as it is not over: tasks, and work in the loop's own threads."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._threads: set[Future[Any]] = set()

    def task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def thread(self, work: Future[Any]) -> None:
        self._threads.add(work)
        work.add_done_callback(self._threads.discard)

    async def end(self) -> None:
        """Cancel the tasks, and wait until all is over: a thread cannot be cancelled."""
        while self._tasks:
            await _cancelled(self._tasks.copy())
        if threads := [asyncio.wrap_future(work) for work in self._threads.copy()]:
            await asyncio.wait(threads)


_begun: ContextVar[_Begun] = ContextVar("poller_begun")
"""The call that a task or a thread belongs to: tasks inherit it from the one that begins them."""


def _task(loop: asyncio.AbstractEventLoop, work: Any, **how: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, **how)
    begun = _begun.get(None)
    if begun is not None and begun.loop is loop:  # not of a poller that ticks inside another's handler
        begun.task(task)
    return task


class _Threads(ThreadPoolExecutor):
    """Those of `asyncio.to_thread`."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
        future = super().submit(work, *args, **keywords)
        begun = _begun.get(None)
        if begun is not None and begun.loop is running_loop():
            begun.thread(future)
        return future


async def _cancelled(tasks: set[asyncio.Task[Any]], seconds: float | None = None) -> None:
    for task in tasks:
        task.cancel()
    over, _ = await asyncio.wait(tasks, timeout=seconds)
    for task in over:
        if not task.cancelled():
            task.exception()  # else it is logged that nothing retrieved it


async def _kept_apart(work: Awaitable[Any], lease: LeaseView) -> EndedWork:
    """Await it; whatever it raises is a value, since some exceptions end the loop, and with it the other lanes."""
    begun = _Begun()
    _begun.set(begun)
    try:
        end = await ended(work, lease.lost.is_set)
    except BaseException as error:  # noqa: BLE001 - raised in the lane
        end = EndedWork(raised=error)
    if end.failed or lease.lost.is_set():
        await begun.end()
    return end


def _serve(loop: asyncio.AbstractEventLoop, closing: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    while not closing.is_set():  # set on this thread: a handler may stop the loop, which is not its own to end
        with suppress(BaseException):  # a KeyboardInterrupt of one handler, and the result of its task
            loop.run_forever()
    if left := asyncio.all_tasks(loop):
        with suppress(BaseException):
            loop.run_until_complete(_cancelled(left, LAST_WORDS))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
