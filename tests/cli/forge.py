"""Commands as processes of their own that start at once: forked from one that has imported everything, and killed or
stopped by itself at a step that is asked for. Run as a script it is the forge; `Forge` talks to it.

`tests.cli.forked` has it start more of them, beside those and beside each other, with streams of their own."""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from fcntl import ioctl
from pathlib import Path
from typing import Any

from tests.cli.readable import readable

STOPPED = "stopped"


class Forge:
    """Starts commands, one after another.

    Attributes:
        folder, environ: where they work, and what they find in the environment beside the forge's own.
        busy: whether one was started and not waited for.
        anybody: whether they heed permissions though root starts them.
    """

    busy = False
    anybody = False

    def __init__(self) -> None:
        self.folder = Path()
        self.environ: Mapping[str, str] = {}
        self._written = Path(tempfile.mkdtemp(prefix="poller-test-forge-"))
        kept = {k: v for k, v in os.environ.items() if k not in {"POLLER_CONFIG", "AzureWebJobsStorage"}}
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self._written / "socket")],
            env={**kept, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def at(self) -> Path | None:
        """Where `tests.cli.forked` finds it; None: it cannot now, or on this system."""
        if self.busy or not hasattr(os, "pidfd_open"):
            return None
        there = self._written / "socket"
        while not there.exists():  # it is the first that the forge makes
            assert self._process.poll() is None
            time.sleep(0.01)
        return there

    def start(self, *arguments: str, step: int = 0, when: str = "") -> int:
        """Its process id. Before, within or after that step (from 1) of those in `steps` it kills itself; `stop-before`
        and `stop-after`: it stops itself."""
        order = {"arguments": arguments, "step": step, "when": when, "anybody": self.anybody}
        order |= {"folder": str(self.folder), "environ": dict(self.environ), "written": str(self._written)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        self.busy = True
        return int(self._line())

    def wait(self) -> int:
        """The exit code of what was started last, below 0 for a signal."""
        code = int(self._line())
        self.busy = False
        return code

    def has_ended(self, seconds: float) -> bool:
        """Whether what was started last has ended; looked at for so long."""
        assert self._process.stdout is not None
        return readable(self._process.stdout, seconds)

    def await_stopped(self) -> None:
        """Until what was started last has stopped itself. Raises AssertionError where it ended instead."""
        line = self._line().strip()
        assert line == STOPPED, f"it ended with {line}: {self.err}"

    def run(self, *arguments: str, step: int = 0, when: str = "") -> int:
        self.start(*arguments, step=step, when=when)
        return self.wait()

    @property
    def out(self) -> str:
        return (self._written / "out").read_text()

    @property
    def err(self) -> str:
        return (self._written / "err").read_text()

    @property
    def steps(self) -> list[str]:
        """What the last one did: each call of the embedded store, and each change of a file."""
        return (self._written / "steps").read_text().splitlines()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        shutil.rmtree(self._written)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def _preload() -> None:
    """Everything but threads, which a fork would lose."""
    for package in ("poller", "poller_cli"):
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not found.name.endswith(("__main__", ".functions")):
                with contextlib.suppress(ImportError):  # an extra that is not installed
                    importlib.import_module(found.name)
    for name in (
        "sqlalchemy.dialects.sqlite",
        "sqlalchemy.dialects.postgresql",
        "psycopg",
        "azure.core.pipeline.transport",
        "requests",
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    from poller_cli import main
    from tests.cli.built import built

    main.build = built
    built()


def _die_at(wanted: int, when: str, steps_file: Path) -> None:
    """Count every step, and die or stop before, within or after one of them."""
    steps = 0
    stop, _, when = when.rpartition("-")
    last = signal.SIGSTOP if stop else signal.SIGKILL

    def dying(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            mine = steps == wanted
            about = next((one for one in arguments if isinstance(one, (str, Path))), "")
            with steps_file.open("a") as out:
                out.write(f"{name} {about}\n")
            if mine and when == "before":
                signal.raise_signal(last)  # this very thread goes no further
            if mine and when == "within":
                path, text = arguments[:2]
                work(path, text[: len(text) // 2])
                signal.raise_signal(last)  # this very thread goes no further
            answer = work(*arguments, **named)
            if mine and when == "after":
                signal.raise_signal(last)  # this very thread goes no further
            return answer

        return call

    from poller import files
    from poller.stores import SqlStore

    of_files = [(files, "write_new"), (os, "link"), (Path, "replace")]
    of_store = [(SqlStore, name) for name in ("read", "write", "remove", "append", "lines", "names")]
    for owner, name in (*of_store, *of_files):
        setattr(owner, name, dying(name, getattr(owner, name)))


def _command(order: dict[str, Any]) -> None:
    """Become the command. It ends at once: to take down so much that was imported is what would take long."""
    from poller_cli.main import execute
    from tests.cli.project import as_anybody

    os.chdir(order["folder"])
    os.environ.update(order["environ"])
    written = Path(order["written"])
    for number, name in ((0, os.devnull), (1, written / "out"), (2, written / "err")):
        opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    (written / "steps").write_text("")
    _die_at(order["step"], order["when"], written / "steps")
    if order["anybody"]:
        as_anybody()
    try:
        code = execute(order["arguments"])
    except SystemExit as ended:  # what a shell asks for its completion
        code = int(ended.code or 0)
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


# --- those that go on beside others


def _stream(number: int, *, unbuffered: bool) -> io.TextIOWrapper:
    """As Python makes its own."""
    raw: Any = os.fdopen(number, "wb", buffering=0 if unbuffered else -1, closefd=False)
    errors, line = ("strict", os.isatty(1)) if number == 1 else ("backslashreplace", True)
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, line_buffering=line, write_through=unbuffered)


def _become(order: dict[str, Any], streams: array.array[int]) -> int:
    """The command in this process, from its streams to its end. Its exit code."""
    os.setsid()
    for number, one in enumerate(streams):
        os.dup2(one, number)
    os.closerange(3, 1024)
    if order["terminal"]:
        ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environ"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    streams_of: dict[str, Any] = {
        "stdin": os.fdopen(0, encoding="utf-8", closefd=False),
        "stdout": _stream(1, unbuffered=unbuffered),
        "stderr": _stream(2, unbuffered=unbuffered),
    }
    for name, made in streams_of.items():
        setattr(sys, name, made)
        setattr(sys, f"__{name}__", made)
    sys.argv = ["poller", *order["arguments"]]
    tempfile.tempdir = None
    from poller_cli.main import main

    code: Any = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:  # noqa: BLE001 - as Python ends itself
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    return int(code)


class _Beside:
    """What was started through the socket, by the descriptors that tell of its end."""

    def __init__(self, at: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(at)
        self.socket.listen()
        self.running: dict[int, tuple[int, socket.socket]] = {}

    def begin(self) -> None:
        asking, _ = self.socket.accept()
        text, passed, _, _ = asking.recvmsg(1 << 20, socket.CMSG_SPACE(3 * 4))
        streams = array.array("i", passed[0][2])
        process = os.fork()
        if process == 0:
            try:
                os._exit(_become(json.loads(text), streams))
            finally:
                os._exit(70)
        for one in streams:
            os.close(one)
        self.running[os.pidfd_open(process)] = process, asking
        asking.send(str(process).encode())

    def ended(self, watched: int) -> None:
        process, asking = self.running.pop(watched)
        os.close(watched)
        status = os.waitpid(process, 0)[1]
        with contextlib.suppress(OSError):  # nobody waits for it any more
            asking.send(str(status).encode())
        asking.close()


def _one(line: str) -> None:
    process = os.fork()
    if process == 0:
        _command(json.loads(line))
    print(process, flush=True)
    while os.WIFSTOPPED(status := os.waitpid(process, os.WUNTRACED)[1]):
        print(STOPPED, flush=True)
    print(os.waitstatus_to_exitcode(status), flush=True)


def _serve(at: str) -> None:
    beside = _Beside(at)
    _preload()
    gc.freeze()
    while True:
        ready = select.select([sys.stdin, beside.socket, *beside.running], [], [])[0]
        if beside.socket in ready:
            beside.begin()
        for watched in [one for one in beside.running if one in ready]:
            beside.ended(watched)
        if sys.stdin in ready:
            line = sys.stdin.readline()
            if not line:
                break
            _one(line)
    for process, _ in beside.running.values():
        os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    _serve(sys.argv[1])
