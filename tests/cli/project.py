"""A small project on SQLite, and the command `poller` run as a process in it."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pexpect

from tests.cli.forge import Forge
from tests.cli.forked import OnTerminal, Started

COMMAND = [sys.executable, "-m", "poller_cli.main"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """stdout as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def json(self) -> Any:
        """stdout as one JSON document."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line that an error is."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("poller: "), self.err
        return lines[0]


@dataclass
class Project:
    """A folder with poller.toml, handlers.py and a SQLite table for each poller.

    Attributes:
        forge: what `run` starts its commands from, at once, where there is one that
            holds no other command.
        kept: the files with which each of several cases begins (`console.again`).
    """

    folder: Path
    forge: Forge | None = None
    environ: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    kept: dict[str, bytes] = field(default_factory=dict)

    def write(self, config: str, handlers: str | None = None) -> None:
        (self.folder / "poller.toml").write_text(config)
        if handlers is not None:
            (self.folder / "handlers.py").write_text(handlers)

    def configure(
        self, *names: str, handlers: str = "def handle(batch): pass\n", poller: str = "", source: str = ""
    ) -> None:
        """A poller and a table of each name."""
        text = 'app_name = "shop"\n[state]\nstore = "sql"\n'
        for name in names or ("orders",):
            text += f'[pollers.{name}]\nhandler = "handlers:handle"\n{poller}\n'
            text += f'[pollers.{name}.source]\nurl = "sqlite:///shop.db"\ntable = "{name}"\n'
            text += f'cursor_column = "updated_at"\ncursor_time_zone = "UTC"\npk_columns = ["id"]\n{source}\n'
            self.execute(
                f"CREATE TABLE IF NOT EXISTS {name} (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)"
            )
            self.execute(
                f"CREATE TRIGGER IF NOT EXISTS touch_{name} AFTER UPDATE ON {name}"
                " WHEN NEW.updated_at IS OLD.updated_at BEGIN"
                f" UPDATE {name} SET updated_at = datetime('now') WHERE id = NEW.id; END"
            )
        self.write(text, handlers)

    def execute(self, statement: str, *rows: tuple[object, ...], database: str = "shop.db") -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / database, timeout=20)) as connection, connection:
            if rows:
                connection.executemany(statement, rows)
                return []
            return connection.execute(statement).fetchall()

    def insert(self, count: int, *, table: str = "orders") -> None:
        """Old rows with ids of their own, several of them on each timestamp."""
        (first,) = self.execute(f"SELECT coalesce(max(id), 0) FROM {table}")[0]
        rows = [
            (n, f"2026-01-01 {n // 10 // 3600:02d}:{n // 10 // 60 % 60:02d}:{n // 10 % 60:02d}")
            for n in range(first + 1, first + count + 1)
        ]
        self.execute(f"INSERT INTO {table} VALUES (?, ?)", *rows)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        options: dict[str, Any] = {"cwd": self.folder, "env": self._environ(), "text": True, "start_new_session": True}
        options |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        at = None if self.forge is None else self.forge.at
        process = (
            subprocess.Popen([*COMMAND, *arguments], **options) if at is None else Started(at, arguments, **options)
        )
        self.started.append(process)
        return process

    def on_terminal(self, *arguments: str, **options: Any) -> pexpect.spawn[str]:
        """The command on a pseudo-terminal, with the options of `pexpect.spawn`."""
        options |= {"cwd": str(self.folder), "encoding": "utf-8", "use_poll": True}  # select() ends at descriptor 1,024
        at = None if self.forge is None else self.forge.at
        if at is None:
            return pexpect.spawn(COMMAND[0], [*COMMAND[1:], *arguments], **options)
        return OnTerminal(at, arguments, **options)

    def run(self, *arguments: str, seconds: float = 60) -> Ended:
        if self.forge is None or self.forge.busy:
            return end(self.start(*arguments), seconds=seconds)
        self.forge.folder, self.forge.environ = self.folder, self._environ()
        code = self.forge.run(*arguments)
        return Ended(code, self.forge.out, self.forge.err)

    def _environ(self) -> Mapping[str, str]:
        kept = {k: v for k, v in os.environ.items() if k not in {"POLLER_CONFIG", "AzureWebJobsStorage"}}
        return kept | {"PYTHONUNBUFFERED": "1"} | self.environ

    def lines(self, name: str) -> list[str]:
        """What a handler noted in a file beside it."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


def end(process: subprocess.Popen[str], *, seconds: float = 60) -> Ended:
    """Wait for a process to end by itself."""
    out, err = process.communicate(timeout=seconds)
    return Ended(process.returncode, out, err)


Files = dict[str, bytes]


def files(folder: Path) -> Files:
    """Every file but what Python and SQLite keep beside theirs."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.endswith(("-wal", "-shm"))
    }


def put_back(folder: Path, kept: Files) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name, body in kept.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(body)


NOTING = """
from pathlib import Path
import os, time
HERE = Path(__file__).parent

def handle(batch):
    (HERE / "started").write_text(str(os.getpid()))
    while (HERE / "wait").exists():
        time.sleep(0.02)
    with (HERE / "seen").open("a") as out:
        out.writelines(f"{batch.poller_name} {row['id']} {batch.fencing_token}\\n" for row in batch)
"""
"""A handler that notes its rows, and waits for as long as a file named `wait` stands beside it."""


def as_anybody() -> None:
    """Even root then heeds permissions, and so does what it becomes: PR_CAPBSET_DROP of CAP_DAC_OVERRIDE and
    CAP_DAC_READ_SEARCH, and capset without them."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):
        libc.prctl(24, capability, 0, 0, 0)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    sets[0] &= ~0b110
    sets[1] &= ~0b110  # by these access(2) judges
    libc.capset(header, sets)
