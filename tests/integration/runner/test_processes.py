"""Two real processes on one poller, PostgreSQL and Azurite, handlers longer than a ttl."""

from __future__ import annotations

import json
import subprocess
import sys

import sqlalchemy as sa

from tests.support.azurite import Azurite
from tests.support.services import REPOSITORY

ROWS, BATCH = 10, 5
TTL, HEARTBEAT, HANDLER = "3s", "750ms", 3.5


def test_two_processes_are_never_in_the_handler_at_once(azurite: Azurite, container: str, postgres_db: str) -> None:
    engine = sa.create_engine(postgres_db)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz NOT NULL)"))
        connection.execute(
            sa.text(f"INSERT INTO orders SELECT n, '2026-04-01T00:00:00Z' FROM generate_series(1, {ROWS}) AS n")
        )
        connection.execute(
            sa.text(
                "CREATE TABLE ledger (place serial, at timestamptz DEFAULT clock_timestamp(), worker text, "
                "token bigint, what text, ids int[])"
            )
        )
    workers = {
        name: subprocess.Popen(
            [sys.executable, "-m", "tests.integration.runner.worker"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    }
    try:
        for name, worker in workers.items():
            assert worker.stdin is not None
            settings = {
                "worker": name,
                "database": postgres_db,
                "connection": azurite.connection_string,
                "container": container,
                "batch_size": BATCH,
                "lease_ttl": TTL,
                "heartbeat_interval": HEARTBEAT,
                "handler_seconds": HANDLER,
            }
            worker.stdin.write(json.dumps(settings) + "\n")
            worker.stdin.flush()
        for worker in workers.values():
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers.values():
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        outcomes = {name: worker.communicate(timeout=60)[0].split() for name, worker in workers.items()}
        assert [worker.returncode for worker in workers.values()] == [0, 0]
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()

    with engine.connect() as connection:
        ledger = connection.execute(sa.text("SELECT what, worker, token, ids FROM ledger ORDER BY at, place")).all()
    engine.dispose()
    assert [entry.what for entry in ledger] == ["begin", "end"] * (ROWS // BATCH), "one leaves before the next enters"
    for begun, ended in zip(ledger[::2], ledger[1::2], strict=True):
        assert (begun.worker, begun.token, begun.ids) == (ended.worker, ended.token, ended.ids)
    assert [number for begun in ledger[::2] for number in begun.ids] == list(range(1, ROWS + 1)), "in order, and once"
    assert [begun.token for begun in ledger[::2]] == [1, 2]
    for name, seen in outcomes.items():
        assert set(seen) <= {"delivered", "held_elsewhere", "idle"}, (name, seen)
    assert sum(seen.count("delivered") for seen in outcomes.values()) == ROWS // BATCH
    assert any("held_elsewhere" in seen for seen in outcomes.values()), "they did compete"
