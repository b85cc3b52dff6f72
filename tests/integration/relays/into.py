"""Relays into a database, and what they left there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from sqlalchemy import Engine, text

from poller import Batch, Standing
from poller.relays import Relay

Made: TypeAlias = Callable[..., Relay[Any]]


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def with_tables(engine: Engine, tables: dict[str, str]) -> Engine:
    """With these tables, by name and columns, empty; and nothing noted as applied."""
    with engine.begin() as connection:
        for name in (*reversed(tables), "poller_fence", "poller_applied"):
            connection.execute(text(f"DROP TABLE IF EXISTS {name}"))
        for name, columns in tables.items():
            connection.execute(text(f"CREATE TABLE {name} ({columns})"))
    return engine


def batch(rows: list[dict[str, Any]], settled: int = 0, generation: int = 0, **standing: Any) -> Batch:
    """Changes have the numbers of their positions. `settled`: up to which they have been committed."""
    through = rows[-1]["_change"]
    given = Standing(app_name="shop", through=through, settled=settled, generation=generation, **standing)
    return Batch.of_rows(rows, poller_name="orders", standing=given)


def rows_of(engine: Engine, wanted: str = "SELECT id, name FROM copy ORDER BY id") -> list[Any]:
    with engine.connect() as connection:
        return [tuple(one) for one in connection.execute(text(wanted))]
