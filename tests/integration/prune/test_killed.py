"""`poller prune` that is killed while it deletes, and one beside writers."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.prune.world import CHANGES, World

ROWS = {"postgresql": 12_000, "mysql": 12_000, "sqlite": 2_000}


@pytest.fixture(params=["postgres_db", "mariadb_db", "sqlite_url"])
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """With changes that may be pruned."""
    made = World(request.getfixturevalue(request.param), tmp_path, ["fast"], more="batch_size = 10000")
    for _ in range(0, ROWS[made.family], 2000):
        made.insert(2000)
    made.deliver("fast")
    made.age(2)
    yield made
    made.close()


def pruning(world: World) -> subprocess.Popen[str]:
    arguments = ["prune", "fast", "--older-than", "1h", "--yes"]
    command = [sys.executable, "-m", "poller_cli.main", *arguments]
    return subprocess.Popen(command, cwd=world.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.soak
def test_a_kill_leaves_whole_chunks_and_their_mark(full: World) -> None:
    """Whatever is gone is marked, and whatever is marked is gone; the next one goes on."""
    left = full.left()
    process = pruning(full)
    until = time.monotonic() + 60
    while full.pruned_through() == 0 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert 0 < full.pruned_through() < left[-1]
    assert full.left() == left[full.pruned_through() :]
    done = pruning(full)
    out, err = done.communicate()
    assert done.returncode == 0, out + err
    spared = 1000 if full.family == "mysql" else 0
    assert len(full.left()) == spared


@pytest.mark.soak
def test_writers_go_on_while_changes_are_deleted(full: World) -> None:
    """No writer waits for more than the time of a chunk: each has a limit of a second."""
    stop, failed, took = threading.Event(), list[sa.exc.DBAPIError](), list[float]()

    def write(at: int) -> None:
        options = {"connect_args": {"timeout": 5}} if full.family == "sqlite" else {}
        engine = sa.create_engine(full.captured.url, isolation_level="AUTOCOMMIT", **options)
        try:
            with engine.connect() as connection:
                if full.family != "sqlite":
                    limit = "lock_timeout = '1s'" if full.family == "postgresql" else "innodb_lock_wait_timeout = 1"
                    connection.execute(sa.text(f"SET SESSION {limit}"))
                while not stop.is_set():
                    began = time.monotonic()
                    connection.execute(sa.text(f"UPDATE orders SET note = 'w' WHERE id = {at}"))
                    took.append(time.monotonic() - began)
        except sa.exc.DBAPIError as error:
            failed.append(error)
        engine.dispose()

    writers = [threading.Thread(target=write, args=(at,)) for at in range(1, 5)]
    for one in writers:
        one.start()
    done = full.prune().run()
    stop.set()
    for one in writers:
        one.join()
    assert failed == []
    assert done.rows >= ROWS[full.family] - 1000
    took.sort()
    print(full.family, len(took), f"p50 {took[len(took) // 2] * 1e3:.1f} ms, longest {took[-1] * 1e3:.1f} ms", CHANGES)
