"""What Azure Database for MySQL's trigger reads of a table, and what poller reads of the same table, on MariaDB.

`python -m benchmarks.peers.mysql_trigger --rounds 20` prints one JSON line per case. The trigger is C# and is not run:
`Replay` sends statements of the same meaning as those of its source (Azure/azure-functions-mysql-extension, commit
a28494bf), in the same order and transactions, as one worker whose function never fails. Both readers look at the same
moments, and then until nothing new comes.

Cases: `late`: a transaction inserts a row and stays open, a later one commits, both readers look, the first one
commits. `second`: a row is inserted, both look, and another row is inserted within the same second. `version`: a row is
inserted, both look, and it is updated within the same second. `busy`: writers insert a row, and update it in their next
transaction, while both look every second.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from random import Random
from typing import Any

import sqlalchemy as sa

from poller import Batch, Poller
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.support.mariadb import MariaDbServer

TABLE = (
    "CREATE TABLE items (id int PRIMARY KEY, v int NOT NULL,"
    " az_func_updated_at timestamp DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)"
)
"""The column is the one that the trigger's documentation adds."""
QUIET = 2.5
"""Seconds for which a reader looks on after the last row that came."""
LIMIT, ATTEMPTS, LEASE = 100, 5, 60
"""The trigger's defaults: rows of a batch, tries of a row, seconds of a lease."""
BUSY, WRITERS, LONGEST = 10.0, 4, 0.5
"""Seconds of a busy round, its writers, and how long a transaction stays open at most."""


class Replay:
    """The trigger's state is the last time that it has passed, and a table with a row per key: how often it was tried,
    until when it is leased, and when it was done."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine  # its transactions are REPEATABLE READ, as the trigger's
        with engine.begin() as connection:
            for statement in (
                "CREATE TABLE passed (at datetime NOT NULL DEFAULT CURRENT_TIMESTAMP)",
                "INSERT INTO passed VALUES (DEFAULT)",
                "CREATE TABLE leases (id int PRIMARY KEY, tries int NOT NULL, expires datetime, done datetime)",
            ):
                connection.exec_driver_sql(statement)

    def look(self) -> list[tuple[int, int]]:
        """Look once, and return what the function got: pairs of key and version.

        Changes are taken and leased in one transaction; the function is called; they are released in another.
        """
        with self._engine.begin() as connection:
            rows = connection.exec_driver_sql(
                "SELECT i.id, i.v, i.az_func_updated_at FROM items AS i LEFT JOIN leases AS l ON l.id = i.id"
                " WHERE i.az_func_updated_at > (SELECT at FROM passed)"
                " AND (l.expires IS NULL OR l.expires < CURRENT_TIMESTAMP)"
                f" AND (l.tries IS NULL OR l.tries < {ATTEMPTS})"
                " AND (l.done IS NULL OR l.done < i.az_func_updated_at)"
                f" ORDER BY i.az_func_updated_at, i.id LIMIT {LIMIT}"
            ).all()
            if not rows:
                return []
            until = f"CURRENT_TIMESTAMP + INTERVAL {LEASE} SECOND"
            leased = ", ".join(f"({row.id}, 1, {until}, NULL)" for row in rows)
            connection.exec_driver_sql(
                f"INSERT INTO leases VALUES {leased} ON DUPLICATE KEY UPDATE tries = tries + 1, expires = {until}"
            )
        self._release([row.id for row in rows], max(row.az_func_updated_at for row in rows))
        return [(row.id, row.v) for row in rows]

    def _release(self, keys: list[int], newest: Any) -> None:
        """The time moves to the batch's newest, unless a change up to that time is still to be done."""
        with self._engine.begin() as connection:
            connection.exec_driver_sql(
                "UPDATE leases SET tries = 0, expires = NULL, done = CURRENT_TIMESTAMP"
                f" WHERE id IN ({', '.join(map(str, keys))})"
            )
            left = connection.exec_driver_sql(
                "SELECT COUNT(*) FROM items AS i LEFT JOIN leases AS l ON l.id = i.id"
                " WHERE i.az_func_updated_at > (SELECT at FROM passed) AND i.az_func_updated_at <= %s"
                " AND (l.done IS NULL OR l.done < i.az_func_updated_at)"
                f" AND (l.tries IS NULL OR l.tries BETWEEN 1 AND {ATTEMPTS})",
                (newest,),
            ).scalar_one()
            if left == 0:
                connection.exec_driver_sql("UPDATE passed SET at = %s", (newest,))
                connection.exec_driver_sql(
                    f"DELETE FROM leases WHERE expires IS NULL OR (tries = {ATTEMPTS} AND expires < CURRENT_TIMESTAMP)"
                )


class Ours:
    """poller with its defaults, and a document in memory."""

    def __init__(self, url: str) -> None:
        self._came: list[tuple[int, int]] = []
        self.waits = False
        source = SqlSource(url, table="items", cursor_column="az_func_updated_at", pk_columns=["id"])
        self.poller = Poller("bench", source=source, store=MemoryStore(), app_name="bench", observers=[])

    def look(self) -> list[tuple[int, int]]:
        self._came = []
        done = self.poller.tick(self._take)
        self.waits = bool(done.pending)
        return self._came

    def _take(self, batch: Batch) -> None:
        self._came += [(row["id"], row["v"]) for row in batch]


class Table:
    """The table's writers, and both readers of it."""

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(url, pool_size=WRITERS + 3)
        self.write(TABLE)
        self._replay, self._ours = Replay(self.engine), Ours(url)
        self.came: dict[str, dict[int, int]] = {"trigger": {}, "poller": {}}
        self.keys = 0

    def close(self) -> None:
        self._ours.poller.close()
        self.engine.dispose()

    def write(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.exec_driver_sql(statement)

    def insert(self) -> str:
        self.keys += 1
        return f"INSERT INTO items (id, v) VALUES ({self.keys}, 1)"

    def look(self, *, meanwhile: str | None = None) -> bool:
        """Both readers look once, and remember the last version of each row. Returns whether anything came, or poller
        knows of a row that waits. `meanwhile`: written when the trigger has looked, whether or not poller has."""
        with ThreadPoolExecutor() as pool:
            ours = pool.submit(self._ours.look)
            came = {"trigger": self._replay.look()}
            if meanwhile is not None:
                self.write(meanwhile)
            came["poller"] = ours.result()
        for name, rows in came.items():
            self.came[name].update(rows)
        return any(came.values()) or self._ours.waits

    def drain(self) -> None:
        until = time.monotonic() + QUIET
        while time.monotonic() < until:
            if self.look():
                until = time.monotonic() + QUIET
            time.sleep(0.2)

    def next_second(self) -> None:
        """Wait until the server's clock begins a second."""
        with self.engine.connect() as connection:
            rest = connection.exec_driver_sql("SELECT 1 - MICROSECOND(NOW(6)) / 1000000").scalar_one()
        time.sleep(float(rest) + 0.01)

    def missing(self) -> dict[str, Any]:
        """How many rows there are; of these, for each reader: how many never came, and of how many an older version
        came last."""
        with self.engine.connect() as connection:
            rows = {row.id: row.v for row in connection.exec_driver_sql("SELECT id, v FROM items")}
        found: dict[str, Any] = {"rows": len(rows)}
        for name, came in self.came.items():
            older = [key for key, v in rows.items() if came.get(key, v) != v]
            found[name] = {"lost": len(rows.keys() - came.keys()), "older": len(older)}
        return found

    def stamp(self, key: int) -> datetime:
        with self.engine.connect() as connection:
            query = f"SELECT az_func_updated_at FROM items WHERE id = {key}"
            at: datetime = connection.exec_driver_sql(query).scalar_one()
            return at


def late(table: Table) -> bool:
    with table.engine.begin() as slow:
        slow.exec_driver_sql(table.insert())
        table.next_second()
        table.write(table.insert())
        table.next_second()
        table.next_second()
        table.look()
    return True


def second(table: Table) -> bool:
    table.write(table.insert())
    table.look(meanwhile=table.insert())
    return table.stamp(table.keys - 1) == table.stamp(table.keys)


def version(table: Table) -> bool:
    table.write(table.insert())
    before = table.stamp(table.keys)
    table.look(meanwhile=f"UPDATE items SET v = 2 WHERE id = {table.keys}")
    return table.stamp(table.keys) == before


def busy(table: Table) -> bool:
    until = time.monotonic() + BUSY
    numbers = range(table.keys + 1, table.keys + 1 + WRITERS)
    table.keys = numbers[-1]
    threads = [threading.Thread(target=_writes, args=(table, number, until)) for number in numbers]
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        table.look()
        time.sleep(1)
    for thread in threads:
        thread.join()
    return True


def _writes(table: Table, number: int, until: float) -> None:
    """One writer: its rows have keys of its own, and every second transaction updates the row before."""
    random = Random(number)
    key = number * 100_000
    while time.monotonic() < until:
        key += 1
        for statement in (f"INSERT INTO items (id, v) VALUES ({key}, 1)", f"UPDATE items SET v = 2 WHERE id = {key}"):
            with table.engine.begin() as connection:
                connection.exec_driver_sql(statement)
                time.sleep(random.uniform(0, LONGEST))


CASES: dict[str, Callable[[Table], bool]] = {"late": late, "second": second, "version": version, "busy": busy}
"""Each writes; False if the moment passed in which its writes had to fall, so that it counts for nothing."""


def measure(url: str, case: str, rounds: int) -> dict[str, Any]:
    """So many rounds of one case in an empty database."""
    table = Table(url)
    counted = 0
    try:
        while counted < rounds:
            table.next_second()
            counted += CASES[case](table)
        table.drain()
        return {"case": case, "rounds": counted, **table.missing()}
    finally:
        table.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.mysql_trigger", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", default="", help="a case; default: all, one after the other")
    asked = parser.parse_args()
    with MariaDbServer.start() as server:
        for case in [asked.only] if asked.only else CASES:
            url = server.new_database()
            print(json.dumps(measure(url, case, asked.rounds)), flush=True)
            server.drop_database(url)


if __name__ == "__main__":
    main()
