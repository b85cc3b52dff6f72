"""A handler in a child process, which can be cut: at `handler_timeout`, and at the lease's deadline (protocol 6).

The child is started once and kept for the next batches; a killed one is replaced. What the parent knows of the lease
is copied to the child every few hundredths of a second, so `batch.lost`, `batch.check()` and `batch.remaining()` work
there.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from poller.batch import Batch, LeaseView
from poller.errors import ConfigError, LeaseLost
from poller.handlers import Handler, HandlerCancelled, HandlerFailure, call
from poller.ports import Event, Runtime

LOOK_EVERY = 0.02
"""How often, in seconds, the parent looks at the child, and copies the lease to it."""


class NotPortable(ConfigError):
    """The handler or a row cannot be sent to another process: the configuration is at fault, not the batch."""


class _Shared(Protocol):
    value: float


class ProcessExecutor:
    """Runs handlers in a child process. One batch at a time.

    Raises NotPortable from `run` where the handler cannot be named to another process (a lambda, a closure).
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._context = multiprocessing.get_context("spawn")
        self._child: _Child | None = None

    def run(self, handler: Handler, batch: Batch, lease: LeaseView, limit: float) -> None:
        """Run the handler to its end, or kill it after `limit` seconds or when the lease is over.

        Raises: HandlerFailure (it raised, it died, it took too long), HandlerCancelled (the lease was lost).
        """
        try:
            payload = pickle.dumps((handler, _Payload.of(batch), batch.fencing_token))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise NotPortable(
                f"The handler or a row cannot be sent to a child process: {error}.",
                key="isolation",
                next_step='Make the handler a function of a module, or set isolation = "thread".',
            ) from error
        child = self._ready()
        child.share(lease.remaining())
        child.connection.send_bytes(payload)
        end = self._runtime.monotonic() + limit
        while not child.connection.poll(LOOK_EVERY):
            left = lease.remaining()
            child.share(left)
            if left == 0:
                self.close()
                raise HandlerCancelled("The lease was lost while the handler ran; its process was ended.")
            if self._runtime.monotonic() >= end:
                self.close()
                raise HandlerFailure("HandlerTimeout", f"ran longer than {limit:g} s; its process was ended")
        try:
            failure = pickle.loads(child.connection.recv_bytes())  # noqa: S301 - from our own child
        except (EOFError, OSError) as error:
            code = child.exit_code()
            self.close()
            raise HandlerFailure("HandlerDied", f"its process ended with exit code {code}") from error
        if failure is not None:
            raise HandlerFailure(*failure)

    def close(self) -> None:
        """End the child, at once."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _ready(self) -> _Child:
        if self._child is None or not self._child.alive():
            self.close()
            self._child = _Child.start(self._context)
        return self._child


@dataclass(frozen=True, slots=True)
class _Child:
    process: Any
    connection: Connection
    until: _Shared

    @classmethod
    def start(cls, context: Any) -> _Child:
        ours, theirs = context.Pipe()
        until = context.Value("d", 0.0)
        process = context.Process(target=_serve, args=(theirs, until), name="poller-handler", daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours, until)

    def share(self, remaining: float) -> None:
        """Tell the child until when it may trust the lease, on the clock that both processes read."""
        self.until.value = time.monotonic() + remaining

    def alive(self) -> bool:
        return bool(self.process.is_alive())

    def exit_code(self) -> int | None:
        self.process.join(5)
        code: int | None = self.process.exitcode
        return code

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


@dataclass(frozen=True, slots=True)
class _Payload:
    """A batch as it crosses to the child: everything but the parent's tenure and source."""

    fields: dict[str, Any]
    keys: list[str]

    @classmethod
    def of(cls, batch: Batch) -> _Payload:
        names = ("poller_name", "batch_id", "rows", "fencing_token", "attempt", "cursor_from", "cursor_to")
        return cls({name: getattr(batch, name) for name in names}, batch.keys())

    def batch(self, lease: LeaseView) -> Batch:
        return Batch(
            **self.fields,
            _key_at=self.keys.__getitem__,
            _lease=lease,
            _positions={id(row): position for position, row in enumerate(self.fields["rows"])},
        )


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
    """Seconds before the end at which the child is told; the parent kills it at the end."""

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
    # Ctrl-C and service managers signal whole groups; the parent drains, and ends the child itself.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="poller-parent-watch", daemon=True).start()
    while True:
        try:
            received = connection.recv_bytes()
        except (EOFError, OSError):
            return
        failure: tuple[str, str, str] | None = None
        try:
            handler, payload, token = pickle.loads(received)  # noqa: S301 - from our own parent
            lease = _SharedLease(until, token)
            call(handler, payload.batch(lease), lease)
        except Exception as error:  # noqa: BLE001 - told to the parent
            failure = (type(error).__name__, str(error), traceback.format_exc())
        connection.send_bytes(pickle.dumps(failure))


def _end_with_parent() -> None:
    """A handler whose poller was killed must not go on beside the next owner's."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
