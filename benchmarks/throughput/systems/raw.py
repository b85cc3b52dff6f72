"""What one would write by hand: a keyset page to dicts by the driver, then one conditional PUT, in turn.

`"state": false` leaves out the PUT. `"ahead": true` is the floor of ours: pages of at least 1,000 rows, the next one
read meanwhile by another thread, and one PUT for each batch before the next one is handed over. `"collect_less": true`
sets Python's collector as `poller run` does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import chain
from typing import Any

import requests
import sqlalchemy as sa
from azure.core import MatchConditions
from azure.storage.blob import BlobClient

from benchmarks.full_page.table import Read, by_hand
from benchmarks.throughput.systems import turns
from poller.runtime import collect_less

plan = turns.asked()
if plan.get("collect_less"):
    collect_less()
engine = sa.create_engine(plan["url"], poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
connection = engine.connect()
session = requests.Session()
session.trust_env = False
places: dict[tuple[str, int], Place] = {}


class Place:
    """Where one walk through one table stands, and its document."""

    def __init__(self, table: str, batch: int, page: int) -> None:
        self.read: Read = by_hand(connection, plan["url"], table, payload=table.endswith("_json"), limit=page)
        self.after: tuple[Any, Any] | None = None
        self.rest: list[dict[str, Any]] = []
        if plan.get("state", True):
            self.blob = BlobClient.from_connection_string(
                plan["storage"], plan["container"], f"{plan['name']}-{table}-{batch}.json",
                session=session, retry_total=0,
            )  # fmt: skip
            self.tag = self.blob.upload_blob(b"{}")["etag"]

    def next(self) -> list[dict[str, Any]]:
        rows = self.read(self.after)
        self.after = rows[-1]["updated_at"], rows[-1]["id"]
        return rows

    def put(self, row: dict[str, Any]) -> None:
        if plan.get("state", True):
            body = json.dumps({"cursor": row["updated_at"].isoformat(), "id": row["id"]}).encode()
            self.tag = self.blob.upload_blob(
                body, overwrite=True, etag=self.tag, match_condition=MatchConditions.IfNotModified
            )["etag"]


def read_on(place: Place, rows: int) -> Iterator[list[dict[str, Any]]]:
    """Pages, until so many rows were read."""
    if not plan.get("ahead"):
        while rows > 0:
            yield (page := place.next())
            rows -= len(page)
        return
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(place.next)
        while rows > 0:
            page = coming.result()
            rows -= len(page)
            if rows > 0:
                coming = reader.submit(place.next)
            yield page


def turn(table: str, batch: int, rows: int, tally: turns.Tally) -> None:
    place = places.get((table, batch))
    if place is None:
        page = max(1_000, 2 * batch) if plan.get("ahead") else batch
        place = places[table, batch] = Place(table, batch, page)
    for read in chain([place.rest], read_on(place, rows - len(place.rest))):
        for at in range(0, min(rows, len(read)), batch):
            some = read[at : at + batch]
            tally.count(some[0]["id"], some[-1]["id"], len(some))
            place.put(some[-1])
        place.rest = read[rows:]
        rows -= len(read) - len(place.rest)


turns.serve(turn, version=f"psycopg {version('psycopg')}, azure-storage-blob {version('azure-storage-blob')}")
