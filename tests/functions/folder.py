"""A function app's folder as it is deployed: function_app.py, host.json, poller.toml and the handlers."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import azure.functions as func
from sqlalchemy import create_engine, text

from poller.ports import Found
from poller.stores import SqlStore
from tests.functions import host

REPOSITORY = Path(__file__).parents[2]

HANDLERS = '''
"""Keeps what it is given, and does what a test asks for."""
seen = []
hook = None

def on_orders(batch):
    if hook is not None:
        hook(batch)
    seen.extend(row["id"] for row in batch)

def on_refunds(batch):
    on_orders(batch)
'''

HEAD = """
app_name = "shop"

[state]
{state}

[defaults]
{defaults}
"""

POLLER = """
[pollers.{name}]
handler = "handlers:on_{table}"
{options}

[pollers.{name}.source]
url = "{url}"
table = "{table}"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
bound = "delay"
"""


class Folder:
    """One app on disk; every `worker()` is another instance of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = 'store = "sql"'
        self.defaults = ""
        self.pollers: list[str] = []
        for name in ("function_app.py", "host.json"):
            shutil.copy(REPOSITORY / name, path / name)
        (path / "handlers.py").write_text(HANDLERS)

    @property
    def database(self) -> str:
        return f"sqlite:///{self.path / 'shop.db'}"

    def poller(self, name: str = "orders", table: str = "orders", options: str = "", url: str = "") -> None:
        """One more poller; its handler is `handlers:on_TABLE`."""
        self.pollers.append(POLLER.format(name=name, table=table, options=options, url=url or self.database))

    def write(self) -> Path:
        """The file as configured so far."""
        head = HEAD.format(state=self.state, defaults=self.defaults)
        (self.path / "poller.toml").write_text(head + "".join(self.pollers))
        return self.path / "poller.toml"

    def app(self) -> func.FunctionApp:
        """The app, loaded anew."""
        self.write()
        return host.load(self.path)

    def worker(self) -> host.Worker:
        """Another worker that serves the app."""
        return host.Worker(self.app())

    def state_document(self, name: str = "orders") -> dict[str, Any]:
        """The poller's state document in the embedded store, read past everything."""
        with closing(SqlStore(f"sqlite:///{self.path / 'state.db'}")) as store:
            found = store.read(f"state/shop/{name}.json")
            assert isinstance(found, Found)
            document: dict[str, Any] = json.loads(found.body)
            return document

    def change_state(self, name: str = "orders", **parts: dict[str, Any]) -> None:
        """Somebody else's write to that document: parts of it are updated."""
        document = f"state/shop/{name}.json"
        with closing(SqlStore(f"sqlite:///{self.path / 'state.db'}")) as store:
            found = store.read(document)
            assert isinstance(found, Found)
            content = json.loads(found.body)
            for part, values in parts.items():
                content[part] = {**content.get(part, {}), **values}
            store.write(document, json.dumps(content).encode(), if_tag=found.tag)

    @property
    def handlers(self) -> Any:
        """The handlers as the app imported them."""
        return sys.modules["handlers"]


def add_rows(url: str, count: int, *, table: str = "orders") -> None:
    """So many more rows, from a day long ago."""
    engine = create_engine(url)
    zone = " WITH TIME ZONE" if engine.dialect.name == "postgresql" else ""
    with engine.begin() as connection:
        columns = f"id INTEGER NOT NULL PRIMARY KEY, updated_at TIMESTAMP{zone} NOT NULL"
        connection.execute(text(f"CREATE TABLE IF NOT EXISTS {table} ({columns})"))
        last = connection.execute(text(f"SELECT coalesce(max(id), 0) FROM {table}")).scalar_one()
        connection.execute(
            text(f"INSERT INTO {table} (id, updated_at) VALUES (:id, :at)"),
            [{"id": i, "at": f"2026-01-02 03:04:{i % 60:02d}.{i:06d}"} for i in range(last + 1, last + count + 1)],
        )
    engine.dispose()
