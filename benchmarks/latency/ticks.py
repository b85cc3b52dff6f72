"""Our tick beside the least that it could be, over the same table and by the same libraries."""

from __future__ import annotations

import json
from typing import Any

import requests
import sqlalchemy as sa
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobClient

from benchmarks.full_page.table import by_hand
from benchmarks.throughput.table import fill
from poller import Poller
from poller.sources import SqlSource
from poller.stores import BlobStore

ROWS = 1_000
"""In the table at the beginning, all delivered."""
BATCH = 100
TABLE = "orders"


class Ours:
    """`Poller.tick` over a table whose rows are all delivered."""

    def __init__(self, url: str, storage: str, container: str, name: str, **options: Any) -> None:
        self._engine = sa.create_engine(url)
        self.statements: list[tuple[str, Any]] = []
        sa.event.listen(self._engine, "before_cursor_execute", self._note)
        source = SqlSource(self._engine, table=TABLE, cursor_column="updated_at", pk_columns=["id"])
        store = BlobStore.from_connection_string(storage, container)
        self.poller = Poller(
            name, source=source, store=store, app_name="latency", batch_size=BATCH, observers=(), **options
        )  # fmt: skip
        while self.tick():
            pass

    def tick(self) -> int:
        """How many rows it delivered."""
        result = self.poller.tick(lambda _: None)
        if result.outcome not in ("idle", "delivered"):
            raise RuntimeError(f"the tick was {result.outcome}: {result.error}")
        return result.rows

    def said(self) -> list[tuple[str, Any]]:
        """The statements of one tick more, with their parameters."""
        self.statements.clear()
        self.tick()
        return list(self.statements)

    def close(self) -> None:
        self.poller.close()
        self._engine.dispose()

    def _note(self, *about: Any) -> None:
        self.statements.append((about[2], about[3]))


class Raw:
    """One conditional GET and one keyset query; where there are rows, one conditional PUT."""

    def __init__(self, url: str, storage: str, container: str, name: str) -> None:
        self._engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        self.connection = self._engine.connect()
        session = requests.Session()
        session.trust_env = False
        self._client = BlobClient.from_connection_string(
            storage, container, f"raw/{name}.json", session=session, retry_total=0
        )
        self._read = by_hand(self.connection, url, TABLE, payload=False, limit=BATCH + 1)
        self._tag = self._client.upload_blob(b"{}", overwrite=True)["etag"]
        last = self.connection.exec_driver_sql(f"select updated_at, id from {TABLE} order by 1 desc, 2 desc limit 1")
        self._after: tuple[Any, Any] = tuple(last.one())

    def get(self) -> None:
        try:
            self._client.download_blob(etag=self._tag, match_condition=MatchConditions.IfModified)
        except HttpResponseError as error:
            if error.status_code != 304:
                raise

    def tick(self) -> int:
        self.get()
        rows = self._read(self._after)
        if rows:
            self._after = rows[-1]["updated_at"], rows[-1]["id"]
            body = json.dumps({"cursor": rows[-1]["updated_at"].isoformat(), "id": rows[-1]["id"]}).encode()
            self._tag = self._client.upload_blob(
                body, overwrite=True, etag=self._tag, match_condition=MatchConditions.IfNotModified
            )["etag"]
        return len(rows)

    def close(self) -> None:
        self.connection.close()
        self._client.close()
        self._engine.dispose()


class Floor:
    """What our idle tick says to both servers, said by the libraries alone: the GET, and the same statements."""

    def __init__(self, raw: Raw, statements: list[tuple[str, Any]]) -> None:
        self._raw, self._statements = raw, statements
        self._cursor = raw.connection.connection.cursor()

    def tick(self) -> int:
        self._raw.get()
        for text, values in self._statements:
            self._cursor.execute(text, values or None)
            if self._cursor.description:
                self._cursor.fetchall()
        return 0


def prepare(url: str) -> None:
    """The table, with rows that are old enough for every bound."""
    fill(url, TABLE, ROWS)


def add(connection: sa.Connection, first: int) -> None:
    """A batch of rows, committed."""
    connection.exec_driver_sql(
        f"insert into {TABLE} select n, timestamptz '2020-01-01 00:00:00.25Z' + n / 2 * interval '1 s',"
        f" 'customer ' || n, 'shipped', n * 0.25, true from generate_series({first}, {first + BATCH - 1}) n"
    )
