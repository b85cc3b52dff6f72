"""What looks remember: a process after the first one finds rows that no worker delivers."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from poller import App, load_app
from poller.contract.stores import Place
from poller.ports import Found, StateStore
from tests.support.quarantine import Clock

CONFIG = """
app_name = "shop"
[state]
store = "memory"
[pollers.orders.source]
url = "sqlite:///shop.db"
table = "orders"
cursor_column = "id"
cursor_kind = "integer+pk"
pk_columns = ["id"]
"""


def an_hour_passes(store: StateStore) -> None:
    """Its clock is its own, so what it keeps becomes an hour older in its place."""
    found = store.read("health/shop.json")
    assert isinstance(found, Found)
    document = json.loads(found.body)
    for name, at in document["seen"]["orders"].items():
        document["seen"]["orders"][name] = (datetime.fromisoformat(at) - timedelta(hours=1)).isoformat()
    store.write("health/shop.json", json.dumps(document).encode(), if_tag=found.tag)


@pytest.mark.parametrize("place", ["memory", "sqlite", "blob"], indirect=True)
def test_a_later_process_knows_since_when_rows_wait(place: Place, tmp_path: Path) -> None:
    (tmp_path / "poller.toml").write_text(CONFIG)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as db, db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL)")
        db.execute("INSERT INTO orders VALUES (1)")
    clock = Clock()

    def app() -> App:
        made = load_app(tmp_path / "poller.toml", {}, observers=[], runtime=clock)
        with patch("poller.app.open_store", return_value=place.open()):
            assert made.store is not None
        return made

    with app() as first:
        assert first.health().healthy, "it may have been deployed a minute ago"
        (kept,) = [*first.store.names("health/")]
        assert kept == "health/shop.json"
    with app() as second:
        assert second.remembered()["orders"].unborn_since is not None
        assert second.health().healthy
    an_hour_passes(place.open())
    with app() as third:
        (said,) = third.health().pollers
        assert (said.word, said.severity) == ("never_ran", "unhealthy")
