"""Commands as processes of their own that start at once: forked from one that has imported everything, and killed or
stopped by itself at a step that is asked for. Run as a script it is the forge; `Forge` talks to it."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

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
            [sys.executable, __file__], env={**kept, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

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


def _serve() -> None:
    _preload()
    gc.freeze()
    while line := sys.stdin.readline():
        process = os.fork()
        if process == 0:
            _command(json.loads(line))
        print(process, flush=True)
        while os.WIFSTOPPED(status := os.waitpid(process, os.WUNTRACED)[1]):
            print(STOPPED, flush=True)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()
