"""`python -m benchmarks.bound_cost delay|sample|crowd`: JSON lines."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import asdict

import sqlalchemy as sa

from benchmarks.bound_cost.crowd import crowd
from benchmarks.bound_cost.delay import POLL, WAYS, Delays, Way, delays
from benchmarks.bound_cost.probe import LOADS
from benchmarks.bound_cost.sample import sample_ms
from benchmarks.torture import tables
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer

Server = PostgresServer | MariaDbServer


def delay(servers: dict[str, Server], loads: list[str], seconds: float, rounds: int, every: float) -> None:
    """Every way under every load, way after way, `rounds` times over: what is noisy, is so for all."""
    for database, server in servers.items():
        for load in loads:
            found: defaultdict[Way, Delays] = defaultdict(Delays)
            for number in range(rounds):
                for way in WAYS[database]:
                    url = server.new_database()
                    found[way].add(delays(url, way, load, seconds, number, every))
                    server.drop_database(url)
            for way, times in found.items():
                report = {
                    "database": database,
                    "load": load,
                    "polled_every": every,
                    **asdict(way),
                    **times.summary(),
                }
                print(json.dumps(report), flush=True)


BESIDE = ((0, 0), (150, 0), (100, 50))
"""Sessions of others: idle ones, and such as are in a transaction."""


def sample(servers: dict[str, Server], many: int, beside: tuple[tuple[int, int], ...] = BESIDE) -> None:
    """With no session but ours, with 150 idle ones, and with 150 of which 50 are in a transaction."""
    for database, server in servers.items():
        url = server.new_database()
        tables.make(url, "timestamp+pk")
        with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
            connection.execute(sa.text("insert into torture (id) values (1)"))
        for idle, in_transaction in beside:
            bounds = ("none", "exact", "observed")
            for bound in bounds if database == "postgresql" else bounds[:2]:
                count = many if database == "postgresql" else many // 4
                found = sample_ms(url, bound, count, idle=idle, in_transaction=in_transaction)
                report = {"database": database, "sessions": idle + in_transaction, "in_transaction": in_transaction}
                print(json.dumps({**report, "bound": bound, **found}), flush=True)
        server.drop_database(url)


def crowds(servers: dict[str, Server], seconds: float, every: float) -> None:
    """Twenty pollers in one process, then ten processes with one each."""
    for database, server in servers.items():
        for pollers, processes in ((20, False), (10, True)):
            url = server.new_database()
            found = crowd(url, pollers=pollers, processes=processes, seconds=seconds, every=every)
            print(json.dumps({"database": database, **found}), flush=True)
            server.drop_database(url)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bound_cost", description=__doc__)
    parser.add_argument("what", choices=["delay", "sample", "crowd"])
    parser.add_argument("--seconds", type=float, default=5.0, help="delay, crowd: of each run")
    parser.add_argument("--rounds", type=int, default=2, help="delay: how often each run is made")
    parser.add_argument("--loads", default=",".join(LOADS), help="delay: of idle, busy, late")
    parser.add_argument("--poll", type=float, default=POLL, help="delay: seconds between two polls")
    parser.add_argument("--databases", default="postgresql,mysql", help="of postgresql, mysql (which is MariaDB)")
    parser.add_argument("--every", type=float, default=1.0, help="crowd: seconds between two polls of one poller")
    parser.add_argument("--samples", type=int, default=400, help="sample: how many (MariaDB: a quarter of it)")
    asked = parser.parse_args()
    with PostgresServer.start() as postgres, MariaDbServer.start() as mariadb:
        all_servers: dict[str, Server] = {"postgresql": postgres, "mysql": mariadb}
        servers = {name: all_servers[name] for name in asked.databases.split(",")}
        if asked.what == "delay":
            delay(servers, asked.loads.split(","), asked.seconds, asked.rounds, asked.poll)
        elif asked.what == "crowd":
            crowds(servers, asked.seconds, asked.every)
        else:
            sample(servers, asked.samples)


if __name__ == "__main__":
    main()
