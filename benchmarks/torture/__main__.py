"""`python -m benchmarks.torture --database postgresql --bound exact --seconds 60`: one JSON line per run."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.torture.bench import SETTLES, torture
from benchmarks.torture.plan import ALL, DEFEAT_OBSERVED, Plan
from tests.support.mariadb import MariaDbServer
from tests.support.mysql import MySqlServer
from tests.support.postgres import PostgresServer
from tests.support.server import DatabaseServer

SERVERS: dict[str, Callable[[], DatabaseServer]] = {
    "postgresql": PostgresServer.start,
    "mariadb": MariaDbServer.start,
    "mysql": MySqlServer.start,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture", description=__doc__)
    parser.add_argument("--database", choices=[*SERVERS, "sqlite"], default="postgresql")
    parser.add_argument("--bound", default="auto")
    parser.add_argument("--kind", default="timestamp+pk", choices=["timestamp+pk", "xid8+pk", "integer+pk"])
    parser.add_argument("--control", default="", choices=["", "select-list", "one-statement", "trx-started"])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--longest", type=float, default=2.0, help="how long a transaction stays open at most")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--poll", type=float, default=0.2)
    parser.add_argument("--settle", default="", help="0s, 50ms; default: as it is by itself")
    parser.add_argument("--burners", type=int, default=2, help="processes that saturate the processor")
    parser.add_argument("--rest", type=float, default=0.0, help="between two transactions of a writer")
    parser.add_argument("--beside", type=int, default=0, help="other pollers of this process that share its samples")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--features", default="", help=f"comma-separated, of {', '.join(ALL)}; default: all that apply")
    asked = parser.parse_args()
    features = tuple(asked.features.split(",")) if asked.features else ALL
    if asked.bound == "observed" and not asked.features:
        features = tuple(name for name in ALL if name not in DEFEAT_OBSERVED)
    if asked.database == "sqlite":
        features = tuple(name for name in features if name not in {"locks", "prepared", *DEFEAT_OBSERVED})
    plan = Plan(
        url="", bound=asked.bound, kind=asked.kind, writers=asked.writers, seconds=asked.seconds,
        longest=asked.longest, features=features, poll=asked.poll, burners=asked.burners, settle=asked.settle,
        control=asked.control, rest=asked.rest, beside=asked.beside, seed=asked.seed,
    )  # fmt: skip
    if asked.database == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            show(replace(plan, url=f"sqlite:///{Path(folder) / 'torture.db'}"))
        return
    with SERVERS[asked.database]() as server:
        url = server.new_database()
        show(replace(plan, url=url))


def show(plan: Plan) -> None:
    controlled = plan.control or plan.bound == "none"
    result = torture(plan, settles=3.0 if controlled else SETTLES)
    report = {name: value for name, value in asdict(plan).items() if name != "url"}
    print(json.dumps({"database": plan.url.partition(":")[0], **report, **result.as_json()}), flush=True)


if __name__ == "__main__":
    main()
