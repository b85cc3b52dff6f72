"""Captured orders, two pollers of their change table, and what prunes it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from poller import Batch, load_app
from poller.admin import TablePrune
from tests.integration.capture.captured import Captured

CHANGES = "poller_orders_changes"
AGED = {
    "postgresql": "at - interval '{} hours'",
    "mysql": "at - INTERVAL {} HOUR",
    "sqlite": "strftime('%Y-%m-%dT%H:%M:%fZ', at, '-{} hours')",
}


class World:
    """A database with captured orders, and a folder with `poller.toml` and state.

    Args:
        names: of the pollers that read the change table.
    """

    def __init__(self, url: str, folder: Path, names: Sequence[str] = ("fast", "slow"), more: str = "") -> None:
        self.captured = Captured(url)
        self.folder = folder
        self.family = self.captured.engine.dialect.name.replace("mariadb", "mysql")
        self.captured.run("CREATE TABLE orders (id int PRIMARY KEY NOT NULL, note varchar(40))")
        self.captured.install()
        text = f'app_name = "shop"\n[state]\nstore = "sql"\nurl = "sqlite:///{folder}/state.db"\n'
        for name in names:
            text += f'[pollers.{name}]\nhandler = "handlers:handle"\non_poison = "quarantine"\n{more}\n'
            text += f'[pollers.{name}.source]\nurl = "{url}"\ntable = "{CHANGES}"\ncursor_column = "id"\n'
            text += 'cursor_kind = "integer+pk"\npk_columns = ["id"]\ncolumns = ["op"]\n'
        (folder / "poller.toml").write_text(text)
        self.app = load_app(folder / "poller.toml")

    def insert(self, count: int) -> None:
        """So many orders, each a change."""
        (first,) = self.captured.run("SELECT coalesce(max(id), 0) FROM orders")[0]
        rows = ", ".join(f"({number}, 'a')" for number in range(first + 1, first + count + 1))
        self.captured.run(f"INSERT INTO orders VALUES {rows}")

    def age(self, hours: int, through: int = 1_000_000) -> None:
        """Make the changes up to this number older."""
        self.captured.run(f"UPDATE {CHANGES} SET at = {AGED[self.family].format(hours)} WHERE id <= {through}")

    def deliver(self, *names: str, rejected: Sequence[int] = ()) -> None:
        """All that the pollers can read; of the changes with these numbers each is set aside for a person."""

        def handle(batch: Batch) -> None:
            for row in batch:
                if row["id"] in rejected:
                    batch.reject(row, "no")

        for name in names:
            self.app.pollers[name].tick(handle)

    def prune(self, name: str = "fast", **options: Any) -> TablePrune:
        app = self.app
        source = app.pollers[name].source.describe()
        given: dict[str, Any] = {"age": timedelta(hours=1), **options}
        return TablePrune(name, app.config, source, store=app.store, runtime=app.runtime, environ=os.environ, **given)

    def left(self) -> list[int]:
        return [number for (number,) in self.captured.run(f"SELECT id FROM {CHANGES} ORDER BY id")]

    def pruned_through(self) -> int:
        ((found,),) = self.captured.run("SELECT pruned_through FROM poller_captures")
        return int(found)

    def close(self) -> None:
        self.app.close()
        self.captured.close()
