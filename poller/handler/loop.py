"""Async handlers of several lanes: tasks of one event loop, which runs on a thread of its own.

So what a handler keeps beside itself, such as a client's session, serves all lanes. A handler that blocks the loop
holds up the other lanes.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable
from typing import Any

from poller.handler.batch import Batch, LeaseView
from poller.handler.call import EndedWork, Handler, call, ended
from poller.handler.portable import NoRoom
from poller.handler.result import CallResult


class LoopExecutor:
    """On the thread of the lane, as far as the handler is a plain function; what it returns to be awaited runs on the
    loop. A limit cannot be enforced here, as in `ThreadExecutor`."""

    spare = 0.0

    def __init__(self) -> None:
        self._starting = threading.Lock()  # held while the loop is started
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, handler: Handler, batch: Batch, lease: LeaseView, limit: float) -> CallResult:  # noqa: ARG002
        """Run the handler to its end. Raises: as `call`."""
        return call(handler, batch, lease, self._complete)

    def close(self) -> None:
        """End the loop, once nothing runs on it."""
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
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
                thread = threading.Thread(target=_serve, args=(loop,), name="poller-handlers", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no further thread can be started now; a later call may find one
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop


async def _kept_apart(work: Awaitable[Any], lease: LeaseView) -> EndedWork:
    """Await it; whatever it raises is a value, since some exceptions end the loop, and with it the other lanes."""
    try:
        return await ended(work, lease.lost.is_set)
    except BaseException as error:  # noqa: BLE001 - raised in the lane
        return EndedWork(raised=error)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
            break
        except BaseException:  # noqa: BLE001, S112 - a KeyboardInterrupt of one handler, and the result of its task
            continue
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
