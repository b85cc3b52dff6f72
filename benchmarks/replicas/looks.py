"""What a look at a poller without rows costs: `poller.worker.run` with many pollers on SQLite, their state in Azurite
behind a proxy that counts bytes."""

from __future__ import annotations

import resource
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from benchmarks.latency.wire import CountingProxy
from poller import Batch, Poller
from poller.observability import PollerEvent, TickFinished
from poller.sources import SqlSource
from poller.stores import BlobStore
from poller.worker import run
from tests.support.azurite import Azurite


def measure(azurite: Azurite, home: Path, *, pollers: int, interval: int, seconds: float) -> dict[str, Any]:
    """After each poller was looked at twice, for so many seconds. `cpu_ms`: of this process, for one look, its share of
    the loop included."""
    with closing(sqlite3.connect(home / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    counts: dict[str, int] = {"looks": 0, "statements": 0}
    ready, stop = threading.Event(), threading.Event()

    def hear(event: PollerEvent) -> None:
        if isinstance(event, TickFinished):
            counts["looks"] += 1
            if counts["looks"] >= 2 * pollers:
                ready.set()

    def executed(*_: Any) -> None:
        counts["statements"] += 1

    with CountingProxy(azurite.port) as proxy:
        connection = azurite.connection_string.replace(f":{azurite.port}/", f":{proxy.port}/")
        store = BlobStore.from_connection_string(connection, azurite.container_name())
        made = [
            Poller(
                f"p{number}",
                app_name="shop",
                source=SqlSource(
                    f"sqlite:///{home / 'shop.db'}",
                    table="orders",
                    cursor_column="updated_at",
                    cursor_time_zone="UTC",
                    pk_columns=["id"],
                ),
                store=store,
                observers=[hear],
                schedule=f"*/{interval} * * * * *",
            )
            for number in range(pollers)
        ]
        sa.event.listen(Engine, "before_cursor_execute", executed)
        loop = threading.Thread(target=lambda: run(made, "forever", stop, handler=_nothing), daemon=True)
        loop.start()
        if not ready.wait(600):
            raise TimeoutError("the pollers were not looked at twice within 10 minutes")
        before, used, _ = dict(counts), _cpu(), proxy.take()
        began = time.monotonic()
        time.sleep(seconds)
        took, spent, (sent, received) = time.monotonic() - began, _cpu() - used, proxy.take()
        looks = counts["looks"] - before["looks"]
        threads = threading.active_count()
        stop.set()
        loop.join()
        sa.event.remove(Engine, "before_cursor_execute", executed)
        for poller in made:
            poller.close()
    each = max(1, looks)
    return {
        "pollers": pollers, "interval_s": interval, "seconds": round(took, 1), "looks": looks, "threads": threads,
        "statements": round((counts["statements"] - before["statements"]) / each, 2),
        "bytes_sent": round(sent / each), "bytes_received": round(received / each),
        "cpu_ms": round(spent * 1000 / each, 2), "cpu_s_per_minute": round(spent * 60 / took, 1),
    }  # fmt: skip


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _nothing(_: Batch) -> None: ...
