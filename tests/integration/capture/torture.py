"""Writers that write one table in every way for some seconds, and the proof of its change table after that."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.model.change_chain import Chain
from tests.integration.capture.captured import Captured

KEYS = 60
"""Few, so that writers meet."""
Step = Callable[[random.Random], str]


def key(chance: random.Random) -> int:
    return chance.randrange(KEYS)


def text(chance: random.Random) -> str:
    return f"'{chance.randrange(10**9)}'"


STEPS: Sequence[Step] = (
    lambda chance: f"INSERT INTO orders (id, note) VALUES ({key(chance)}, {text(chance)})",
    lambda chance: f"UPDATE orders SET note = {text(chance)} WHERE id = {key(chance)}",
    lambda chance: f"UPDATE orders SET note = {text(chance)} WHERE id = {key(chance)}",
    lambda chance: f"UPDATE orders SET note = {text(chance)} WHERE id % 7 = {chance.randrange(7)}",
    lambda chance: f"UPDATE orders SET id = {key(chance)} WHERE id = {key(chance)}",
    lambda chance: f"DELETE FROM orders WHERE id = {key(chance)}",
)
"""What every database does; each may fail, by a key that is there or by a deadlock."""
UPSERT = "INSERT INTO orders (id, note) VALUES ({}, {}) ON CONFLICT (id) DO UPDATE SET note = excluded.note"
POSTGRESQL: Sequence[Step] = (
    lambda chance: UPSERT.format(key(chance), text(chance)),
    lambda chance: UPSERT.format(key(chance), text(chance)),
    lambda chance: "TRUNCATE orders" if chance.random() < 0.02 else f"DELETE FROM orders WHERE id = {key(chance)}",
)
MARIADB: Sequence[Step] = (
    lambda chance: (
        f"INSERT INTO orders VALUES ({key(chance)}, {text(chance)}) ON DUPLICATE KEY UPDATE note = VALUES(note)"
    ),
    lambda chance: f"REPLACE INTO orders VALUES ({key(chance)}, {text(chance)})",
)
SQLITE: Sequence[Step] = (
    lambda chance: UPSERT.format(key(chance), text(chance)),
    lambda chance: f"REPLACE INTO orders VALUES ({key(chance)}, {text(chance)})",
    lambda chance: "DELETE FROM orders" if chance.random() < 0.02 else f"DELETE FROM orders WHERE id = {key(chance)}",
)
BEGINS = ("BEGIN", "BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SET lock_timeout = '1s'; BEGIN")
"""How a transaction begins in PostgreSQL."""


def tortured(
    captured: Captured, seconds: float, steps: Sequence[Step], *, writers: int, begins: Sequence[str] = ("BEGIN",)
) -> Chain:
    """Write for some seconds, with savepoints and rollbacks; the proof. `begins`: how a transaction begins."""
    captured.install()
    with written(captured, seconds, steps, writers=writers, begins=begins):
        pass
    return captured.chain()


@contextlib.contextmanager
def written(
    captured: Captured, seconds: float, steps: Sequence[Step], *, writers: int, begins: Sequence[str] = ("BEGIN",)
) -> Iterator[Callable[[], bool]]:
    """While it is open, writers write for some seconds, which it waits for; gives whether they still do."""
    ends = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_write, args=(captured, random.Random(seed), ends, [*STEPS, *steps], begins))
        for seed in range(writers)
    ]
    for thread in threads:
        thread.start()
    try:
        yield lambda: any(thread.is_alive() for thread in threads)
    finally:
        for thread in threads:
            thread.join()


def _write(
    captured: Captured, chance: random.Random, ends: float, steps: Sequence[Step], begins: Sequence[str]
) -> None:
    engine = sa.create_engine(captured.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        while time.monotonic() < ends:
            _transaction(connection, chance, steps, begins)
    engine.dispose()


def _transaction(connection: Connection, chance: random.Random, steps: Sequence[Step], begins: Sequence[str]) -> None:
    def run(statement: str) -> None:
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})

    try:
        for part in chance.choice(begins).split("; "):
            run(part)
        for _ in range(chance.randrange(1, 5)):
            run("SAVEPOINT s")
            try:
                run(chance.choice(steps)(chance))
            except DBAPIError:
                run("ROLLBACK TO SAVEPOINT s")
                continue
            if chance.random() < 0.15:
                run("ROLLBACK TO SAVEPOINT s")
            if chance.random() < 0.05:
                time.sleep(0.005)
        run("ROLLBACK" if chance.random() < 0.15 else "COMMIT")
    except DBAPIError:
        with contextlib.suppress(DBAPIError):
            run("ROLLBACK")
