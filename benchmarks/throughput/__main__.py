"""`python -m benchmarks.throughput`: one JSON line per system, table and batch size."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from azure.storage.blob import ContainerClient

from benchmarks.peers.__main__ import peers_environment
from benchmarks.throughput.plan import JSON, PLAIN, SYSTEMS, Part, lanes, parts
from benchmarks.throughput.rounds import Program, measure, python_of
from benchmarks.throughput.table import fill
from tests.support.azurite import Azurite
from tests.support.postgres import PostgresServer

Show = Callable[[dict[str, Any]], None]


def compare(asked: dict[str, Any], found: Sequence[Part], *, rounds: int, peers: str, show: Show) -> None:
    """Each part in turn; a system's process serves all parts that it takes part in. Parts of the same table and batch
    size are of the same round, where each has one system."""
    names = list(dict.fromkeys(name for part in found for name in part.systems))
    with ExitStack() as stack:
        programs: dict[str, Program] = {}
        for name in names:
            system = SYSTEMS[name]
            if missing := system.missing():
                show({"bench": "throughput", "system": name, "missing": missing})
                continue
            programs[name] = stack.enter_context(Program(system, python_of(system, peers), asked))
        for part in found:
            here = [programs[name] for name in part.systems if name in programs]
            for line in measure(here, part.turn, rounds):
                show(line)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=int, default=1, help="turns are so many times smaller")
    parser.add_argument("--peers-python", help="a Python that has benchmarks/requirements.txt; default: one of our own")
    parser.add_argument("--batch", type=int, default=0, help="only this batch size")
    parser.add_argument("--only", choices=["", "plain", "json", "lanes"], default="")
    asked = parser.parse_args()
    tables = {"": (PLAIN, JSON), "plain": (PLAIN,), "json": (JSON,), "lanes": ()}[asked.only]
    wanted = [part for part in parts(asked.scale) if part.turn.table in tables and asked.batch in (0, part.turn.batch)]
    peers = asked.peers_python or peers_environment()
    with Azurite.start(memory=True) as azurite, PostgresServer.start({"max_prepared_transactions": "0"}) as postgres:
        url, container = postgres.new_database(), azurite.container_name()
        ContainerClient.from_connection_string(azurite.connection_string, container).create_container()
        where = {"url": url, "storage": azurite.connection_string, "container": container}
        waiting = lanes(asked.scale) if asked.only in ("", "lanes") else []
        for table in (PLAIN, JSON):
            rows = [part.turn.rows for part in (*wanted, *waiting) if part.turn.table == table]
            if rows:
                fill(url, table, (asked.rounds + 1) * max(rows) + 1, payload=table == JSON)
        for some in (wanted, waiting):
            compare(
                where, some, rounds=asked.rounds, peers=peers,
                show=lambda line: print(json.dumps(line), flush=True),
            )  # fmt: skip


if __name__ == "__main__":
    main()
