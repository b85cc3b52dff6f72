"""How long a process takes to build many pollers, and how much memory, beyond one that builds a single one.

Each poller has a table of its own, all else from one template, and one PostgreSQL server. Nothing is connected.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_FILE = """app_name = "shop"
include = ["pollers.d/*.toml"]
[state]
connection = "STORE"
[templates.shop]
handler = "handlers:ship"
schedule = "*/30 * * * * *"
[templates.shop.source]
url = "postgresql+psycopg://user:password@127.0.0.1/shop"
cursor_column = "updated_at"
pk_columns = ["id"]
filter = "status <> 'draft'"
"""
WAYS = {
    "load_app": "app = load_app('poller.toml')\nmade = [app.pollers[name] for name in app.pollers]",
    "create_app": "app = create_app('poller.toml')\nmade = app.get_functions()",
}
_PROGRAM = """
import json, time
from poller import load_app
from poller.functions import create_app

def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024

began, used = time.perf_counter(), time.process_time()
{way}
print(json.dumps([len(made), time.perf_counter() - began, time.process_time() - used, resident()]))
"""


def folder(path: Path, pollers: int) -> Path:
    """A project with so many pollers."""
    (path / "pollers.d").mkdir(parents=True)
    (path / "poller.toml").write_text(_FILE)
    (path / "handlers.py").write_text("def ship(batch):\n    pass\n")
    tables = [f'[pollers.t-{n}]\ntemplate = "shop"\nsource.table = "t_{n}"\n' for n in range(pollers)]
    (path / "pollers.d" / "all.toml").write_text("".join(tables))
    return path


def measure(home: Path, *, pollers: int, rounds: int) -> list[dict[str, Any]]:
    """Fresh processes in turn, round after round; the first round, which writes byte code, does not count. Memory is
    the most that was resident."""
    folders = {count: folder(home / str(count), count) for count in (1, pollers)}
    environ = {
        **os.environ, "STORE": "UseDevelopmentStorage=true", "PYTHONPYCACHEPREFIX": str(home / "bytecode"),
    }  # fmt: skip
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    found: dict[tuple[str, int], list[list[float]]] = {(way, count): [] for way in WAYS for count in folders}
    for number in range(rounds + 1):
        for (way, count), taken in found.items():
            program = _PROGRAM.format(way=WAYS[way])
            done = subprocess.run(
                [sys.executable, "-c", program], cwd=folders[count], env=environ, capture_output=True, check=True
            )
            made, *figures = json.loads(done.stdout)
            if made != count:
                raise RuntimeError(f"{way} made {made} of {count} pollers: {done.stderr.decode()}")
            if number:
                taken.append(figures)
    lines = []
    for way in WAYS:
        one, all_ = (zip(*found[way, count], strict=True) for count in folders)
        more = [[many - least for least, many in zip(*pair, strict=True)] for pair in zip(one, all_, strict=True)]
        seconds, cpu_s, mb = ([round(value, 3) for value in column] for column in more)
        lines.append({"way": way, "pollers": pollers, "seconds": seconds, "cpu_s": cpu_s, "mb": mb})
    return lines
