"""What one sample of a bound costs while others have sessions open: `SqlSource.bound()`, timed."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from benchmarks.torture import tables
from poller.sources import SqlSource
from tests.support.bounds import reading_as

APART = {"postgresql": 0.005, "mysql": 0.12}
"""Seconds between two samples: on MariaDB a younger one is reused."""


@contextlib.contextmanager
def sessions(url: str, idle: int, in_transaction: int) -> Iterator[None]:
    """Sessions that others hold open: some idle, some idle in a transaction that has written."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    held = [engine.connect() for _ in range(idle + in_transaction)]
    try:
        for number, connection in enumerate(held):
            if number < in_transaction:
                connection.execute(sa.text(f"insert into torture (id) values ({1_000 + number})"))
            else:
                connection.execute(sa.text("select 1"))
                connection.rollback()
        yield
    finally:
        for connection in held:
            connection.close()


def sample_ms(url: str, kind: str, many: int, *, idle: int = 0, in_transaction: int = 0) -> dict[str, Any]:
    """Median and p90 of `many` samples; beside them a bare `select 1` by the same road. The first sample is older than
    the sessions: what was open before anybody looked is another matter."""
    reads, bound = reading_as(kind, url)
    source = SqlSource(reads, table="torture", cursor_column="updated_at", pk_columns=["id"], bound=bound)
    try:
        source.page(None, 1)
        with sessions(url, idle, in_transaction):
            time.sleep(0.2)
            bare, took = _timed(source, many, APART[tables.family(url)])
            known = source.bound()
    finally:
        source.close()
    took.sort()
    return {
        "samples": many,
        "least_ms": round(took[0], 3),
        "median_ms": round(statistics.median(took), 3),
        "p90_ms": round(took[len(took) * 9 // 10], 3),
        "select_1_median_ms": round(statistics.median(bare), 3),
        "kind": known.kind,
        "known": known.kind == "none" or known.value is not None,
    }


def _timed(source: SqlSource, many: int, apart: float) -> tuple[list[float], list[float]]:
    database = source._session.database
    bare, took = [], []
    for _ in range(many):
        time.sleep(apart)
        connection = database.connection()  # the one that the sample is taken on: it is given back afterwards
        began = time.perf_counter()
        connection.execute(sa.text("select 1")).all()
        bare.append(1000 * (time.perf_counter() - began))
        began = time.perf_counter()
        source.bound()
        took.append(1000 * (time.perf_counter() - began))
    return bare, took
