"""What a run was made on, and how busy others kept it meanwhile."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import threading
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.services import REPOSITORY

PACKAGES = (
    "psycopg", "pymysql", "sqlalchemy", "azure-storage-blob", "requests", "orjson", "pyarrow",
    "adbc-driver-postgresql", "pydantic", "typer", "azure-functions",
)  # fmt: skip
LOADED = 0.15
"""Cores that others used, from which on a run is one of a loaded machine."""


def about() -> dict[str, Any]:
    """Versions, cores, memory, and the commit."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return {
        "bench": "machine",
        "date": _now(),
        "commit": _commit(),
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "packages": {name: one for name, one in found.items() if one},
    }


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%d %H:%M UTC")


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "poller", "cli")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" and changes" if changed else "")


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    for line in file.read_text().splitlines() if file.is_file() else ():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()


class Watch:
    """How busy the machine is while something runs: load averages, and the cores that other processes used."""

    def __enter__(self) -> Self:
        self._ended = threading.Event()
        self.loads = [os.getloadavg()[0]]
        self._began, self._busy, self._own = time.monotonic(), _busy(), _own()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self.seconds = time.monotonic() - self._began
        used = (_busy() - self._busy) - (_own() - self._own)
        self.others = max(0.0, used / self.seconds)

    def line(self, step: str) -> dict[str, Any]:
        """What is said of a step."""
        return {
            "bench": "step",
            "step": step,
            "commit": _commit(),
            "date": _now(),
            "seconds": round(self.seconds, 1),
            "load": [round(min(self.loads), 2), round(max(self.loads), 2)],
            "others": round(self.others, 2),
        }

    def _look(self) -> None:
        while not self._ended.wait(2):
            self.loads.append(os.getloadavg()[0])


def _busy() -> float:
    """Seconds that all processors worked, for anybody."""
    file = Path("/proc/stat")
    if not file.is_file():
        return 0.0
    user, nice, system, _, _, irq, softirq = map(int, file.read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    """Seconds of this process and of its children that have ended, servers among them."""
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)
