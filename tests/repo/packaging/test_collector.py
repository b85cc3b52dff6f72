"""How garbage is collected is for whoever owns the process: `poller run` and a Functions worker, never the library."""

from __future__ import annotations

import functools
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

SAY = "import gc, json; print(json.dumps([gc.get_threshold(), gc.get_freeze_count() > 0]))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "poller.toml").write_text(
        'app_name = "shop"\n[state]\nstore = "sql"\n[pollers.orders]\nhandler = "handlers:ship"\n'
        '[pollers.orders.source]\nurl = "sqlite:///shop.db"\n'
        'table = "orders"\ncursor_column = "updated_at"\ncursor_time_zone = "UTC"\npk_columns = ["id"]\n'
    )
    (tmp_path / "handlers.py").write_text(f"def ship(batch):\n    {SAY}\n")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, updated_at TEXT NOT NULL)")
        shop.execute("INSERT INTO orders VALUES (1, '2026-01-01 00:00:00')")
        shop.commit()
    return tmp_path


def said(folder: Path, *arguments: str, **environ: str) -> tuple[list[int], bool]:
    """The thresholds, and whether anything is frozen, in a fresh process that runs this."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    line: Any = next(one for one in (done.stdout + done.stderr).splitlines() if one.startswith("[["))
    threshold, frozen = json.loads(line)
    return threshold, frozen


def code(*lines: str) -> tuple[str, str]:
    return "-c", "\n".join(lines)


@functools.cache
def usual() -> list[int]:
    """The thresholds of a Python for which nothing is set."""
    return said(Path(), *code(SAY))[0]


def test_a_worker_collects_rarely_and_not_its_modules(folder: Path) -> None:
    threshold, frozen = said(folder, "-m", "poller_cli.main", "run", "--once")
    assert threshold[0] > usual()[0]
    assert frozen


@pytest.mark.parametrize(
    "use",
    [
        "import poller, poller.worker, poller.sources, poller.stores, poller.functions",
        "from poller import load_app\nwith load_app('poller.toml') as app: app.poller('orders').tick()",
        "from poller import load_app, worker\napp = load_app('poller.toml')\nworker.run(app.pollers.values(), 'once')",
        "from poller_cli.main import execute\nexecute(['run', '--once'])",
        "from poller.functions import create_app\ncreate_app('poller.toml')",
    ],
)
def test_a_program_that_uses_the_library_keeps_its_own(folder: Path, use: str) -> None:
    assert said(folder, *code(use, SAY)) == (usual(), False)


def test_a_functions_worker_collects_rarely(folder: Path) -> None:
    index = code("from poller.functions import create_app", "create_app('poller.toml')", SAY)
    threshold, frozen = said(folder, *index, FUNCTIONS_WORKER_RUNTIME="python")
    assert threshold[0] > usual()[0]
    assert frozen


def test_a_collector_that_is_switched_off_stays_so(folder: Path) -> None:
    index = code("import gc", "gc.set_threshold(0)", "from poller.functions import create_app", "create_app()", SAY)
    assert said(folder, *index, FUNCTIONS_WORKER_RUNTIME="python")[0][0] == 0
