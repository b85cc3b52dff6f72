"""`python -m benchmarks.peers --seconds 60 [--peers-python PATH]`: one JSON line per run, one run after the other."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.peers.bench import OURS, PEERS, Run, Setup, compare
from tests.support.azurite import Azurite
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer
from tests.support.services import TOOLS


def peers_environment() -> str:
    """A Python with the peers, made once beside the other tools."""
    folder = TOOLS / "peers"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
        wanted = Path(__file__).parent.parent / "requirements.txt"
        try:
            subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", wanted], check=True)
        except subprocess.CalledProcessError:
            shutil.rmtree(folder)  # half of it would be taken for all of it the next time
            raise
    return str(python)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--peers-python", help="a Python that has benchmarks/requirements.txt; default: one of our own")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--longest", type=float, default=2.0, help="how long a transaction stays open at most")
    parser.add_argument("--poll", type=float, default=0.2)
    parser.add_argument("--quiet", type=float, default=12.0, help="polled on until nothing new came for so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a peer's name; default: all, one after the other")
    parser.add_argument("--repeat", type=int, default=1, help="how often, each with another seed")
    asked = parser.parse_args()
    pythons: dict[str, str] = {}
    if asked.only != "poller":
        peers = asked.peers_python or peers_environment()
        pythons = {"azure-functions-db": peers, "dlt": peers}
    with Azurite.start(memory=True) as azurite, PostgresServer.start() as postgres, MariaDbServer.start() as mariadb:

        def measure(database: str, setup: Setup, seed: int) -> None:
            server = postgres if database == "postgresql" else mariadb
            url = server.new_database()
            run = Run(
                url, azurite.connection_string, azurite.container_name(), pythons, seconds=asked.seconds,
                longest=asked.longest, poll=asked.poll, writers=asked.writers, quiet=asked.quiet, seed=seed,
            )  # fmt: skip
            report = {"database": database, "seed": seed, "seconds": asked.seconds, **compare(run, setup)}
            print(json.dumps(report), flush=True)
            server.drop_database(url)

        for seed in range(asked.seed, asked.seed + asked.repeat):
            for database, setup in [
                *(("postgresql", setup) for setup in (*PEERS, *OURS["postgresql"])),
                *(("mysql", setup) for setup in OURS["mysql"]),
            ]:
                if asked.only in ("", setup.peer):
                    measure(database, setup, seed)


if __name__ == "__main__":
    main()
