"""A Functions host for the work queue, as the documentation describes it: a stand-in, since the real one is not
available in a test. The queues are real.

It takes up to 32 messages at a time and hides each for ten minutes, gives each to a worker process, removes it when the
worker says so, and puts a message that failed `max_dequeue_count` times into `{queue}-poison`. A worker that is killed
leaves its messages hidden. https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-queue-trigger
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from azure.storage.queue import QueueClient

from tests.support.services import REPOSITORY

FETCHED = 32
HIDDEN = 600
"""Seconds."""


class Worker:
    """One worker process: it reads a message per line, base64, and answers with a line for each."""

    def __init__(self, argv: Sequence[str], log: IO[bytes]) -> None:
        self.process = subprocess.Popen(
            [*argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=REPOSITORY, text=True, bufsize=1
        )

        self._ready = False

    def wait(self) -> bool:
        """Wait until it has indexed the app, as the host does before it hands anything to a worker; False where it died
        before."""
        assert self.process.stdout is not None
        self._ready = self._ready or self.process.stdout.readline().strip() == "ready"
        return self._ready

    def invoke(self, text: str) -> bool | None:
        """Whether the invocation succeeded; None where the worker died meanwhile."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
        except OSError:
            return None
        return {"ok": True, "failed": False}.get(answer)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class QueueHost:
    """Worker processes behind one queue; each is replaced where it died.

    Args:
        connection_string: of the account. queue: its name. argv: of a worker. workers: how many.
    """

    def __init__(
        self,
        connection_string: str,
        queue: str,
        argv: Sequence[str],
        *,
        workers: int,
        log: Path,
        max_dequeue_count: int = 1,
    ) -> None:
        self._argv = argv
        self._log = log.open("ab")
        self._most = max_dequeue_count
        self._queue, self._poison = (
            QueueClient.from_connection_string(connection_string, name) for name in (queue, f"{queue}-poison")
        )
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._fetched: list[Any] = []
        self.workers = [Worker(argv, self._log) for _ in range(workers)]
        self.done: list[str] = []
        self.killed = 0
        self._threads = [
            threading.Thread(target=self._serve, args=(at,), daemon=True, name=f"host-{at}") for at in range(workers)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for worker in self.workers:
            worker.kill()
        for thread in self._threads:
            thread.join(20)
        self._log.close()

    def kill(self, at: int) -> None:
        """SIGKILL one worker. Its message stays hidden; another worker takes its place."""
        self.workers[at].kill()
        self.killed += 1

    def _serve(self, at: int) -> None:
        while not self._stop.is_set():
            if not self.workers[at].wait():
                self.workers[at] = Worker(self._argv, self._log)
                continue
            message = self._next()
            if message is None:
                self._stop.wait(0.1)
                continue
            outcome = self.workers[at].invoke(message.content)
            if self._stop.is_set():
                return
            if outcome is None:
                self.workers[at] = Worker(self._argv, self._log)
            elif outcome:
                self._queue.delete_message(message)
                self.done.append(message.content)
            elif message.dequeue_count >= self._most:
                self._poisoned(message)
            else:
                self._queue.update_message(message, visibility_timeout=0)

    def _poisoned(self, message: Any) -> None:
        from azure.core.exceptions import ResourceExistsError

        with contextlib.suppress(ResourceExistsError):
            self._poison.create_queue()
        self._poison.send_message(message.content)
        self._queue.delete_message(message)

    def _next(self) -> Any:
        from azure.core.exceptions import ResourceNotFoundError

        with self._lock:
            if not self._fetched:
                try:
                    self._fetched = list(self._queue.receive_messages(max_messages=FETCHED, visibility_timeout=HIDDEN))
                except ResourceNotFoundError:
                    return None
            return self._fetched.pop(0) if self._fetched else None


def main(folder: str) -> int:
    """A worker process: the app in a folder, whose queue function gets a message per line of stdin."""
    from azure.functions import QueueMessage

    from tests.functions import host

    work = host.functions(host.load(Path(folder)))["work"].get_user_function()
    answers, sys.stdout = sys.stdout, sys.stderr
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        try:
            work(message=QueueMessage(body=base64.b64decode(line)))  # type: ignore[no-untyped-call,unused-ignore]
        except Exception as error:  # noqa: BLE001 - the host records it
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            print("failed", file=answers, flush=True)
        else:
            print("ok", file=answers, flush=True)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("FUNCTIONS_WORKER_RUNTIME", "python")
    sys.exit(main(*sys.argv[1:]))
