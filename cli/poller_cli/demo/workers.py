"""The workers of the show: processes of `poller run --json`, whose events are read as they come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from poller_cli.demo.scene import POLLER, Scene

Event = dict[str, Any]


@dataclass(slots=True)
class Worker:
    """One process. `observe` is called with each of its events, on a thread that reads them.

    Attributes:
        last_error: the last line it wrote to stderr.
    """

    name: str
    scene: Scene
    observe: Callable[[Worker, Event], None]
    last_error: str = ""
    process: subprocess.Popen[str] = field(init=False)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self, words: Sequence[str] = ("run", POLLER, "--json")) -> None:
        """Start a command; by default `poller run`, for ever."""
        environ = os.environ | {"POLLER_DEMO_FOLDER": str(self.scene.folder), "POLLER_DEMO_WORKER": self.name}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "poller_cli.main", "-c", str(self.scene.config), *words],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        for stream, read in ((self.process.stdout, self._read_events), (self.process.stderr, self._read_errors)):
            if stream is not None:
                thread = threading.Thread(target=read, args=(stream,), daemon=True)
                thread.start()
                self._threads.append(thread)

    def _read_events(self, stream: IO[str]) -> None:
        for line in stream:
            if not line.startswith('{"'):
                continue  # the output of a command that is not `run`
            self.observe(self, json.loads(line))

    def _read_errors(self, stream: IO[str]) -> None:
        for line in stream:
            self.last_error = line.strip()

    def kill(self) -> None:
        """SIGKILL: no chance to finish or to say anything."""
        self.process.kill()
        self.process.wait()
        self._join()

    def stop(self, seconds: float) -> int:
        """SIGTERM, and time to finish the batch in hand; returns the exit code."""
        self.process.terminate()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return 1
        self._join()
        return code

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(5)


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Look every 20 ms until it is so; False when the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()
