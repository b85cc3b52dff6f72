"""Running a handler under a tenure: a plain function, or an async one that is cancelled when the lease is lost.

A plain function runs on the caller's thread and cannot be cut short: its result is judged when it returns. That is why
nothing else starts for the poller in this process until then (protocol 6).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from poller.batch import Batch, LeaseView

Handler: TypeAlias = Callable[[Batch], Any]
"""`handle(batch) -> None`, sync or async. It succeeded when it returned; any exception means the batch comes again."""

_LOOK_EVERY = 0.1
"""How often, in seconds, a waiting event loop looks whether the lease is lost."""


class HandlerCancelled(Exception):
    """A handler was cut because its lease was lost: an async one cancelled, one in a child process killed."""


class HandlerFailure(Exception):
    """A handler failed in another process.

    Attributes:
        kind: the type of what it raised, or `HandlerTimeout`, or `HandlerDied`.
        trace: its traceback there, empty where there is none.
    """

    def __init__(self, kind: str, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.trace = trace


class Executor(Protocol):
    """Where handlers run."""

    def run(self, handler: Handler, batch: Batch, lease: LeaseView, limit: float) -> None:
        """Run the handler to its end; `limit` is how many seconds it may take. Raises whatever it raises."""

    def close(self) -> None:
        """Let go of what was kept for the next batch."""


class ThreadExecutor:
    """On the caller's thread. A limit cannot be enforced here: the heartbeat ends at it, and so does the lease."""

    def run(self, handler: Handler, batch: Batch, lease: LeaseView, limit: float) -> None:  # noqa: ARG002
        """Run the handler to its end. Raises whatever it raises, or HandlerCancelled."""
        call(handler, batch, lease)

    def close(self) -> None:
        """Nothing was kept."""


def call(handler: Handler, batch: Batch, lease: LeaseView) -> None:
    """Run the handler to its end. Raises whatever it raises, or HandlerCancelled."""
    result = handler(batch)
    if inspect.isawaitable(result):
        _complete(result, lease)


def _complete(work: Awaitable[Any], lease: LeaseView) -> None:
    """Run the awaitable to its end, on a thread of its own where this one already runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(_supervised(work, lease.lost.is_set))
        return
    failure: list[BaseException] = []
    interrupted = threading.Event()

    def run() -> None:
        try:
            asyncio.run(_supervised(work, lambda: interrupted.is_set() or lease.lost.is_set()))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            failure.append(error)

    thread = threading.Thread(target=run, name="poller-handler")
    thread.start()
    try:
        thread.join()
    except BaseException:
        # Nothing may be given back while the handler still runs (protocol 10).
        interrupted.set()
        thread.join()
        raise
    if failure:
        raise failure[0]


async def _supervised(work: Awaitable[Any], lost: Callable[[], bool]) -> None:
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        await asyncio.wait({task}, timeout=_LOOK_EVERY)
        if not task.done() and not cancelled and lost():
            cancelled = task.cancel()
    if cancelled and task.cancelled():
        raise HandlerCancelled("The lease was lost while the handler ran; it was cancelled.")
    await task
