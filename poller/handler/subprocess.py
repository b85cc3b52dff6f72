"""A handler in a child process, which can be cut: at `handler_timeout`, and at the lease's deadline (protocol 6).

The child is started once and kept for the next batches; a killed one is replaced. Its start, in which it imports the
handler's module, is not a time of the handler's: else one that starts slowly would be cut, and started again, for ever.
What the parent knows of the lease is copied to the child every few hundredths of a second, so `batch.lost`,
`batch.check()` and `batch.remaining()` work there. The child ends itself if a stopped parent does not end it at the
lease's deadline, and if its parent is gone; on Linux also if it was stopped itself meanwhile.

The child leads a session of its own: what the handler started, programs and processes, is in it, and ends with it.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.process
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from types import FrameType
from typing import Any, Protocol

from poller import forks
from poller.errors import LeaseLost
from poller.handler.batch import Batch, LeaseView
from poller.handler.call import Handler, HandlerCancelled, HandlerFailure, call
from poller.handler.messages import CallAnswer, Payload
from poller.handler.portable import SPARE, START_LIMIT, NoRoom, NotSendable
from poller.handler.result import CallResult
from poller.ports import Event, Runtime

LOOK_EVERY = 0.02
"""Seconds between two checks in which the parent looks at the child, and copies the lease to it."""
LAST_WORDS = 1.0
"""The most seconds that an answer is waited for after its process has ended: it may be on its way."""
WATCH_EVERY = 0.25
"""Seconds between two checks in which a child looks whether its parent is there, and whether the lease is over."""
OVERDUE = 1.0
"""Seconds after the lease's deadline in which the parent may still end the child; then the child ends itself."""
_SHIELDED = (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
"""Ctrl-C and service managers signal whole groups; the parent drains, and ends the child itself."""
_PR_SET_PDEATHSIG = 1
"""Of Linux's prctl: the signal at the end of the parent."""
_NUMBER = 8
"""Bytes of the number that a request and its answer begin with."""


class _Shared(Protocol):
    value: float


class ProcessExecutor:
    """Runs handlers in a child process. One batch at a time.

    Raises from `run`: NotSendable where the handler cannot be named to another process (a lambda, a closure); NoRoom.

    Attributes:
        spare: so much longer than its limit a call may take: a child is started, and one that hangs is ended.
    """

    spare = SPARE

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._context = multiprocessing.get_context("spawn")
        self._child: _Child | None = None
        forks.in_child(self._forget)

    def _forget(self) -> None:
        """In a child process: the handler's process is the parent's, to ask and to end."""
        if self._child is not None:
            self._child.disown()
            self._child = None

    def run(self, handler: Handler, batch: Batch, lease: LeaseView, limit: float) -> CallResult:
        """Run the handler to its end, or kill it after `limit` seconds or when the lease is over.

        However this ends, the handler no longer runs: also after an exception that a signal throws in here, such as
        KeyboardInterrupt. So the caller may give the lease back (protocol 10).

        Raises: HandlerFailure (it raised, it died, it took too long), HandlerCancelled (the lease was lost).
        """
        try:
            request = pickle.dumps((handler, Payload.of(batch), batch.fencing_token))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise NotSendable(
                f"The handler or a row cannot be sent to a child process: {error}.",
                key="isolation",
                next_step='Make the handler a function of a module, or set isolation = "thread".',
            ) from error
        child = self._running()
        try:
            if not child.ready:
                prepares = child.ask(pickle.dumps((handler, None, batch.fencing_token)), lease.remaining())
                if not self._ended(prepares, child, lease, START_LIMIT):
                    raise _no_room(f"it did not import the handler within {START_LIMIT:g} s")
                child.answer()
                child.ready = True
            if not self._ended(child.ask(request, lease.remaining()), child, lease, limit):
                raise HandlerFailure("HandlerTimeout", f"ran longer than {limit:g} s; its process was ended")
            answer = child.answer()
        except BaseException:
            self.close()
            raise
        return answer.result()

    def _ended(self, exchange: _Exchange, child: _Child, lease: LeaseView, limit: float) -> bool:
        """Wait until the child has answered or died, for `limit` seconds; whether it has. Raises: HandlerCancelled."""
        end = self._runtime.monotonic() + limit
        while not exchange.done.wait(LOOK_EVERY):
            left = lease.remaining()
            child.share(left)
            if left == 0:
                raise HandlerCancelled("The lease was lost while the handler ran; its process was ended.")
            if self._runtime.monotonic() >= end:
                return False
            if not child.alive():
                exchange.done.wait(LAST_WORDS)
                return True
        return True

    def close(self) -> None:
        """End the child, at once, and wait until it has ended."""
        child = self._child
        if child is not None:
            child.kill()
            self._child = None

    def _running(self) -> _Child:
        child = self._child
        if child is None or child.exchange is not None or not child.alive():
            self.close()
            try:
                child = self._child = _Child.start(self._context)
            except OSError as error:
                raise _no_room(error) from error
        return child


def _no_room(error: Exception | str) -> NoRoom:
    return NoRoom(
        f"No process could be started for the handler: {error}.",
        next_step='Give this machine room for one more process and thread, or set isolation = "thread".',
    )


@dataclass(slots=True, weakref_slot=True)
class _Child:
    """A process, the line to it, and what is shared with it.

    Attributes:
        until: until when it may trust the lease. It has no lock, for a child that is stopped in the midst of a check
            would keep it; a number of eight bytes is written in one piece.
        asked: how many requests it was given. exchange: the one that is not answered yet.
        ready: whether it has imported the module of a handler.
    """

    process: Any
    connection: Connection
    until: _Shared
    asked: int = 0
    exchange: _Exchange | None = None
    ready: bool = False

    @classmethod
    def start(cls, context: Any) -> _Child:
        ours, theirs = context.Pipe()
        until = context.Value("d", 0.0, lock=False)
        # Not a daemon of multiprocessing: those may not start processes, and a handler may.
        process = context.Process(target=_serve, args=(theirs, until), name="poller-handler", daemon=False)
        process.start()
        theirs.close()
        child = cls(process, ours, until)
        # At its exit this interpreter waits for its children without limit, and ours does not heed SIGTERM. What is
        # registered with a priority runs before that; it runs too where a poller is forgotten without close().
        Finalize(child, _end, args=(process,), exitpriority=10)
        return child

    def share(self, remaining: float) -> None:
        """Let the child know until when it may trust the lease, on the clock that both processes read."""
        self.until.value = time.monotonic() + remaining

    def alive(self) -> bool:
        return not _has_ended(self.process)

    def ask(self, request: bytes, remaining: float) -> _Exchange:
        """Begin to hand over a batch. Returns at once: the child may be in no state to read it. Raises NoRoom."""
        self.share(remaining)
        self.asked += 1
        self.exchange = _Exchange(self.connection, self.asked.to_bytes(_NUMBER) + request)
        try:
            self.exchange.start()
        except RuntimeError as error:
            raise _no_room(error) from error
        return self.exchange

    def answer(self) -> CallAnswer:
        """What the call came to. Raises HandlerFailure where there is no answer to that."""
        answer = None if self.exchange is None else self.exchange.answer
        if answer is None:
            self._await_end(5)
            raise HandlerFailure("HandlerDied", f"its process ended with exit code {self.process.exitcode}")
        number, said = pickle.loads(answer)  # noqa: S301 - from our own child
        if number != self.asked:
            raise HandlerFailure("HandlerDied", "its process answered for an earlier batch, and was ended")
        self.exchange = None
        reported: CallAnswer = said
        return reported

    def _await_end(self, seconds: float) -> None:
        """Wait for its end, at most so long. What it started is ended too, before its number can be another's."""
        end = time.monotonic() + seconds
        while self.alive() and time.monotonic() < end:
            time.sleep(LOOK_EVERY)
        if not self.alive():
            _kill(self.process)
        self.process.join(0)

    def disown(self) -> None:
        """It is another process's: at the exit of this one nothing signals it, or waits for it."""
        forks.keep(self.process)
        children: set[Any] = getattr(multiprocessing.process, "_children", set())
        children.discard(self.process)

    def kill(self) -> None:
        """End it, whatever it does, and wait until it has ended; what is thrown in here meanwhile is raised then."""
        interrupted: BaseException | None = None
        while True:
            try:
                _end(self.process)
                break
            except BaseException as error:  # noqa: BLE001 - raised below
                interrupted = error
        if self.exchange is None or self.exchange.done.is_set():
            self.connection.close()  # else the thread that still uses it is its last owner
        if interrupted is not None:
            raise interrupted


def _end(process: Any) -> None:
    _kill(process)
    process.join()


def _has_ended(process: Any) -> bool:
    """True if it has ended. It is not joined by this, so that its number stays its own, and that of its group."""
    if not hasattr(os, "waitid"):  # Windows
        return not process.is_alive()
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True  # it was joined already


def _kill(process: Any) -> None:
    """Kill it and all processes of its group, which are those that the handler started."""
    if hasattr(os, "waitid"):
        with suppress(ChildProcessError, ProcessLookupError, PermissionError):
            # It raises if the process was joined already: its number may be another process's now.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


class _Exchange(threading.Thread):
    """A request and its answer, on a thread of their own: a child that hangs, or is stopped, no longer reads and
    writes, and the thread that watches lease and time must not wait for it.

    Attributes:
        done: set when it is over. answer: None if none came.
    """

    def __init__(self, connection: Connection, request: bytes) -> None:
        super().__init__(name="poller-handler-line", daemon=True)
        self.done = threading.Event()
        self.answer: bytes | None = None
        self._connection = connection
        self._request = request

    def run(self) -> None:
        try:
            self._connection.send_bytes(self._request)
            self.answer = self._connection.recv_bytes()
        except Exception:  # noqa: BLE001, S110 - whatever it is: no answer came
            pass
        finally:
            self.done.set()


class _SharedLease:
    """The child's view of the lease: what the parent wrote last, judged by the clock that both processes read."""

    def __init__(self, until: _Shared, fencing_token: int) -> None:
        self._until = until
        self._token = fencing_token
        self.lost: Event = _SharedLost(self.remaining)

    def remaining(self) -> float:
        return max(0.0, self._until.value - time.monotonic())

    def check(self) -> None:
        if self.remaining() == 0:
            raise LeaseLost(
                f"The tenure under token {self._token} is over.", reason="deadline", fencing_token=self._token
            )


class _SharedLost:
    GRACE = 0.1
    """Seconds before the end at which the child is notified; the parent kills it at the end."""

    def __init__(self, remaining: Callable[[], float]) -> None:
        self._remaining = remaining
        self._flag = threading.Event()

    def set(self) -> None:
        self._flag.set()

    def is_set(self) -> bool:
        if self._remaining() <= self.GRACE:
            self._flag.set()
        return self._flag.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            left = LOOK_EVERY if end is None else min(LOOK_EVERY, end - time.monotonic())
            if left <= 0:
                return False
            self._flag.wait(left)
        return True


def _serve(connection: Connection, until: _Shared) -> None:
    """The child: one batch after the other, until the parent is gone."""
    if hasattr(os, "setsid"):
        os.setsid()
    if sys.platform == "linux":
        _continue_without_parent()
    _shield()
    working = threading.Event()
    watch = (until, working, os.getppid())
    threading.Thread(target=_watch, args=watch, name="poller-parent-watch", daemon=True).start()
    ours = os.getpid()
    while True:
        try:
            received = connection.recv_bytes()
        except (EOFError, OSError):
            return
        working.set()
        try:
            request = memoryview(received)[_NUMBER:]
            handler, payload, token = pickle.loads(request)  # noqa: S301 - from our own parent
            lease = _SharedLease(until, token)
            # Without a batch the handler is only imported; where that fails, it fails again with the batch.
            result = CallResult() if payload is None else call(handler, payload.batch(lease), lease)
            answer = CallAnswer.of(result)
        except BaseException as error:  # noqa: BLE001 - reported to the parent; else it would be printed here
            answer = CallAnswer.of_error(error)
        if os.getpid() != ours:
            return  # a copy of the handler, which forked: the poller hears of the handler itself, and nobody else
        working.clear()
        connection.send_bytes(pickle.dumps((int.from_bytes(received[:_NUMBER]), answer)))


def _shield() -> None:
    """Survive the signals that are meant for the parent. With SIG_IGN every program that the handler starts would
    ignore them too, and could not be terminated; a function is left behind at exec, and here at a fork."""
    for number in _SHIELDED:
        signal.signal(number, _shrug)
        if hasattr(signal, "siginterrupt"):
            signal.siginterrupt(number, False)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_unshield)


def _shrug(number: int, frame: FrameType | None) -> None:
    """The parent is signalled too."""


def _unshield() -> None:
    for number in _SHIELDED:
        if signal.getsignal(number) is _shrug:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _continue_without_parent() -> None:
    """Have the kernel continue this process (SIGCONT) when its parent ends: one that is stopped then could not see
    that it has to end. The end of the parent's thread that started it comes as the same signal, which does nothing
    to a process that runs."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0)


def _watch(until: _Shared, working: threading.Event, began_with: int) -> None:
    """A handler whose poller was killed, or is stopped until its lease is over, must not go on beside the next
    owner's."""
    parent = multiprocessing.parent_process()
    while parent is not None:
        parent.join(WATCH_EVERY)
        gone = not parent.is_alive() or (hasattr(os, "setsid") and os.getppid() != began_with)
        if gone or (working.is_set() and time.monotonic() > until.value + OVERDUE):
            if hasattr(os, "killpg"):
                os.killpg(0, signal.SIGKILL)
            os._exit(1)
