"""An idle tick beside the least that it could be: one conditional GET and one keyset query, by the same libraries."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import requests
import sqlalchemy as sa
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobClient

from poller import Poller
from poller.sources import SqlSource
from poller.stores import BlobStore

CONTAINER = "overhead"
_TABLE = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, updated_at timestamptz NOT NULL DEFAULT clock_timestamp(), item text)",
    "CREATE INDEX orders_cursor ON orders (updated_at, id)",
    "INSERT INTO orders SELECT n, now() - interval '1 hour', 'item ' || n FROM generate_series(1, 1000) AS n",
)
_PAGE = (
    "SELECT id, updated_at, item FROM orders WHERE (updated_at, id) > (CAST(:at AS timestamptz), :id)"
    " ORDER BY updated_at, id LIMIT 101"
)


@dataclass
class Pair:
    """Our tick and the raw pair, over the same table and document."""

    ours: Callable[[], object]
    raw: Callable[[], object]
    statements: Callable[[], int]
    """Of one tick."""
    close: Callable[[], None]


def pair(url: str, storage: str, name: str) -> Pair:
    """A poller whose rows are all delivered, and the raw GET of its document with the raw query of its next page."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in _TABLE:
            connection.execute(sa.text(statement))
    store = BlobStore.from_connection_string(storage, CONTAINER)
    seen: list[str] = []

    def see(*about: Any) -> None:
        seen.append(about[2])

    sa.event.listen(sa.Engine, "before_cursor_execute", see)
    source = SqlSource(url, table="orders", cursor_column="updated_at", pk_columns=["id"])
    poller = Poller(name, source=source, store=store, app_name="overhead", observers=())

    def tick() -> str:
        result = poller.tick(lambda _: None)
        if result.outcome not in ("idle", "delivered"):
            raise RuntimeError(f"the tick was {result.outcome}: {result.error}")
        return result.outcome

    while tick() != "idle":
        pass

    session = requests.Session()
    session.trust_env = False
    client = BlobClient.from_connection_string(
        storage, CONTAINER, f"state/overhead/{name}.json", session=session, retry_total=0
    )
    tag = client.get_blob_properties().etag
    raw_connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    last = raw_connection.execute(sa.text("SELECT max(updated_at)::text AS at, max(id) AS id FROM orders"))
    cursor, page = dict(last.mappings().one()), sa.text(_PAGE)

    def raw() -> object:
        try:
            client.download_blob(etag=tag, match_condition=MatchConditions.IfModified)
        except HttpResponseError as error:
            if error.status_code != 304:
                raise
        return raw_connection.execute(page, cursor).mappings().all()

    def statements() -> int:
        seen.clear()
        tick()
        return len(seen)

    def close() -> None:
        poller.close()
        client.close()
        raw_connection.close()
        engine.dispose()
        sa.event.remove(sa.Engine, "before_cursor_execute", see)

    return Pair(tick, raw, statements, close)


def measure(pair: Pair, *, rounds: int, ticks: int) -> dict[str, Any]:
    """In turn, tick after tick, so that what is noisy is so for both: milliseconds, p50 of each round, and the median
    of the rounds' ratios. The processor's time is this process's."""
    for _ in range(5):
        pair.ours()
        pair.raw()
    ratios, wall, cpu = [], [], []
    for _ in range(rounds):
        spent: dict[str, list[tuple[float, float]]] = {"ours": [], "raw": []}
        for _ in range(ticks):
            for name, call in (("ours", pair.ours), ("raw", pair.raw)):
                began, used = time.perf_counter(), time.process_time()
                call()
                spent[name].append((time.perf_counter() - began, time.process_time() - used))
        walls = [statistics.median(one[0] for one in spent[name]) * 1000 for name in ("ours", "raw")]
        cpus = [statistics.median(one[1] for one in spent[name]) * 1000 for name in ("ours", "raw")]
        ratios.append(walls[0] / walls[1])
        wall.append(walls)
        cpu.append(cpus)
    return {
        "statements": pair.statements(),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_cpu": round(statistics.median(one[0] / one[1] for one in cpu), 2),
        "ours_ms": round(statistics.median(one[0] for one in wall), 2),
        "raw_ms": round(statistics.median(one[1] for one in wall), 2),
        "ours_cpu_ms": round(statistics.median(one[0] for one in cpu), 2),
        "raw_cpu_ms": round(statistics.median(one[1] for one in cpu), 2),
    }
