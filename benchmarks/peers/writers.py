"""The writers of this bench: those of the torture bench, doing one plain thing. Begin, insert three rows stamped by
``now()``, stay open for a random time, commit."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time

from benchmarks.torture.plan import Plan
from benchmarks.torture.tables import family
from benchmarks.torture.writers import Mysql, Postgres, Writer

ROWS = 3


class _Plain(Writer):
    def once(self) -> None:
        rows = ", ".join(f"({next(self.ids)}, {self.stamp('now')})" for _ in range(ROWS))
        self.run(self.begin())
        self.run(f"insert into torture (id, updated_at) values {rows}")
        time.sleep(self.open_for())
        self.run("commit")


class PlainPostgres(_Plain, Postgres):
    """``now()`` is the transaction's start."""


class PlainMysql(_Plain, Mysql):
    """``now(6)`` is the statement's start."""


def main() -> None:
    asked = json.loads(sys.argv[1])
    plan = Plan(**{**asked, "features": ()})
    until = time.monotonic() + plan.seconds
    kind = PlainPostgres if family(plan.url) == "postgresql" else PlainMysql
    numbers = itertools.count()
    writers = [kind(plan, next(numbers), until, []) for _ in range(plan.writers)]
    threads = [threading.Thread(target=writer.loop) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"transactions": sum(w.written for w in writers), "refused": sum(w.refused for w in writers)}))


if __name__ == "__main__":
    main()
