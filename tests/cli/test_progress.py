"""Progress on a terminal: rows per second, lag and time left; plain lines in a pipe."""

from __future__ import annotations

import io
import os
import re
from datetime import UTC, datetime

import pexpect
import pytest

from tests.cli.project import Project
from tests.cli.terminal import Terminal

STEPS = """
from pathlib import Path
import time
HERE, batches = Path(__file__).parent, 0

def handle(batch):
    global batches
    batches += 1
    print("got", len(batch))
    while not (HERE / f"go-{batches}").exists():
        time.sleep(0.02)
"""
"""A handler that waits with each batch until it is let go on with it."""
STYLED = r"(?:\x1b\[[0-9;?]*[A-Za-z])*"


def spawn(project: Project, *arguments: str, **environ: str) -> pexpect.spawn:
    return project.on_terminal(
        *arguments,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "PYTHONIOENCODING": "utf-8", **environ},
        dimensions=(30, 120),
        timeout=30,
    )


def text_of(child: pexpect.spawn) -> str:
    """Everything that it still shows, without what steers the terminal."""
    child.expect(pexpect.EOF)
    child.close()
    return re.sub(STYLED, "", child.before)


def stepped(project: Project, child: pexpect.spawn, batches: int, size: int) -> str:
    """Everything that it shows from here on; each batch ends once the one before it is shown."""
    shown = child.logfile_read = io.StringIO()
    for number in range(1, batches + 1):
        (project.folder / f"go-{number}").touch()
        if number < batches:
            child.expect(f"{number * size}{STYLED} {STYLED}rows")
    text_of(child)
    return re.sub(STYLED, "", shown.getvalue())


def test_a_poller_that_catches_up_shows_rate_lag_and_time_left(project: Project) -> None:
    project.configure("orders", handlers=STEPS, poller="batch_size = 100")
    project.insert(400)
    child = spawn(project, "run", "--until-idle")
    shown = stepped(project, child, 4, 100)
    assert child.exitstatus == 0
    assert re.search(r"orders .* [1-3]00 rows .*[\d,]+ rows/s .*\d+ d (\d+ h )?behind, \d+ s left", shown)
    assert not re.search(r" h left", shown), "how long it takes follows from the rows' number, not by how old they are"
    assert "delivered, 400 rows in 4 batches" in shown


def test_what_a_handler_prints_stands_above_the_progress(project: Project) -> None:
    project.configure("orders", handlers=STEPS, poller="batch_size = 10")
    project.insert(30)
    child = spawn(project, "run", "--until-idle")
    shown = stepped(project, child, 3, 10)
    assert child.exitstatus == 0
    assert shown.count("got 10") == 3
    assert "delivered, 30 rows in 3 batches" in shown


def test_a_counted_backfill_is_confirmed_by_name_and_shows_rest(project: Project) -> None:
    project.configure("orders", handlers=STEPS, poller="batch_size = 10")
    project.insert(100)
    asked = ("backfill", "orders", "--from", "2026-01-01 00:00:02", "--to", "2026-01-01 00:00:07", "--as", "again")
    child = spawn(project, *asked)
    child.expect("rows +50 will be delivered")
    child.expect("Type orders to go on")
    child.sendline("orders")
    shown = stepped(project, child, 5, 10)
    assert child.exitstatus == 0, shown
    assert re.search(r"again .*(20|30|40) rows .*\d+ rows/s .*\d+ s left", shown)
    assert "behind" not in shown
    assert "Done: 50 rows delivered" in shown


@pytest.mark.parametrize(
    "command", [("run", "--once"), ("backfill", "orders", "--from", "2026-01-01", "--to", "2026-01-02", "--yes")]
)
def test_in_a_pipe_there_are_plain_log_lines(project: Project, command: tuple[str, ...]) -> None:
    project.configure("orders")
    project.insert(30)
    ended = project.run(*command)
    assert ended.code == 0, ended.err
    assert "\x1b" not in ended.out + ended.err
    (line,) = [line for line in ended.err.splitlines() if "tick outcome=delivered" in line]
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z INFO    orders[-\w]*: tick outcome=delivered rows=30 batches=1", line)


def test_a_run_on_a_terminal_shows_the_time_in_utc(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.configure("orders")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    before = datetime.now(UTC)
    _, shown = Terminal(project, "run", "--once").end()
    found = re.search(r"(\d\d):\d\d:\d\dZ", shown)
    assert found is not None, shown
    assert int(found[1]) in {before.hour, datetime.now(UTC).hour}
