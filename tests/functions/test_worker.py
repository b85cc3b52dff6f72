"""The worker that Azure runs indexes and invokes the app, in a process of its own, from a folder as it is deployed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.functions.folder import REPOSITORY, Folder, add_rows
from tests.support.dispatching import work_message

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("azure_functions_runtime") is None,
    reason="azure-functions-runtime, the worker itself, needs Python 3.13",
)


def _work(folder: Folder, *functions: str) -> dict[str, Any]:
    folder.write()
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("worker.py"), folder.path, *functions],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        cwd="/",
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")])),
        },
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_worker_indexes_the_app_and_runs_its_timers(folder: Folder) -> None:
    add_rows(folder.database, 5)
    folder.poller()
    (folder.path / "handlers.py").write_text(
        "def on_orders(batch):\n    with open('seen', 'a') as file:\n        file.write(f'{len(batch)} ')\n"
    )

    result = _work(folder, "orders", "orders")

    (binding,) = result["indexed"]["orders"]
    assert (binding["type"], binding["schedule"]) == ("timerTrigger", "*/10 * * * * *")
    assert [(i["ok"], i["returned"], i["error"]) for i in result["invocations"]] == [(True, None, None)] * 2
    assert (folder.path / "seen").read_text() == "5 "


def test_worker_reports_the_handlers_own_exception(folder: Folder) -> None:
    add_rows(folder.database, 5)
    folder.poller()
    (folder.path / "handlers.py").write_text("def on_orders(batch):\n    raise LookupError('no such customer')\n")

    (invocation,) = _work(folder, "orders")["invocations"]

    assert not invocation["ok"]
    assert invocation["error"] == "LookupError('no such customer')"
    assert "in on_orders" in invocation["trace"]
    assert "poller orders: the handler failed. What was not done comes again." in invocation["trace"]


def test_worker_reports_a_wrong_poller_in_one_line(folder: Folder) -> None:
    folder.poller(options="batch_sise = 5")

    (invocation,) = _work(folder, "orders")["invocations"]

    file = folder.path / "poller.toml"
    expected = f'{file}: pollers.orders.batch_sise: there is no such key; did you mean "batch_size"?'
    assert not invocation["ok"]
    assert expected in invocation["error"]


def test_worker_reports_a_file_that_cannot_be_read_in_one_line(folder: Folder) -> None:
    folder.defaults = "=="

    failure = _work(folder)["failure"]

    expected = f"Message: ConfigError: {folder.path / 'poller.toml'}: is not valid TOML"
    assert failure.partition(" | ")[0].startswith(expected)


def test_worker_delivers_what_a_work_message_names(queued: Folder) -> None:
    (queued.path / "handlers.py").write_text(
        "def on_orders(batch):\n    with open('seen', 'a') as file:\n        file.write(f'{len(batch)} ')\n"
    )
    message = work_message("orders", datetime.now(UTC))

    result = _work(queued, "dispatch", *[f"work={b64decode(message).decode()}"] * 2, "work={}")

    assert [(i["ok"], i["error"]) for i in result["invocations"]] == [(True, None)] * 4
    assert (queued.path / "seen").read_text() == "5 ", "a message that comes again finds nothing left"
