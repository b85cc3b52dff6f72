"""Handlers that run in a child process, and note beside themselves what they saw there. `FOLDER` is given by the
environment."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from poller import Batch
from poller.errors import LeaseLost
from poller.handler.subprocess import _SharedLost

FOLDER = "CHILDREN_FOLDER"


def note(name: str, text: object = "") -> None:
    path = _noted(name)
    path.with_suffix(".new").write_text(str(text))
    path.with_suffix(".new").rename(path)


def _noted(name: str) -> Path:
    return Path(os.environ[FOLDER]) / name


def fine(batch: Batch) -> None:
    note("pid", os.getpid())
    batch.check()
    assert not batch.lost.is_set()
    note("remaining", batch.remaining())
    note("key", batch.key(batch.rows[0]))


def hangs(batch: Batch) -> None:
    """Says when it learns that the lease is lost, and ignores it. It learns it a second before its end, not a tenth:
    so a busy machine lets it say so."""
    _SharedLost.GRACE = 1.0
    note("pid", os.getpid())
    batch.lost.wait(60)
    note("lost", batch.lost.is_set())
    while batch.remaining() > 0:
        time.sleep(0.005)
    try:
        batch.check()
    except LeaseLost:
        note("refused")
    time.sleep(60)
    note("survived")


def hangs_without_a_look(batch: Batch) -> None:
    note("pid", os.getpid())
    time.sleep(60)
    note("survived")


def hangs_at_the_third(batch: Batch) -> None:
    if any(row["id"] == 3 for row in batch):
        time.sleep(60)


def forks(batch: Batch) -> None:
    """Its copy returns at once; it does when the copy has ended."""
    copy = os.fork()
    if copy:
        os.waitpid(copy, 0)
        note("pid", os.getpid())
        with _noted("done").open("a") as done:
            done.write(f"{os.getpid()}\n")


def dies(batch: Batch) -> None:
    os._exit(7)


def fails(batch: Batch) -> None:
    raise ValueError(f"{len(batch)} rows are too many")


def fails_a_little_later(batch: Batch) -> None:
    """Fails, when whoever waited for its process's number had time to answer in its stead."""
    note("pid", os.getpid())
    time.sleep(0.5)
    raise ValueError("no")


def waits(batch: Batch) -> None:
    """Works on until it is killed."""
    note("pid", os.getpid())
    time.sleep(60)


def is_stopped_at_a_look(batch: Batch) -> None:
    """Stopped, as by an operator or a debugger, in the midst of `batch.check()`: right after what it takes first."""
    note("pid", os.getpid())

    def stop(frame: FrameType, event: str, what: object) -> None:
        if event == "c_return" and getattr(what, "__name__", "") in ("acquire", "monotonic"):
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGSTOP)

    sys.setprofile(stop)
    batch.check()
    note("survived")


def dies_and_leaves_a_process(batch: Batch) -> None:
    """What it leaves keeps every descriptor open, that of the answer too."""
    left = os.fork()
    if left == 0:
        time.sleep(60)
        os._exit(0)
    note("left", left)
    os._exit(7)


def leaves_a_copy(batch: Batch) -> None:
    """Succeeds; a copy of its process comes to the end of this batch while the next one is worked on."""
    if os.fork() == 0:
        while not _noted("pid").exists():
            time.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def waits_for_a_program(batch: Batch) -> None:
    """Works on in a program of its own until it is killed."""
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    note("program", program.pid)
    note("pid", os.getpid())
    program.wait()


def dies_beside_a_program(batch: Batch) -> None:
    note("program", subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid)
    os._exit(7)


def terminates_a_program(batch: Batch) -> None:
    """Begins one that ignores no signal by itself, and ends it as `subprocess` says."""
    program = subprocess.Popen([sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"], stdout=-1)
    assert program.stdout is not None
    program.stdout.readline()
    program.terminate()
    try:
        note("ended", program.wait(20))
    finally:
        program.kill()


def uses_a_pool(batch: Batch) -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        note("made", pool.map(abs, [-1, 2]))
