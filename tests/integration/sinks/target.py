"""A target that shows every double: rows are added to a table without a key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Column, Connection, Engine, Integer, MetaData, Table, create_engine, event, insert, select
from sqlalchemy.pool import NullPool

from poller import Batch, Standing
from poller.handler.call import call
from poller.model.row_ids import id_of_key
from poller.ports import Row
from poller.sinks.sql import fenced

METADATA = MetaData()
ARRIVED = Table(
    "arrived",
    METADATA,
    Column("id", Integer),
    Column("version", Integer),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)


@contextmanager
def target(url: str, isolation: str | None = None, **options: Any) -> Iterator[Engine]:
    """The target's engine, its table made."""
    engine = engine_of(url, isolation, **options)
    METADATA.create_all(engine)
    try:
        yield engine
    finally:
        engine.dispose()


def engine_of(url: str, isolation: str | None = None, **options: Any) -> Engine:
    if isolation is not None:
        options["isolation_level"] = isolation
    if url.startswith("sqlite"):
        options.setdefault("connect_args", {"timeout": 20})
        options.setdefault("poolclass", NullPool)
    engine = create_engine(url, **options)
    if url.startswith("sqlite"):
        event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous = OFF").close())
    return engine


def rows(*ids: int, version: int = 1) -> list[Row]:
    return [{"id": one, "version": version} for one in ids]


def batch_of(ids: Sequence[int], *, token: int = 1, poller: str = "orders", version: int = 1, **standing: Any) -> Batch:
    """A batch of the poller shop/orders."""
    standing = {"app_name": "shop", "through": len(ids), **standing}
    return Batch.of_rows(
        rows(*ids, version=version), poller_name=poller, fencing_token=token, standing=Standing(**standing)
    )


def run(batch: Batch, handler: Callable[[Batch], Any]) -> None:
    """As a tick does. Raises whatever makes the batch fail."""
    error = call(handler, batch, batch._lease).error
    if error is not None:
        raise error


def apply(connection: Connection, fresh: Sequence[Row]) -> None:
    if fresh:
        connection.execute(insert(ARRIVED), list(fresh))


def handler(engine: Engine, part: str = "") -> Callable[[Batch], None]:
    """Adds each row that was not applied yet."""

    def handle(batch: Batch) -> None:
        with engine.begin() as connection, fenced(connection, batch, part=part) as fresh:
            apply(connection, fresh)

    return handle


def arrived(engine: Engine) -> Counter[tuple[int, int]]:
    """How often each version of each row was applied."""
    with engine.connect() as connection:
        return Counter((one.id, one.version) for one in connection.execute(select(ARRIVED)))


def ids(engine: Engine) -> list[int]:
    return sorted(one for one, _ in arrived(engine).elements())


def ledger(engine: Engine) -> list[tuple[int, int]]:
    """Each entry as (through, number of keys)."""
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT through, row_keys FROM poller_applied ORDER BY through, id")
        return [(through, len(keys) // 16) for through, keys in found]


def id_of(batch: Batch, position: int) -> str:
    """The id under which the state document lists a row that waits."""
    return id_of_key(batch.keys()[position])
