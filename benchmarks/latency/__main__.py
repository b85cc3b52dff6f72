"""`python -m benchmarks.latency`: one JSON line per measurement."""

from __future__ import annotations

import argparse
import json
from typing import Any

from azure.storage.blob import ContainerClient

from benchmarks.latency.measures import idle, one_batch, said, to_handler
from benchmarks.latency.ticks import Ours, prepare
from tests.support.azurite import Azurite
from tests.support.postgres import PostgresServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ticks", type=int, default=200, help="of each round")
    parser.add_argument("--seconds", type=float, default=5.0, help="commit to handler: of each round")
    asked = parser.parse_args()

    def show(line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)

    with Azurite.start(memory=True) as azurite:
        container, storage = azurite.container_name(), azurite.connection_string
        ContainerClient.from_connection_string(storage, container).create_container()
        with PostgresServer.start() as prepared:
            url = prepared.new_database()
            prepare(url)
            ours = Ours(url, storage, container, "prepared")
            with_prepared = len(ours.said())
            ours.close()
        with PostgresServer.start({"max_prepared_transactions": "0"}) as postgres:
            url = postgres.new_database()
            prepare(url)
            how = {"rounds": asked.rounds, "ticks": asked.ticks}
            show({**idle(url, storage, container, **how), "statements_with_prepared_transactions": with_prepared})
            show(one_batch(url, storage, container, **how))
            for line in said(url, azurite, container, ticks=5):
                show(line)
            url = postgres.new_database()
            for bound, margin in (("none", ""), ("exact", "0s"), ("exact", "1s")):
                show(to_handler(url, bound, margin, seconds=asked.seconds, rounds=2))


if __name__ == "__main__":
    main()
