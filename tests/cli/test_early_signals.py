"""SIGTERM as the first process of a container (PID 1), which has no default action: it counts from the start on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.project import COMMAND, Project
from tests.support.services import REPOSITORY

FIRST = ["unshare", "--pid", "--fork", "--kill-child"]
"""Runs a command as PID 1 of a namespace of its own."""


def entrypoint() -> list[str]:
    """What stands before `poller` in our image."""
    (line,) = re.findall(r"^ENTRYPOINT (.*)$", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    *before, command = json.loads(line)
    assert command == "poller"
    return list(before)


def may_unshare() -> bool:
    try:
        return subprocess.run([*FIRST, "true"], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


needs_namespaces = pytest.mark.skipif(not may_unshare(), reason="this machine lets us make no PID namespace")


class First:
    """A command as PID 1, from outside."""

    def __init__(self, project: Project, *before: str, command: str = "run") -> None:
        self.around = subprocess.Popen(
            [*FIRST, *before, *COMMAND, command],
            cwd=project.folder,
            env=project._environ(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        children = Path(f"/proc/{self.around.pid}/task/{self.around.pid}/children")
        self.until(lambda: bool(children.read_text().split()))
        self.pid = int(children.read_text())

    def until(self, seen: Callable[[], bool]) -> None:
        ends = time.monotonic() + 60
        while not seen():
            assert time.monotonic() < ends
            time.sleep(0.001)

    def has(self, field: str, number: int) -> bool:
        """True if the signal is in a set of `/proc/PID/status`."""
        (mask,) = re.findall(rf"^{field}:\s*(\w+)$", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)
        return bool(int(mask, 16) >> (number - 1) & 1)

    def ended(self, number: int) -> str:
        """Signal it, and wait for its end: what it said."""
        os.kill(self.pid, number)
        try:
            return self.around.communicate(timeout=60)[1]
        finally:
            self.around.kill()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A poller that waits for 29 February."""
    made = Project(tmp_path)
    made.configure("orders", poller='schedule = "0 0 2 29 2 *"')
    return made


@pytest.mark.guarantee(
    "One worker at a time",
    "SIGTERM counts from the first instruction, also as the first process of a container; SIGHUP ends a worker as "
    "SIGTERM does, and under `nohup` not at all",
)
@needs_namespaces
@pytest.mark.parametrize("after", [0.0, 0.1, 0.4])
def test_no_moment_of_a_start_swallows_the_signal(project: Project, after: float) -> None:
    first = First(project, *entrypoint())
    first.until(lambda: first.has("SigBlk", signal.SIGHUP))  # `unshare` itself blocks SIGTERM for a moment
    time.sleep(after)  # wherever it is by then
    first.ended(signal.SIGTERM)


@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_first_process_hears_signals_in_every_command(project: Project, number: signal.Signals) -> None:
    """Without our image's entry point: from our first statement on."""
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("these tests run under nohup, and so do their commands")
    first = First(project, command="watch")
    first.until(lambda: first.has("SigCgt", number))
    first.ended(number)
    assert first.around.returncode == 128 + number
