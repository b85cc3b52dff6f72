"""An application on SQLite whose store's clock a test moves on, and what its pollers say of their health."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from poller import App, Batch, load_app
from poller.admin import Health, PollerHealth
from poller.ports import Found, StateStore
from poller.stores import MemoryStore
from tests.support.quarantine import Clock

KEPT = "health/shop.json"
LOOK = 15.0


def table(name: str, *, poller: str = "", source: str = "", url: str = "sqlite:///shop.db") -> str:
    """A poller of the configuration file."""
    return f"""
[pollers.{name}]
{poller}
[pollers.{name}.source]
url = "{url}"
table = "{name}"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
{source}
"""


class Shop:
    """A folder with a table `orders`, and a store that lives as long as this does."""

    def __init__(
        self, folder: Path, *pollers: str, store: StateStore | None = None, clock: Clock | None = None
    ) -> None:
        self.folder = folder
        self.clock = clock or Clock()
        self.store = store or MemoryStore(self.clock)
        self.handled: list[Any] = []
        self.write(*pollers or (table("orders"),))
        with closing(sqlite3.connect(folder / "shop.db")) as db:
            db.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, updated_at TEXT NOT NULL)")
        self.app = self.another()

    def write(self, *pollers: str) -> None:
        text = 'app_name = "shop"\n[state]\nstore = "memory"\n' + "".join(pollers)
        (self.folder / "poller.toml").write_text(text)

    def another(self, clock: Clock | None = None) -> App:
        """The application as another process has it."""
        app = load_app(self.folder / "poller.toml", {}, observers=[], runtime=clock or self.clock)
        with patch("poller.app.open_store", return_value=self.store):
            assert app.store is self.store
        return app

    def row(self, number: int, *, age: float | None = None) -> None:
        """A row, stamped a minute ago or so, and later than the one before."""
        at = datetime.now(UTC) - timedelta(seconds=60 - number if age is None else age)
        with closing(sqlite3.connect(self.folder / "shop.db", isolation_level=None)) as db:
            db.execute("INSERT INTO orders VALUES (?, ?)", (number, f"{at:%Y-%m-%d %H:%M:%S}"))

    def tick(self, handler: Callable[[Batch], object] | None = None) -> str:
        def take(batch: Batch) -> None:
            self.handled += [row["id"] for row in batch]

        return self.app.pollers["orders"].tick(handler or take).outcome

    def ask(self, app: App | None = None) -> Health:
        """As an endpoint does."""
        return (app or self.app).health()

    def orders(self) -> PollerHealth:
        (found,) = [one for one in self.ask().pollers if one.name == "orders"]
        return found

    def wait(self, seconds: float) -> PollerHealth:
        """Time passes, and somebody asks every 15 seconds."""
        until = self.clock.passed + seconds
        while self.clock.passed + LOOK < until:
            self.clock.passed += LOOK
            self.orders()
        self.clock.passed = until
        return self.orders()

    def unhealthy_after(self, limit: float) -> float | None:
        """In how many seconds it became unhealthy; None where it did not."""
        begin = self.clock.passed
        while self.clock.passed - begin < limit:
            if not self.wait(LOOK).healthy:
                return self.clock.passed - begin
        return None

    def document(self, name: str = KEPT) -> dict[str, Any] | None:
        found = self.store.read(name)
        return json.loads(found.body) if isinstance(found, Found) else None

    def put(self, document: dict[str, Any], name: str = KEPT) -> None:
        found = self.store.read(name)
        tag = found.tag if isinstance(found, Found) else None
        self.store.write(name, json.dumps(document).encode(), if_tag=tag)
