"""Programs take turns, round after round, so that what is noisy is so for all."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from poller.config import PollerOptions
from poller.config.options import SourceOptions
from tests.support.services import REPOSITORY

PROGRAMS = "benchmarks.throughput.systems."


@dataclass(frozen=True)
class System:
    """One way to deliver rows.

    Attributes:
        name: in the report. program: its module. settings: what it is started with, beside where everything is.
        peer: whether it runs in the peers' environment. needs: a module without which it cannot run.
    """

    name: str
    program: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    peer: bool = False
    needs: str = ""

    def missing(self) -> list[str]:
        """Which of its options this version of poller does not have, or the module that is not installed."""
        if self.needs and importlib.util.find_spec(self.needs) is None:
            return [self.needs]
        if self.program != "ours":
            return []
        known = {field.alias or name for name, field in PollerOptions.model_fields.items()}
        of_source = {field.alias or name for name, field in SourceOptions.model_fields.items()}
        wanted = [*(self.settings.get("options", {}).keys() - known)]
        return sorted([*wanted, *(self.settings.get("source", {}).keys() - of_source)])


@dataclass(frozen=True)
class Turn:
    """What each system is asked for in each round."""

    table: str
    batch: int
    rows: int


class Program:
    """One system's process, from its start to its end."""

    def __init__(self, system: System, python: str, asked: Mapping[str, Any]) -> None:
        self.system = system
        name = re.sub("[^a-z0-9]+", "-", system.name.lower())
        argument = json.dumps({**asked, **system.settings, "name": name})
        self._process = subprocess.Popen(
            [python, "-m", PROGRAMS + system.program, argument],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY,
        )  # fmt: skip
        self.about = self._line()

    def take(self, turn: Turn) -> dict[str, Any]:
        """One turn, and how long it took. Raises: RuntimeError, where rows were skipped, repeated or out of order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"table": turn.table, "batch": turn.batch, "rows": turn.rows}) + "\n")
        self._process.stdin.flush()
        found = self._line()
        enough = found["rows"] == turn.rows or ("wait" in self.system.settings and found["rows"] > turn.rows // 2)
        if found["misplaced"] or not enough:  # lanes have batches that are not full
            raise RuntimeError(f"{self.system.name} did not deliver each row once, in order: {found}, {turn}")
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.system.name} ended: see its errors above")
        found: dict[str, Any] = json.loads(line)
        return found


def python_of(system: System, peers: str) -> str:
    """Which Python runs it."""
    return peers if system.peer else sys.executable


def measure(programs: Sequence[Program], turn: Turn, rounds: int) -> list[dict[str, Any]]:
    """So many rounds, after one that does not count. One line per system: rows per second and microseconds of its
    processor per row, of each round."""
    found: dict[str, list[dict[str, Any]]] = {program.system.name: [] for program in programs}
    for number in range(rounds + 1):
        for program in (*programs[number % len(programs) :], *programs[: number % len(programs)]):
            took = program.take(turn)
            if number:
                found[program.system.name].append(took)
    return [
        {
            "bench": "throughput",
            "table": turn.table,
            "batch": turn.batch,
            "rows": turn.rows,
            "system": program.system.name,
            "rows_s": [round(one["rows"] / one["seconds"]) for one in found[program.system.name]],
            "cpu_us": [round(1e6 * one["cpu"] / one["rows"], 2) for one in found[program.system.name]],
            "batches": sum(one["batches"] for one in found[program.system.name]),
            "about": program.about,
        }
        for program in programs
    ]
