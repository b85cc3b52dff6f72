"""`poller prune` that is killed while it deletes, and one beside writers."""

from __future__ import annotations

import contextlib
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
from tests.support.services import wait_until

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


@contextlib.contextmanager
def held(world: World, number: int) -> Iterator[None]:
    """Whoever deletes this change waits: for a lock, or in SQLite, which has no locks of rows, in a trigger."""
    if world.family == "sqlite":
        busy = "SELECT count(*) FROM orders a, orders b, orders c WHERE a.note <> b.note"
        world.captured.run(f"CREATE TRIGGER held BEFORE DELETE ON {CHANGES} WHEN OLD.id = {number} BEGIN {busy}; END")
        yield
        world.captured.run("DROP TRIGGER held")
        return
    with world.captured.engine.connect() as connection, connection.begin():
        connection.execute(sa.text(f"SELECT id FROM {CHANGES} WHERE id = {number} FOR UPDATE"))
        yield


@pytest.mark.soak
def test_a_kill_leaves_whole_chunks_and_their_mark(full: World) -> None:
    """Whatever is gone is marked, and whatever is marked is gone; the next one goes on."""
    left = full.left()
    with held(full, left[-1] - 1200):
        process = pruning(full)
        wait_until(lambda: full.pruned_through() > 0 or process.poll() is not None, "a chunk")
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
