"""An outbox that two pollers read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from poller import App, Batch, load_app
from poller.admin import TablePrune


class Outbox:
    """A table of events, which two pollers read by its number."""

    def __init__(self, url: str, folder: Path, pk: str = "id", source: str = "") -> None:
        self.engine = sa.create_engine(url)
        self.run("CREATE TABLE events (id int NOT NULL, name varchar(20) NOT NULL, PRIMARY KEY (id, name))")
        text = f'app_name = "shop"\n[state]\nstore = "sql"\nurl = "sqlite:///{folder}/state.db"\n'
        for name in ("one", "two"):
            text += f'[pollers.{name}]\nhandler = "handlers:handle"\non_poison = "quarantine"\n'
            text += f'[pollers.{name}.source]\nurl = "{url}"\ntable = "events"\ncursor_column = "id"\n'
            text += f'cursor_kind = "integer+pk"\npk_columns = {pk}\nbound = "none"\n{source}\n'
        (folder / "poller.toml").write_text(text)
        self.app: App = load_app(folder / "poller.toml")

    def run(self, *statements: str) -> list[Any]:
        with self.engine.begin() as connection:
            done = [connection.execute(sa.text(statement)) for statement in statements]
            return list(done[-1].all()) if done[-1].returns_rows else []

    def write(self, *numbers: int, name: str = "a") -> None:
        self.run(*(f"INSERT INTO events VALUES ({number}, '{name}')" for number in numbers))

    def deliver(self, *names: str) -> None:
        def handle(batch: Batch) -> None:
            for row in batch:
                if row["name"] == "bad":
                    batch.reject(row, "no")

        for name in names:
            self.app.pollers[name].tick(handle)

    def prune(self, **options: Any) -> TablePrune:
        app, source = self.app, self.app.pollers["one"].source.describe()
        given = {"outbox": True, **options}
        return TablePrune("one", app.config, source, store=app.store, runtime=app.runtime, environ=os.environ, **given)

    def left(self) -> list[tuple[int, str]]:
        return [tuple(row) for row in self.run("SELECT id, name FROM events ORDER BY id, name")]

    def close(self) -> None:
        self.app.close()
        self.engine.dispose()
