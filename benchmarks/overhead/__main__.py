"""`python -m benchmarks.overhead start|index|tick`: JSON lines."""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import uuid
from importlib.metadata import version
from pathlib import Path

from benchmarks.overhead import start
from benchmarks.overhead.tick import measure, pair
from tests.support.azurite import Azurite
from tests.support.postgres import PostgresServer

_LIBRARIES = ("azure-functions", "azure-storage-blob", "pydantic", "requests", "sqlalchemy", "typer")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("what", choices=["start", "index", "tick"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ticks", type=int, default=50, help="tick: of each round")
    asked = parser.parse_args()
    print(json.dumps({"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}}))
    with Azurite.start() as azurite, tempfile.TemporaryDirectory() as home:
        if asked.what == "tick":
            with PostgresServer.start() as server:
                both = pair(server.new_database(), azurite.connection_string, f"p{uuid.uuid4().hex[:8]}")
                print(json.dumps(measure(both, rounds=asked.rounds, ticks=asked.ticks)), flush=True)
                both.close()
            return
        environ = {"STORE": azurite.connection_string, "PYTHONPYCACHEPREFIX": str(Path(home) / "bytecode")}
        what = (start.commands if asked.what == "start" else start.indexing)(Path(home))
        for line in start.measure(what, rounds=asked.rounds, environ=environ):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
