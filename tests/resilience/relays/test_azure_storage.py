"""The flights go to a Storage Queue and to Blob Storage (Azurite) while their worker is killed every few seconds, and
each next one cuts its batches otherwise."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from azure.storage.blob import ContainerClient
from azure.storage.queue import QueueClient

from tests.resilience.relays.killed import Life, RelayUnderKills
from tests.support import flights
from tests.support.azurite import Azurite

SIZES = (100, 170, 250, 400)
"""Rows in a batch, another number in each life."""


class Recut(RelayUnderKills):
    """Its workers have batches of different sizes."""

    chance = random.Random(7)

    def _start(self) -> Life:
        self._environ["BATCH_SIZE"] = str(self.chance.choice(SIZES))
        return super()._start()


@contextlib.contextmanager
def drained(
    killed: RelayUnderKills, rows: list[flights.Row], *, lives: tuple[float, float], most_kills: int = 1000
) -> Iterator[None]:
    killed.load(rows)
    try:
        killed.drain(seed=1, lives=lives, most_kills=most_kills)
        yield
    finally:
        killed.close()


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """The key of a flight, as JSON and Parquet have it."""
    hour = row["time_hour"]
    return (
        hour if isinstance(hour, datetime) else datetime.fromisoformat(hour),
        *(row[name] for name in flights.KEY[1:]),
    )


def landed(connection: str, container: str) -> tuple[Counter[tuple[Any, ...]], int, int]:
    """How often each flight is in a file of the container; how many files, and how many of them are empty."""
    found: Counter[tuple[Any, ...]] = Counter()
    files = empty = 0
    with ContainerClient.from_connection_string(connection, container) as lake:
        for name in lake.list_blob_names(name_starts_with="flights/"):
            content = lake.download_blob(name).readall()
            rows = (
                parquet.read_table(io.BytesIO(content), columns=[*flights.KEY]).to_pylist()
                if name.endswith(".parquet")
                else [json.loads(line) for line in content.splitlines()]
            )
            found.update(key_of(row) for row in rows)
            files, empty = files + 1, empty + (not rows)
    return found, files, empty


def check_blob(
    folder: Path, source: str, azurite: Azurite, container: str, rows: list[flights.Row], *, settings: str,
    options: str = "", lives: tuple[float, float],
) -> None:  # fmt: skip
    killed = Recut(
        folder,
        source,
        handler="poller.relays:blob",
        settings=f'connection_env = "LAKE"\ncontainer = "{container}"\n{settings}',
        options=f'batch_size = "%BATCH_SIZE%"\n{options}',
        source_options='format = "arrow"' if "parquet" in settings else "",
        environ={"LAKE": azurite.connection_string},
    )
    with drained(killed, rows, lives=lives):
        found, files, empty = landed(azurite.connection_string, container)
    print(f"{killed.kills} kills, {files} files, {empty} of them empty; {len(found)} rows")
    assert found == Counter(flights.key_of(row) for row in rows)
    assert killed.kills >= 3


def check_queue(
    folder: Path, source: str, azurite: Azurite, name: str, rows: list[flights.Row], *, settings: str,
    lives: tuple[float, float], most_kills: int = 1000,
) -> None:  # fmt: skip
    connection = azurite.connection_string_with_queues
    killed = Recut(
        folder,
        source,
        handler="poller.relays:queue",
        settings=f'connection_env = "QUEUES"\nqueue = "{name}"\n{settings}',
        options='batch_size = "%BATCH_SIZE%"',
        environ={"QUEUES": connection},
    )
    draining = drained(killed, rows, lives=lives, most_kills=most_kills)
    with draining, QueueClient.from_connection_string(connection, name) as queue:
        read = queue.receive_messages(messages_per_page=32, visibility_timeout=3600)
        messages = [json.loads(base64.b64decode(one.content)) for one in read]
    sent = [one for message in messages for one in message.get("rows", [message])]
    ids = {one["id"]: key_of(one["row"]) for one in sent}
    twice = len(sent) - len(ids)
    print(f"{killed.kills} kills, {len(messages)} messages, {len(sent)} rows, {twice} twice")
    assert Counter(ids.values()) == Counter(flights.key_of(row) for row in rows)
    assert twice <= killed.kills * max(SIZES)
    assert killed.kills >= 3


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_a_tenth_of_the_flights_lands_once_each_in_blobs(
    tmp_path: Path, postgres_db: str, azurite: Azurite, container: str
) -> None:
    rows = flights.year()[: flights.YEAR_ROWS // 10]
    check_blob(tmp_path, postgres_db, azurite, container, rows, settings='format = "parquet"', lives=(0.4, 2.0))


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_some_of_the_flights_reach_a_queue_under_kills(
    tmp_path: Path, postgres_db: str, azurite: Azurite, container: str
) -> None:
    rows = flights.year()[: flights.YEAR_ROWS // 40]
    check_queue(
        tmp_path,
        postgres_db,
        azurite,
        container,
        rows,
        settings="rows_per_message = 50",
        lives=(0.0, 0.5),
        most_kills=3,
    )


@pytest.mark.prove
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("settings", "options"),
    [
        pytest.param(
            'format = "parquet"\npath = "{poller}/dt={date}"\ndate_column = "time_hour"', "", id="parquet-by-date"
        ),
        pytest.param('compression = "none"', "max_uncommitted = 4", id="lines-grouped"),
        pytest.param('format = "parquet"', "concurrency = 3", id="parquet-lanes"),
    ],
)
def test_all_flights_land_once_each_in_blobs(
    tmp_path: Path, postgres_db: str, azurite: Azurite, container: str, settings: str, options: str
) -> None:
    rows = flights.year()
    check_blob(
        tmp_path, postgres_db, azurite, container, rows, settings=settings, options=options, lives=(0.3, 4.0)
    )  # fmt: skip


@pytest.mark.prove
@pytest.mark.timeout(3_600)
def test_all_flights_reach_a_queue_under_kills(
    tmp_path: Path, postgres_db: str, azurite: Azurite, container: str
) -> None:
    rows = flights.year()
    check_queue(tmp_path, postgres_db, azurite, container, rows, settings="rows_per_message = 50", lives=(2.0, 12.0))


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_flights_are_a_message_each_under_kills(
    tmp_path: Path, postgres_db: str, azurite: Azurite, container: str
) -> None:
    """4,000 of them: Azurite takes 250 messages a second, and hands them out again more slowly."""
    rows = flights.january()[:4_000]
    check_queue(tmp_path, postgres_db, azurite, container, rows, settings="", lives=(0.5, 4.0))
