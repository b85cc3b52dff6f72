"""Real pollers on a SQLite table, over whatever store a test gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from poller import Poller
from poller.observability import PollerEvent
from poller.ports import Runtime, StateStore
from poller.sources import SqlSource
from tests.resilience.faults.bench import Brisk


class Shop:
    """A table of orders with ids from 1 on, and its pollers. `events`: of all of them, in order."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.url = f"sqlite:///{folder / 'shop.sqlite3'}"
        self.events: list[PollerEvent] = []
        self.made: list[Poller] = []
        engine = sa.create_engine(self.url)
        with engine.begin() as connection:
            connection.execute(
                sa.text("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
            )
            connection.execute(
                sa.text("INSERT INTO orders VALUES (:id, :at)"),
                [{"id": n, "at": f"2026-04-01 00:{n // 60 % 60:02d}:{n % 60:02d}.000"} for n in range(1, rows + 1)]
            )  # fmt: skip
        engine.dispose()

    def poller(self, store: StateStore, *, runtime: Runtime | None = None, **options: Any) -> Poller:
        """One more worker on the same document."""
        made = Poller(
            "orders",
            app_name="shop",
            source=SqlSource(
                self.url,
                table="orders",
                cursor_column="updated_at",
                cursor_time_zone="UTC",
                pk_columns=["id"],
                bound="none",
            ),
            store=store,
            runtime=runtime or Brisk(),
            observers=[self.events.append],
            **{"lease_ttl": "3s", "heartbeat_interval": "750ms", "batch_size": 5, "retry_backoff": "1ms", **options},
        )
        self.made.append(made)
        return made

    def emitted(self, name: str) -> list[dict[str, Any]]:
        """The events of that name."""
        return [event.as_json() for event in self.events if event.name == name]

    def close(self) -> None:
        for poller in self.made:
            poller.close()
