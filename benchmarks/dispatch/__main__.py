"""`python -m benchmarks.dispatch`: JSON lines."""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile

from benchmarks.dispatch import rounds
from tests.support import mariadb, postgres


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dispatch", description=__doc__)
    parser.add_argument("--pollers", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "mariadb", "all"], default="all")
    asked = parser.parse_args()
    with contextlib.ExitStack() as open_:
        urls = []
        if asked.database in ("sqlite", "all"):
            home = open_.enter_context(tempfile.TemporaryDirectory())
            urls.append(f"sqlite:///{home}/shop.db")
        if asked.database in ("postgresql", "all"):
            urls.append(open_.enter_context(postgres.obtain()).new_database())
        if asked.database in ("mariadb", "all"):
            urls.append(open_.enter_context(mariadb.obtain()).new_database())
        for line in rounds.measure(urls, pollers=asked.pollers, rounds=asked.rounds):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
