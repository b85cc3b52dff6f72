"""What happens in the show, in order, and the count afterwards that proves it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from poller.errors import PollerError
from poller_cli.demo.scene import Scene, flights, key_of
from poller_cli.demo.workers import Event, Worker, wait_for
from poller_cli.output.models import DemoOutput

ARRIVAL_SECONDS = 12.0
"""The time in which the flights arrive."""
KILL_AFTER = 0.35
"""Which share of them has been delivered when a worker is killed."""
PATIENCE = 60.0
"""Seconds after which anything that was waited for is a failure."""


class DemoFailed(PollerError):
    """The show did not go as it must."""


@dataclass(slots=True)
class Play:
    """One show. `say` is given each line of it, with the seconds since the beginning; `stop` ends it."""

    scene: Scene
    say: Callable[[float, str], None]
    stop: threading.Event = field(default_factory=threading.Event)
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _rows: int = 0
    _takeover: tuple[float, int, int] | None = None
    _workers: list[Worker] = field(default_factory=list)

    def perform(self) -> DemoOutput:
        """Everything, from the first flight to the closing count. Raises: DemoFailed; KeyboardInterrupt (stopped)."""
        self.scene.build()
        expected = {key_of(row) for row in flights()}
        self._say(f"{len(expected):,} flights of January 2013 begin to arrive in a SQLite table.")
        writer = subprocess.Popen(
            [sys.executable, "-m", "poller_cli.demo.writer", str(self.scene.folder), str(ARRIVAL_SECONDS)]
        )
        try:
            for name in ("A", "B"):
                worker = Worker(name, self.scene, self._observe)
                self._workers.append(worker)
                worker.start()
            self._say("Workers A and B begin: the same poller, one lease of 3 s between them.")
            self._wait("the first rows", lambda: self._rows >= KILL_AFTER * len(expected))
            killed_at, victim, batch = self._kill()
            self._wait("the takeover", lambda: self._takeover is not None)
            self._wait("the last row", lambda: self._all_delivered(writer, len(expected)))
            for worker in self._workers:
                if worker is not victim and worker.stop(PATIENCE) != 0:
                    raise DemoFailed(f"Worker {worker.name} did not end well: {worker.last_error}")
        finally:
            for worker in self._workers:
                worker.kill()
            writer.kill()
            writer.wait()
        return self._count(expected, victim, batch, killed_at)

    def _say(self, line: str) -> None:
        self.say(time.monotonic() - self._began, line)

    def _observe(self, worker: Worker, event: Event) -> None:
        with self._lock:
            if event["event"] == "batch_committed":
                self._rows += event["rows"]
            elif event["event"] == "lease_taken_over":
                before, after = event["previous_fencing_token"], event["fencing_token"]
                self._takeover = (time.monotonic(), before, after)
                self._say(f"Worker {worker.name} takes over: fencing token {before} -> {after}.")
            elif event["event"] == "tick" and event["rows"]:
                pending = f", {event['pending']:,} waiting" if event["pending"] else ""
                self._say(
                    f"Worker {worker.name}, fencing token {event['fencing_token']}: {event['rows']:,} flights in "
                    f"{event['batches']} batches{pending}; {self._rows:,} delivered so far."
                )

    def _kill(self) -> tuple[float, Worker, tuple[str, str]]:
        """SIGKILL the worker whose handler is in the middle of a batch. Its id comes with the fencing token: ticks
        of one second may give the same id."""
        self.scene.hold.touch()
        self._wait("a batch", lambda: self.scene.held.exists() and self.scene.held.read_text().count(" ") == 2)
        pid, batch, token = self.scene.held.read_text().split(" ")
        victim = next(worker for worker in self._workers if worker.process.pid == int(pid))
        self.scene.hold.unlink()
        killed_at = time.monotonic()
        victim.kill()
        self._say(f"SIGKILL for worker {victim.name}, in the middle of {batch}, fencing token {token}.")
        return killed_at, victim, (batch, token)

    def _all_delivered(self, writer: subprocess.Popen[bytes], count: int) -> bool:
        return writer.poll() is not None and self._rows >= count

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        done = wait_for(lambda: self.stop.is_set() or condition(), PATIENCE)
        if self.stop.is_set():
            raise KeyboardInterrupt
        if not done:
            details = "; ".join(f"worker {w.name}: {w.last_error}" for w in self._workers if w.last_error)
            raise DemoFailed(f"Waited {PATIENCE:.0f} s for {what} without success. {details}")

    def _count(self, expected: set[str], victim: Worker, batch: tuple[str, str], killed_at: float) -> DemoOutput:
        """Compare what arrived with what the handlers recorded."""
        seen: Counter[str] = Counter()
        in_hand: set[str] = set()
        for worker in self._workers:
            path = self.scene.deliveries(worker.name)
            for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
                key, *of_batch = line.split("\t")
                seen[key] += 1
                if worker is victim and tuple(of_batch) == batch:
                    in_hand.add(key)
        twice = {key for key, count in seen.items() if count > 1}
        missing = expected - seen.keys()
        outside = len(twice - in_hand)
        takeover, before, after = self._takeover or (killed_at, 0, 0)
        return DemoOutput(
            rows_written=self.scene.count(),
            rows_delivered=len(expected & seen.keys()),
            missing=len(missing),
            delivered_twice=len(twice),
            killed_batch_rows=len(in_hand),
            twice_outside_killed_batch=outside,
            token_before_kill=before,
            token_after_takeover=after,
            takeover_seconds=round(takeover - killed_at, 2),
            elapsed_seconds=round(time.monotonic() - self._began, 1),
            ok=not missing and not outside and max(seen.values()) <= 2 and after == before + 1,
        )
