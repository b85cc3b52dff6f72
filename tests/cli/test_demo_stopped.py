"""`poller demo` that is ended by a signal: nothing of it stays behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.cli.project import Project, end, wait_until


def begun_in(folder: Path) -> list[int]:
    """The processes whose command line names something in this folder."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            line = (one / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in line:
            found.append(int(one.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="there is no /proc to see processes in")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_demo_that_is_ended_takes_its_workers_and_its_folder_with_it(
    project: Project, tmp_path: Path, number: signal.Signals
) -> None:
    project.environ["TMPDIR"] = str(tmp_path)
    demo = project.start("demo")
    wait_until(lambda: len(begun_in(tmp_path)) >= 3)
    demo.send_signal(number)
    ended = end(demo)
    left = begun_in(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
    assert (ended.code, ended.error) == (1, "poller: Interrupted.")
    assert list(tmp_path.iterdir()) == []
