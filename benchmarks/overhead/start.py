"""How long a process takes, against one that does as little as can be: commands, and a function app's indexing."""

from __future__ import annotations

import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

_FILE = """app_name = "shop"
[state]
{state}
[pollers.orders]
handler = "handlers:ship"
[pollers.orders.source]
url = "{url}"
table = "orders"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
"""
_POSTGRES = "postgresql+psycopg://user:password@127.0.0.1/shop"
NOTHING = ("-c", "pass")
_LIBRARIES = f"""
import os, azure.functions, pydantic, opentelemetry.metrics, opentelemetry.trace, sqlalchemy
from azure.storage.blob import ContainerClient
azure.functions.FunctionApp()
sqlalchemy.create_engine({_POSTGRES!r})
ContainerClient.from_connection_string(os.environ["STORE"], "db-state")
"""
LIBRARIES = ("-c", _LIBRARIES)
INDEX = ("-c", "from poller.functions import create_app\nassert create_app('poller.toml').get_functions()")


_HELP = "import typer, click"
_STATUS = """
import typer, pydantic, sqlalchemy
sqlalchemy.create_engine("sqlite:///shop.db").connect().close()
"""
_HISTORY = """
import os, typer, pydantic
from azure.storage.blob import ContainerClient
from azure.core.exceptions import ResourceNotFoundError
try:
    list(ContainerClient.from_connection_string(os.environ["STORE"], "db-state").list_blob_names())
except ResourceNotFoundError:
    pass
"""


def folder(path: Path, *, state: str, url: str) -> Path:
    """A project with one poller over a table without rows."""
    path.mkdir()
    (path / "poller.toml").write_text(_FILE.format(state=state, url=url))
    (path / "handlers.py").write_text("def ship(batch):\n    pass\n")
    with closing(sqlite3.connect(path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, updated_at TEXT NOT NULL)")
    return path


def commands(home: Path) -> dict[str, tuple[Path, Sequence[str]]]:
    """Each with the folder that it runs in; `STORE` in the environment is a storage account."""
    own = folder(home / "sqlite", state='store = "sql"', url="sqlite:///shop.db")
    blob = folder(home / "blob", state='connection = "STORE"', url="sqlite:///shop.db")
    console = ("-c", "from poller_cli.main import main; main()")  # as the script that pip writes
    return {
        "nothing": (own, NOTHING),
        "--help": (own, (*console, "--help")),
        "status of one SQLite poller": (own, (*console, "status")),
        "history with a blob store": (blob, (*console, "history", "orders")),
        "libraries of --help: typer": (own, ("-c", _HELP)),
        "libraries of status: typer, pydantic, SQLAlchemy, a connection": (own, ("-c", _STATUS)),
        "libraries of history: typer, pydantic, the storage client, one LIST": (blob, ("-c", _HISTORY)),
    }


def indexing(home: Path) -> dict[str, tuple[Path, Sequence[str]]]:
    """The function app, and what it stands on: the libraries, an engine and a client."""
    path = folder(home / "app", state='connection = "STORE"', url=_POSTGRES)
    return {"libraries": (path, LIBRARIES), "function_app.py": (path, INDEX)}


def measure(
    what: Mapping[str, tuple[Path, Sequence[str]]], *, rounds: int, environ: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Fresh processes in turn, round after round; medians, and how many times the first one's. The first round, which
    writes byte code, does not count."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in what}
    variables = {**os.environ, **environ}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    for number in range(rounds + 1):
        for name, (path, arguments) in what.items():
            used, began = _children(), time.perf_counter()
            subprocess.run([sys.executable, *arguments], cwd=path, env=variables, capture_output=True, check=True)
            if number:
                spent[name].append((time.perf_counter() - began, _children() - used))
    medians = {
        name: [statistics.median(column) * 1000 for column in zip(*all_, strict=True)] for name, all_ in spent.items()
    }
    first = next(iter(medians.values()))
    base = next(iter(spent.values()))
    return [
        {
            "what": name,
            "wall_ms": round(wall, 1),
            "cpu_ms": round(cpu, 1),
            "ratio_wall": round(wall / first[0], 2),
            "ratio_cpu": round(cpu / first[1], 2),
            "rounds_cpu": [round(own[1] / least[1], 2) for own, least in zip(spent[name], base, strict=True)],
            "rounds_wall": [round(own[0] / least[0], 2) for own, least in zip(spent[name], base, strict=True)],
        }
        for name, (wall, cpu) in medians.items()
    ]


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
