"""`poller run` with many pollers: what it shows stays readable, and its options."""

from __future__ import annotations

import io
import os
import re
import signal
import stat
from datetime import UTC, datetime
from typing import Any

import pexpect
import pytest
from rich.console import Console

from poller.observability import BatchStarted, TickFinished
from poller_cli.terminal.progress import LiveProgress
from tests.cli.project import NOTING, Project, end
from tests.support.services import wait_until

STYLED = r"(?:\x1b\[[0-9;?]*[A-Za-z])*"
NAMES = [f"p{number}" for number in range(25)]


def rendered(progress: LiveProgress) -> list[str]:
    console = Console(file=io.StringIO(), width=100, height=24)
    for part in progress._progress.get_renderables():
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def begun(name: str) -> BatchStarted:
    facts: dict[str, Any] = {"at": datetime.now(UTC), "owner_id": "me", "fencing_token": 1, "batch_id": "b"}
    return BatchStarted(poller=name, rows=10, attempt=1, **facts)


def ended(name: str) -> TickFinished:
    blank: dict[str, Any] = dict.fromkeys(("cursor", "fencing_token", "lag_seconds", "pending", "bound", "error"))
    counts: dict[str, Any] = {"outcome": "delivered", "rows": 10, "batches": 1, "duration_seconds": 1.0}
    return TickFinished(poller=name, at=datetime.now(UTC), **blank, **counts)


@pytest.mark.parametrize(("lines", "shown"), [("24", 20), ("12", 8), ("100", 20), ("3", 1)])
def test_a_screenful_is_shown_and_the_rest_counted(monkeypatch: pytest.MonkeyPatch, lines: str, shown: int) -> None:
    monkeypatch.setenv("LINES", lines)
    monkeypatch.setenv("COLUMNS", "100")
    progress = LiveProgress()
    for number in range(300):
        progress(begun(f"p{number}"))
    text = rendered(progress)
    assert len(text) == shown + 1
    assert " p0 " in text[0]
    assert text[-1].strip() == f"and {300 - shown} more at work"
    for number in range(1, 300):
        progress(ended(f"p{number}"))
    assert len(rendered(progress)) == 1


def test_on_a_terminal_many_ticks_are_one_line(project: Project) -> None:
    project.configure(*NAMES)
    project.insert(3, table="p4")
    project.insert(4, table="p7")
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}
    child = project.on_terminal("run", "--until-idle", env=environ, dimensions=(30, 120), timeout=60)
    child.expect(pexpect.EOF)
    child.close()
    shown = re.sub(STYLED, "", child.before)
    assert child.exitstatus == 0, shown
    assert "2 pollers delivered 7 rows" in shown
    assert "idle" not in shown


def test_max_concurrent_is_what_is_at_work_at_once(project: Project) -> None:
    handlers = """
import threading, time
from pathlib import Path
lock, at_work, most = threading.Lock(), 0, 0
def handle(batch):
    global at_work, most
    with lock:
        at_work += 1
        most = max(most, at_work)
        (Path(__file__).parent / "most").write_text(str(most))
    time.sleep(0.1)
    with lock:
        at_work -= 1
"""
    project.configure(*NAMES[:6], handlers=handlers)
    for name in NAMES[:6]:
        project.insert(1, table=name)
    assert project.run("run", "--once", "--max-concurrent", "1").code == 0
    assert project.lines("most") == ["1"]
    for name in NAMES[:6]:
        project.insert(1, table=name)
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace("[state]", "[run]\nmax_concurrent = 6\n[state]"), handlers)
    assert project.run("run", "--once").code == 0
    assert int(project.lines("most")[0]) > 1
    assert project.run("run", "--once", "--max-concurrent", "0").code == 2


def test_the_alive_file_is_there_while_it_runs(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller='schedule = "* * * * * *"')
    project.insert(1)
    process = project.start("run", "--alive-file", "alive")
    wait_until(lambda: project.lines("seen"))
    alive = project.folder / "alive"
    assert stat.S_IMODE(alive.stat().st_mode) == 0o600
    process.send_signal(signal.SIGTERM)
    assert end(process).code == 0
    assert not alive.exists()
