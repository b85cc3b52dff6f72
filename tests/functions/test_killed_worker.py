"""A Functions worker is killed at will; another instance goes on, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.functions.folder import REPOSITORY, Folder, add_rows
from tests.support.azurite import Azurite

HANDLERS = """
import os, time
from pathlib import Path

HERE = Path(__file__).parent

def on_orders(batch):
    (HERE / "inside").write_text(str(os.getpid()))
    while (HERE / "hang").exists():
        time.sleep(0.05)
    with (HERE / "seen").open("a") as file:
        file.write("".join(f"{row['id']}:{batch.attempt} " for row in batch))
"""


def _fire(folder: Folder) -> subprocess.Popen[str]:
    """One invocation, in a worker process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.functions.host", folder.path, "orders"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


def _appears(file: Path, worker: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not file.exists():
        assert worker.poll() is None, worker.communicate()[0]
        assert time.monotonic() < end, "the handler was not reached"
        time.sleep(0.02)


@pytest.mark.soak
def test_batch_of_a_killed_worker_reaches_another_instance(
    folder: Folder, azurite: Azurite, container: str, postgres_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AzureWebJobsStorage", azurite.connection_string)
    add_rows(postgres_db, 3)
    folder.state = f'store = "blob"\ncontainer = "{container}"'
    folder.defaults = 'lease_ttl = "3s"\nheartbeat_interval = "750ms"'
    folder.poller(url=postgres_db.replace("postgresql://", "postgresql+psycopg://"))
    folder.write()
    (folder.path / "handlers.py").write_text(HANDLERS)
    (folder.path / "hang").touch()
    seen = folder.path / "seen"

    killed = _fire(folder)
    _appears(folder.path / "inside", killed)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    (folder.path / "hang").unlink()

    printed = ""
    end = time.monotonic() + 60
    while not seen.exists():
        next_instance = _fire(folder)
        printed += next_instance.communicate(timeout=60)[0]
        assert next_instance.returncode == 0, printed
        assert time.monotonic() < end, printed

    assert seen.read_text() == "1:2 2:2 3:2 "
    assert "lease_taken_over" in printed
