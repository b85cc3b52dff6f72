"""The measurements: each returns one JSON line."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import chain
from typing import Any

import sqlalchemy as sa

from benchmarks.bound_cost.delay import Delays, Way, delays
from benchmarks.latency.ticks import BATCH, ROWS, Floor, Ours, Raw, add
from benchmarks.latency.wire import CountingProxy
from tests.support.azurite import Azurite


def percentile(found: list[float], share: float) -> float:
    """The value below which this share of them lies."""
    ordered = sorted(found)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _turns(
    kind: str, ways: dict[str, Callable[[], int]], *, rounds: int, ticks: int, rows: int, before: Callable[[], None]
) -> dict[str, Any]:
    """All ways in turn, tick after tick; of each round the p50 of each way, and the p99 of all its ticks."""
    for _ in range(5):
        before()
        for call in ways.values():
            call()
    wall: dict[str, list[list[float]]] = {name: [] for name in ways}
    cpu: dict[str, list[list[float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for spent in (wall, cpu):
            for found in spent.values():
                found.append([])
        for _ in range(ticks):
            before()
            for name, call in ways.items():
                began, used = time.perf_counter(), time.process_time()
                delivered = call()
                wall[name][-1].append(1000 * (time.perf_counter() - began))
                cpu[name][-1].append(1000 * (time.process_time() - used))
                if delivered != rows:
                    raise RuntimeError(f"{name}: {delivered} rows instead of {rows}")
    return {
        "bench": "latency",
        "kind": kind,
        "ticks": rounds * ticks,
        "p50_ms": {name: [round(statistics.median(one), 3) for one in found] for name, found in wall.items()},
        "p99_ms": {name: round(percentile(list(chain.from_iterable(found)), 0.99), 2) for name, found in wall.items()},
        "cpu_ms": {name: [round(statistics.median(one), 3) for one in found] for name, found in cpu.items()},
    }


def idle(url: str, storage: str, container: str, *, rounds: int, ticks: int) -> dict[str, Any]:
    """Ticks that find nothing."""
    ours, raw = Ours(url, storage, container, "idle"), Raw(url, storage, container, "idle")
    try:
        statements = ours.said()
        floor = Floor(raw, statements)
        ways = {"raw": raw.tick, "ours": ours.tick, "floor": floor.tick}
        found = _turns("idle", ways, rounds=rounds, ticks=ticks, rows=0, before=lambda: None)
        return {**found, "statements": len(statements)}
    finally:
        ours.close()
        raw.close()


def one_batch(url: str, storage: str, container: str, *, rounds: int, ticks: int) -> dict[str, Any]:
    """Ticks that find one batch, which was committed before."""
    ours, raw = Ours(url, storage, container, "batch"), Raw(url, storage, container, "batch")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    following = ROWS + 1
    with engine.connect() as connection:

        def before() -> None:
            nonlocal following
            add(connection, following)
            following += BATCH

        try:
            ways = {"raw": raw.tick, "ours": ours.tick}
            return _turns("one batch", ways, rounds=rounds, ticks=ticks, rows=BATCH, before=before)
        finally:
            ours.close()
            raw.close()


def said(url: str, azurite: Azurite, container: str, *, ticks: int) -> list[dict[str, Any]]:
    """Requests, statements and bytes of a tick that finds nothing, and of one that finds a batch."""
    address = sa.make_url(url)
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    found = []
    with CountingProxy(address.port or 5432) as database, CountingProxy(azurite.port) as storage:
        through = address.set(port=database.port).render_as_string(hide_password=False)
        endpoint = azurite.blob_endpoint.replace(str(azurite.port), str(storage.port))
        ours = Ours(through, azurite.connection_string_via(endpoint), container, "said")
        with engine.connect() as connection:
            following = connection.exec_driver_sql("select max(id) + 1 from orders").scalar_one()
            for kind in ("idle", "one batch"):
                requests, statements, bytes_ = [], [], []
                for _ in range(ticks):
                    if kind == "one batch":
                        add(connection, following)
                        following += BATCH
                    mark = azurite.mark()
                    database.take()
                    storage.take()
                    statements.append(len(ours.said()))
                    bytes_.append((*database.take(), *storage.take()))
                    requests.append([one.method for one in azurite.requests(mark)])
                names = ("database_sent", "database_received", "storage_sent", "storage_received")
                medians = [
                    statistics_of[len(statistics_of) // 2] for statistics_of in map(sorted, zip(*bytes_, strict=True))
                ]
                found.append(
                    {
                        "bench": "said",
                        "kind": kind,
                        "rows": BATCH if kind == "one batch" else 0,
                        "requests": requests[-1],
                        "statements": statements[-1],
                        **dict(zip(names, medians, strict=True)),
                    }
                )
        ours.close()
    return found


def to_handler(url: str, bound: str, margin: str, *, seconds: float, rounds: int) -> dict[str, Any]:
    """From the return of a commit to the handler's call, polled every 10 ms, under short transactions of others."""
    found = {load: Delays() for load in ("idle", "busy")}
    for number in range(rounds):
        for load, all_ in found.items():
            all_.add(delays(url, Way(bound, margin), load, seconds=seconds, seed=number))
            _drop(url)
    return {
        "bench": "to handler",
        "bound": bound,
        "margin": margin,
        "commits": {load: len(one.ms) for load, one in found.items()},
        "missing": sum(one.missing for one in found.values()),
        "p50_ms": {load: round(statistics.median(one.ms), 1) for load, one in found.items()},
        "p99_ms": {load: round(percentile(one.ms, 0.99), 1) for load, one in found.items()},
    }


def _drop(url: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in ("drop table if exists torture", "drop function if exists stamp cascade"):
            connection.exec_driver_sql(statement)
