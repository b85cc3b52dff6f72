"""The kept health in every store: a hundred callers, as of several processes, cost one look at the databases."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from poller.admin import health_round
from poller.admin.health import Health
from poller.admin.health_look import Look, Looked
from poller.app import App, load_app
from tests.contract.stores.conftest import Place

CONFIG = """
app_name = "shop"
[state]
store = "memory"
[pollers.orders.source]
url = "sqlite:///shop.db"
table = "orders"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
"""
CALLERS, PROCESSES = 100, 5


def test_a_hundred_callers_cost_one_look(place: Place, tmp_path: Path) -> None:
    (tmp_path / "poller.toml").write_text(CONFIG)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, updated_at TEXT NOT NULL)")
    looks: list[str] = []

    class Counted(Look):
        def __call__(self) -> Looked:
            looks.append(self.name)
            return super().__call__()

    def app() -> App:
        made = load_app(tmp_path / "poller.toml", {}, observers=[])
        with patch("poller.app.open_store", return_value=place.open()):
            assert made.store is not None
        return made

    apps = [app() for _ in range(PROCESSES)]
    with patch.object(health_round, "Look", Counted), ThreadPoolExecutor(CALLERS) as callers:
        found: list[Health] = list(callers.map(lambda n: apps[n % PROCESSES].kept_health(), range(CALLERS)))
    assert looks == ["orders"]
    assert {one.computed_at for one in found} == {found[0].computed_at}
    assert all(one.healthy and one.pollers[0].name == "orders" for one in found)
