"""Running a handler under a tenure: a plain function, or an async one that is cancelled when the lease is lost.

A plain function runs on the caller's thread and cannot be cut short: its result is judged when it returns. That is why
nothing else starts for the poller in this process until then (protocol 6).

What a handler returns decides whether it is done. An awaitable is awaited, on an event loop of its own, and so is what
it gives, if an `await` was forgotten. A generator is work that is never done, a future of a pool or of another
event loop is work that ends elsewhere: they fail the batch. A mapping may name rows that failed (`reports`). Anything
else is a value, and ignored.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from types import AsyncGeneratorType, GeneratorType
from typing import Any, NoReturn, Protocol, TypeAlias

from poller.errors import ConfigError
from poller.handler.batch import Batch, LeaseView, RowFailure
from poller.handler.reports import FORM, Reject, RetryLater, pause_of, rejected_position, reported_positions
from poller.handler.result import CallResult
from poller.handler.traces import trace_of
from poller.model.redact import said

Handler: TypeAlias = Callable[[Batch], Any]
"""`handle(batch)`, sync or async. It succeeded when it returned and named no row as failed, neither by `batch.fail` or
`batch.reject` nor in what it returned; any exception means that the batch comes again."""

_LOOK_EVERY = 0.1
"""Seconds between two checks whether the lease is lost, while a handler is waited for."""
_LAZY = (GeneratorType, AsyncGeneratorType, map, filter, itertools.starmap)
"""What does nothing until it is iterated. Not every iterator: a cursor of a driver has done its work."""
Complete: TypeAlias = Callable[[Awaitable[Any], LeaseView], Any]
"""Runs an awaitable to its end; gives what it gives, raises what it raises, or HandlerCancelled."""


class HandlerCancelled(Exception):
    """A handler was cut because its lease was lost: an async one cancelled, one in a child process killed."""


class HandlerFailure(Exception):
    """A handler failed in another process, or without an exception of its own.

    Attributes:
        kind: the type of what it raised, or `HandlerTimeout`, `HandlerDied` or `HandlerUnfinished`.
        trace: its traceback there, empty if there is none.
    """

    def __init__(self, kind: str, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.trace = trace


def reportable(error: BaseException) -> BaseException:
    """The error; in place of one that fails even at naming its class, one that names its type."""
    try:
        isinstance(error, HandlerFailure)
    except BaseException:  # noqa: BLE001 - a `__class__` of its own may raise anything
        return HandlerFailure(type(error).__name__, "")
    return error


class Executor(Protocol):
    """Where handlers run."""

    @property
    def spare(self) -> float:
        """The seconds that a call may take beyond its limit before it is taken for hung."""

    def run(self, handler: Handler, batch: Batch, lease: LeaseView, limit: float) -> CallResult:
        """Run the handler to its end; `limit` is how many seconds it may take. Raises whatever it raises, but for
        `Reject` and `RetryLater`, which are results."""

    def close(self) -> None:
        """Let go of what was kept for the next batch."""


class ThreadExecutor:
    """On the caller's thread. A limit cannot be enforced here: the heartbeat ends at it, and so does the lease."""

    spare = 0.0

    def run(self, handler: Handler, batch: Batch, lease: LeaseView, limit: float) -> CallResult:  # noqa: ARG002
        """Run the handler to its end. Raises: as `call`."""
        return call(handler, batch, lease)

    def close(self) -> None:
        """Nothing was kept."""


def check_handler(handler: object, *, key: str = "handler", file: str = "") -> None:
    """Refuse what would never run: what cannot be called, and a generator, plain or async, which does nothing then.

    Args:
        key, file: where it was configured, for the error.
    Raises: ConfigError.
    """
    if not callable(handler):
        raise ConfigError(
            f"{f'{file}: ' if file else ''}{key}: {type(handler).__qualname__} is not a function.", key=key, file=file
        )
    called = handler if isinstance(handler, type) else getattr(handler, "__call__", None)  # noqa: B004 - not whether
    if _is_generator(handler) or _is_generator(called):
        raise ConfigError(
            f"{f'{file}: ' if file else ''}{key}: {getattr(handler, '__qualname__', type(handler).__qualname__)} is a "
            "generator: calling it runs nothing of it.",
            key=key,
            file=file,
            next_step='Take the "yield" out of it.',
        )


def _is_generator(function: object) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    lazy = flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR)
    return bool(lazy) and not flags & inspect.CO_ITERABLE_COROUTINE


def call(handler: Handler, batch: Batch, lease: LeaseView, complete: Complete | None = None) -> CallResult:
    """Run the handler to its end, and whatever work it returned. `complete`: where an awaitable runs; default: on an
    event loop of its own.

    Raises whatever it raises, but for `Reject` and `RetryLater`; InvalidReport where what it says of rows cannot be;
    HandlerCancelled; or HandlerFailure: what it returned is not waited for, or a sink's transaction is not committed.
    """
    try:
        return _called(handler, batch, lease, complete or _complete)
    finally:
        batch.end()  # whatever is named from now on is not heard: its thread gets an error


def _called(handler: Handler, batch: Batch, lease: LeaseView, complete: Complete) -> CallResult:
    """See `call`."""
    try:
        result = _returned(handler, batch, lease, complete)
    except Reject as error:
        rejected = RowFailure(rejected_position(batch, error), error, rejected=True)
        return CallResult.of_rows([rejected], end="rejected", error=reportable(error))
    except RetryLater as error:
        return CallResult("later", seconds=pause_of(error), error=reportable(error))
    unfinished = batch.unfinished()
    if unfinished is not None:
        raise HandlerFailure("FenceNotCommitted", unfinished)
    named = {position: RowFailure(position, f"named in {FORM}") for position in reported_positions(batch, result)}
    named.update((failure.position, failure) for failure in batch.end())
    return _with_rows(CallResult.of_rows(named.values()), len(batch))


def _with_rows(result: CallResult, size: int) -> CallResult:
    """The result with its error, where rows of so many were named."""
    if not result.named:
        return result
    what = f"{len(result.named)} of {size} rows failed, the first with {result.named[0].line}"
    return replace(result, error=HandlerFailure("RowsFailed", what))


def _returned(handler: Handler, batch: Batch, lease: LeaseView, complete: Complete) -> Any:
    """The value that the handler returned in the end. Raises: as `call`."""
    try:
        result = handler(batch)
        if inspect.isawaitable(result) and not _is_future(result):
            result = complete(result, lease)
    finally:
        reopen_streams()
    if isinstance(result, _LAZY):
        if isinstance(result, GeneratorType):
            result.close()
        raise HandlerFailure(
            "HandlerUnfinished",
            f"the handler returned a {type(result).__name__}, and nothing goes through it: what is in it did not run. "
            'Take the "yield" out, or go through it in the handler.',
        )
    if _is_future(result):
        _refuse(result)
    return result


def _is_future(result: object) -> bool:
    return isinstance(result, Future) or asyncio.isfuture(result)


def _refuse(work: Future[Any] | asyncio.Future[Any]) -> NoReturn:
    """Raises: HandlerFailure. What has not begun never does: the batch comes again, and it would run beside that."""
    if isinstance(work, Future):
        work.cancel()
        whose, step = "a pool or a thread", "Call its result() in the handler."
    else:
        loop = work.get_loop()
        with suppress(RuntimeError):  # a loop that is closed, and runs nothing any more
            if loop.is_running() and loop is not running_loop():
                loop.call_soon_threadsafe(work.cancel)
            else:
                work.cancel()
        whose, step = "another event loop", "Make the handler async and await the work there, or return the coroutine."
    raise HandlerFailure(
        "HandlerUnfinished", f"the handler returned a future of {whose}, and nothing waits for what ends there. {step}"
    )


def _complete(work: Awaitable[Any], lease: LeaseView) -> Any:
    """Run the awaitable to its end, on a thread of its own where this one already runs an event loop."""
    if running_loop() is None:
        return asyncio.run(ended(work, lease.lost.is_set)).result()
    outcome: Future[EndedWork] = Future()
    interrupted, done = threading.Event(), threading.Event()

    def run() -> None:
        if interrupted.is_set():
            return
        try:
            outcome.set_result(asyncio.run(ended(work, lambda: interrupted.is_set() or lease.lost.is_set())))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            outcome.set_exception(error)
        done.set()

    thread = threading.Thread(target=run, name="poller-handler")
    try:
        thread.start()
    except BaseException:
        interrupted.set()
        _persist(lambda: thread.join() if thread.is_alive() else None, interrupted)
        raise
    _persist(done.wait, interrupted)
    return outcome.result().result()


def _persist(wait: Callable[[], object], interrupted: threading.Event) -> None:
    """Wait to the end, however often one interrupts (Ctrl-C): nothing may be given back while the handler runs
    (protocol 10). What was thrown in here meanwhile is raised then."""
    thrown: BaseException | None = None
    while True:
        try:
            wait()
            break
        except BaseException as error:  # noqa: BLE001 - raised below
            thrown = error
            interrupted.set()
    if thrown is not None:
        raise thrown


class EndedWork:
    """How work ended, closed to asyncio: that takes the `repr` of what its main task gave or raised when it puts the
    handler of Ctrl-C back, and looks at its class when it ends the loop. An exception that fails at either would leave
    every later handler of this process failing, or this one's loop running for ever."""

    def __init__(self, given: Any = None, raised: BaseException | None = None) -> None:
        self._given = given
        self._raised = raised

    @property
    def failed(self) -> bool:
        """True if it raised."""
        return self._raised is not None

    def result(self) -> Any:
        """What the work gave. Raises what it raised."""
        if self._raised is not None:
            raise self._raised
        return self._given


async def ended(work: Awaitable[Any], lost: Callable[[], bool]) -> EndedWork:
    """Await it to its end, which is handed on as a value."""
    try:
        return EndedWork(await _supervised(work, lost))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise  # Ctrl-C, as the event loop means it
    except BaseException as error:  # noqa: BLE001 - raised to the caller that asks for the result
        return EndedWork(raised=error)


async def _supervised(work: Awaitable[Any], lost: Callable[[], bool]) -> Any:
    """Await it, and what it gives, as where an `await` was forgotten."""
    while True:
        task = asyncio.ensure_future(_told(work))
        cancelled = False
        while not task.done():
            await asyncio.wait({task}, timeout=_LOOK_EVERY)
            if not task.done() and not cancelled and lost():
                cancelled = task.cancel()
        if cancelled and task.cancelled():
            raise HandlerCancelled("The lease was lost while the handler ran; it was cancelled.")
        given = await task
        if given is work or not _can_be_awaited_here(given):
            return given
        work = given


def _can_be_awaited_here(given: object) -> bool:
    if asyncio.isfuture(given):
        return given.get_loop() is asyncio.get_running_loop()
    if inspect.iscoroutine(given):
        return inspect.getcoroutinestate(given) != inspect.CORO_CLOSED  # else it was awaited before it was returned
    return inspect.isawaitable(given)


async def _told(work: Awaitable[Any]) -> Any:
    """Await it. A task that ends with SystemExit ends its event loop too, and asyncio logs its text and its place."""
    try:
        return await work
    except SystemExit as error:
        raise HandlerFailure("SystemExit", said(error), trace_of(error)) from None


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread; None if none runs."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def reopen_streams() -> None:
    """Open `sys.stdout` and `sys.stderr` again where they were closed, detached or taken away, onto what they were, and
    their descriptors onto nothing: else the next file or connection would get a closed one's number, and what is
    printed. Raises nothing."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        with suppress(OSError, ValueError):
            _reserve(number)
            if not _usable(name):
                # Closing a standard stream leaves its descriptor open, and so does this one.
                setattr(sys, name, os.fdopen(number, "w", 1, "utf-8", "backslashreplace", closefd=False))


def _usable(name: str) -> bool:
    stream = getattr(sys, name, None)
    try:
        return stream is not None and not getattr(stream, "closed", False)
    except Exception:  # noqa: BLE001 - of one that was detached it cannot be asked
        return False


def _reserve(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        if nothing != number:
            os.dup2(nothing, number)
            os.close(nothing)
