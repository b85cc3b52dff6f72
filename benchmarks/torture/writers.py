"""The writers: threads of a process of their own, `python -m benchmarks.torture.writers PLAN`.

Prints how much was written, how often each hard thing was done, and which thread ended with an error: a hard thing
that was asked for and never succeeded has proved nothing.

A transaction that the database refuses (a deadlock, a lock that took too long) is rolled back; only what the table
holds in the end is the truth.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

from benchmarks.torture.plan import Plan
from benchmarks.torture.tables import family

Run = Callable[[str], Any]


class Writer:
    """One writer: `loop` until the time is over. A subclass per database says how things are written there."""

    errors: tuple[type[Exception], ...] = ()

    def __init__(self, plan: Plan, number: int, until: float, shared: list[int]) -> None:
        self.plan = plan
        self.until = until
        self.random = random.Random(plan.seed * 1000 + number)
        self.ids = map(str, itertools.count((number + 1) * 100_000_000))
        self.shared = shared
        self.number = number
        self.written = 0
        self.refused = 0
        self.longest = 0.0
        self.had: set[str] = set()
        self.done: Counter[str] = Counter()
        self.connection: Any = None

    # --- how this database does it

    def connect(self) -> Any:
        raise NotImplementedError

    def execute(self, sql: str) -> None:
        raise NotImplementedError

    def sleep_in_sql(self, seconds: float) -> str:
        raise NotImplementedError

    def stamp(self, how: str) -> str:
        raise NotImplementedError

    def before_others(self) -> AbstractContextManager[object]:
        """Within it no other writer of this process asks for the database's lock anew, where it has only one."""
        return contextlib.nullcontext()

    # --- what is done

    def run(self, sql: str) -> None:
        self.execute(sql)
        self.done["updates"] += sql.startswith("update")
        self.done["long-select"] += sql.startswith("insert") and " from " in sql

    def has(self, feature: str, share: float, part: str = "") -> bool:
        """By chance; but each feature, or part of one, where it first comes in question."""
        if feature not in self.plan.features:
            return False
        first = (part or feature) not in self.had
        self.had.add(part or feature)
        return self.random.random() < share or first

    def loop(self) -> None:
        self.connection = self.connect()
        while time.monotonic() < self.until or not (self.written or self.refused):
            try:
                if self.has("connections", 0.2):
                    self.connection.close()
                    self.connection = self.connect()
                    self.done["connections"] += 1
                with self.timed():
                    self.once()
                self.written += 1
                time.sleep(self.random.uniform(0, self.plan.rest))
            except self.errors:
                self.refused += 1
                with contextlib.suppress(Exception):
                    self.connection.close()
                self.connection = self.connect()
        self.connection.close()

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Note how long a transaction was open at most, its waiting for others included."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.longest = max(self.longest, time.monotonic() - began)

    def once(self) -> None:
        if self.random.random() < 0.15:
            self.run(self.change())
            self.done["autocommit"] += 1
            return
        self.run(self.begin())
        for _ in range(self.random.randint(1, 3)):
            self.run(self.change())
            if self.random.random() < 0.3:
                time.sleep(self.open_for() / 3)
        if self.has("savepoints", 0.2):
            self.run("savepoint s")
            self.run(self.insert())
            self.run("rollback to savepoint s")
            self.done["savepoints"] += 1
        time.sleep(self.open_for())
        end = "rollback" if self.has("savepoints", 0.1, "rollbacks") else "commit"
        self.run(end)
        self.done["rollbacks"] += end == "rollback"

    def open_for(self) -> float:
        return self.random.uniform(0, self.plan.longest)

    def begin(self) -> str:
        return "begin"

    def change(self) -> str:
        return self.update() if self.shared and self.random.random() < 0.3 and self.updates else self.insert()

    @property
    def updates(self) -> bool:
        return self.plan.kind != "integer+pk"

    def insert(self) -> str:
        how = self.random.choice(["now", "clock", "default", "trigger"])
        columns, values = ["how"], [f"'{how}'"]
        if self.plan.kind != "integer+pk":
            identity = next(self.ids)
            columns, values = ["id", *columns], [identity, *values]
            if self.random.random() < 0.2:
                self.shared.append(int(identity))
        if how in {"now", "clock"}:
            columns, values = [*columns, "updated_at"], [*values, self.stamp(how)]
        slow = self.has("long-select", 0.15)
        tail = f" from {self.sleep_in_sql(self.open_for())}" if slow else ""
        return f"insert into torture ({', '.join(columns)}) select {', '.join(values)}{tail}"

    def update(self) -> str:
        how = self.random.choice(["now", "clock", "trigger"])
        hot = self.random.random() < 0.2
        identity = self.random.choice(self.shared[:5] if hot else self.shared[-200:])
        stamp = "" if how == "trigger" else f", updated_at = {self.stamp(how)}"
        return f"update torture set n = n + 1, how = '{how}'{stamp} where id = {identity}"


class Postgres(Writer):
    def connect(self) -> Any:
        import psycopg

        self.errors = (psycopg.Error,)
        url = self.plan.url.replace("postgresql+psycopg://", "postgresql://")
        return psycopg.connect(url, autocommit=True, prepare_threshold=None)

    def execute(self, sql: str) -> None:
        self.connection.execute(sql)

    def stamp(self, how: str) -> str:
        return {"now": "now()", "clock": "clock_timestamp()"}[how]

    def sleep_in_sql(self, seconds: float) -> str:
        return f"pg_sleep({seconds:.3f})"

    def once(self) -> None:
        if self.has("messages", 0.15):
            pause = f"select pg_sleep({self.open_for() / 2:.3f})"
            parts = ["begin", self.insert(), "commit", pause, "begin", self.insert(), pause, self.change(), "commit"]
            if self.random.random() < 0.5:
                self.run("; ".join(parts))
            else:
                with self.connection.pipeline():
                    for part in parts:
                        self.run(part)
            self.done["messages"] += 1
            return
        if self.has("chain", 0.15):
            self.run("begin")
            self.run(self.change())
            pause = f"select pg_sleep({self.open_for() / 2:.3f})"
            self.run(f"commit and chain; {pause}; {self.insert()}; commit and chain; {pause}; {self.insert()}")
            time.sleep(self.open_for() / 2)
            self.run("commit and chain")
            self.run(self.insert())
            time.sleep(self.open_for() / 2)
            self.run("commit")
            self.done["chain"] += 1
            return
        super().once()

    def lock(self, pause: float) -> None:
        self.run("begin")
        self.run("lock table torture in access exclusive mode")
        time.sleep(pause)
        self.run("commit")

    def prepare(self, pause: float) -> None:
        self.run("begin")
        self.run(self.insert())
        self.run(f"prepare transaction 'torture-{self.number}'")
        self.connection.close()
        time.sleep(pause)
        self.connection = self.connect()
        self.run(f"commit prepared 'torture-{self.number}'")


class Mysql(Writer):
    def connect(self) -> Any:
        import pymysql
        import sqlalchemy as sa

        self.errors = (pymysql.MySQLError,)
        url = sa.make_url(self.plan.url)
        return pymysql.connect(
            host=url.host, port=url.port or 3306, user=url.username, password=url.password or "",
            database=url.database, autocommit=True,
        )  # fmt: skip

    def execute(self, sql: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)

    def begin(self) -> str:
        return "start transaction"

    def stamp(self, how: str) -> str:
        return {"now": "now(6)", "clock": "sysdate(6)"}[how]

    def sleep_in_sql(self, seconds: float) -> str:
        return f"(select sleep({seconds:.3f})) as slept"

    def lock(self, pause: float) -> None:
        self.run("lock tables torture write")
        time.sleep(pause)
        self.run("unlock tables")

    def prepare(self, pause: float) -> None:
        name = f"'torture-{self.number}'"
        for sql in (f"xa start {name}", self.insert(), f"xa end {name}", f"xa prepare {name}"):
            self.run(sql)
        self.connection.close()
        time.sleep(pause)
        self.connection = self.connect()
        self.run(f"xa commit {name}")


class Sqlite(Writer):
    """SQLite has one lock, and whoever waits for it looks every 100 ms: beside writers that never rest a single
    transaction may find it taken each time, until its busy timeout is over."""

    TURN = threading.RLock()

    def before_others(self) -> AbstractContextManager[object]:
        return self.TURN

    def connect(self) -> Any:
        import sqlite3

        import sqlalchemy as sa

        self.errors = (sqlite3.Error,)
        return sqlite3.connect(str(sa.make_url(self.plan.url).database), timeout=30, isolation_level=None)

    def execute(self, sql: str) -> None:
        if not self.connection.in_transaction:
            with self.TURN:
                pass
        self.connection.execute(sql)

    def begin(self) -> str:
        return self.random.choice(["begin", "begin immediate"])

    def stamp(self, how: str) -> str:  # noqa: ARG002 - one clock
        return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

    def insert(self) -> str:
        return super().insert().replace("'trigger'", "'default'")

    def update(self) -> str:
        sql = super().update()
        return sql if "updated_at" in sql else sql.replace(" where", f", updated_at = {self.stamp('now')} where")

    def sleep_in_sql(self, seconds: float) -> str:  # noqa: ARG002 - there is no sleep
        return "(select 1)"


WRITERS: dict[str, type[Writer]] = {"postgresql": Postgres, "mysql": Mysql, "sqlite": Sqlite}


def specials(plan: Plan, make: Callable[[], Any]) -> Iterator[tuple[str, Callable[[], None]]]:
    """What happens once, or now and then, beside the writers, by the feature's name."""

    def locks() -> None:
        writer = make()
        writer.connection = writer.connect()
        for number in itertools.count(1):
            time.sleep(max(1.0, plan.seconds / 12))
            if time.monotonic() > writer.until:
                break
            with contextlib.suppress(*writer.errors), writer.timed():
                writer.lock(0.15 if number % 4 else 1.25 * plan.longest)
                writer.done["locks"] += 1

    def prepared() -> None:
        writer = make()
        writer.connection = writer.connect()
        time.sleep(plan.seconds * 0.2)
        with writer.timed():
            writer.prepare(min(5.0, plan.seconds * 0.2))
        writer.done["prepared"] += 1

    def idle() -> None:
        writer = make()
        time.sleep(plan.seconds * 0.5)
        while not writer.done["idle"]:
            writer.connection = writer.connect()
            try:
                with writer.timed():
                    with writer.before_others():
                        writer.run(writer.begin())
                        writer.run(writer.insert())
                    time.sleep(min(10.0, plan.seconds * 0.2))
                    writer.run("commit")
                writer.done["idle"] += 1
            except writer.errors:
                writer.connection.close()
                writer.refused += 1
                if time.monotonic() > writer.until:
                    raise

    def burst() -> None:
        writer = make()
        writer.connection = writer.connect()
        while time.monotonic() < writer.until:
            with contextlib.suppress(*writer.errors):
                for _ in range(200):
                    writer.run(writer.insert().partition(" from ")[0])
                    writer.done["burst"] += 1
            time.sleep(0.05)

    found = {"locks": locks, "prepared": prepared, "idle": idle, "burst": burst}
    yield from ((name, found[name]) for name in plan.features if name in found)


def watched(name: str, work: Callable[[], None], died: dict[str, str]) -> Callable[[], None]:
    """The work of a thread; where it ends with an error, `died` says so under its name."""

    def run() -> None:
        try:
            work()
        except BaseException as error:
            died[name] = f"{type(error).__name__}: {error}"
            raise

    return run


def main() -> None:
    plan = Plan(**{**json.loads(sys.argv[1]), "features": tuple(json.loads(sys.argv[1])["features"])})
    until = time.monotonic() + plan.seconds
    shared: list[int] = []
    numbers = itertools.count()
    kind = WRITERS[family(plan.url)]
    everybody: list[Writer] = []

    def make() -> Writer:
        everybody.append(kind(plan, next(numbers), until, shared))
        return everybody[-1]

    writers = [make() for _ in range(plan.writers)]
    died: dict[str, str] = {}
    works = [*((f"writer {w.number}", w.loop) for w in writers), *specials(plan, make)]
    threads = [threading.Thread(target=watched(name, work, died)) for name, work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = {
        "transactions": sum(w.written for w in writers),
        "refused": sum(w.refused for w in writers),
        "took_longest": round(max(w.longest for w in everybody), 3),
        "died": died,
        "done": sum((w.done for w in everybody), Counter[str]()),
    }
    print(json.dumps(report))


def arguments(plan: Plan) -> list[str]:
    """The command line that runs these writers."""
    return [sys.executable, "-m", "benchmarks.torture.writers", json.dumps(asdict(plan))]


if __name__ == "__main__":
    main()
