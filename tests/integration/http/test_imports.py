"""What several threads ask for is imported before there are several: two that import SQLAlchemy at once may each find
half of it, and the one that starts the pollers then ends with an ImportError."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

CONFIG = """
app_name = "shop"
[state]
STATE
[pollers.orders]
handler = "handlers:ship"
schedule = "0 * * * * *"
[pollers.orders.source]
url = "sqlite:///shop.db"
table = "orders"
cursor_column = "updated_at"
pk_columns = ["id"]
cursor_time_zone = "UTC"
"""
FILE = 'store = "sql"\nurl = "sqlite:///state.db"'
BLOBS = 'store = "blob"\n[functions]\nmode = "queue"'
HOST = '{"version": "2.0", "extensions": {"queues": {"messageEncoding": "base64"}}}'
WATCH = """
import sys, threading, urllib.request
from pathlib import Path

class Elsewhere:
    names = set()
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread():
            self.names.add(name)

sys.meta_path.insert(0, Elsewhere())
"""
SERVE = """
from poller import load_app
from poller.http import serve

with load_app("poller.toml") as app, serve(app, "0") as server:
    assert urllib.request.urlopen(server.url).status == 200
"""
INDEX = """
from poller.functions import create_app

create_app(Path("poller.toml").absolute(), http=True)
threading.Thread(target=lambda: __import__("poller.poller")).start()
"""
QUEUED = INDEX.replace("http=True", "http=False")
TELL = """
circular = {"sqlalchemy", "sqlalchemy.engine", "sqlalchemy.sql", "poller.poller", "poller.admin.round"}
print(sorted(Elsewhere.names & circular), "sqlalchemy.engine" in sys.modules)
"""


@pytest.mark.parametrize(
    ("program", "state"), [(SERVE, FILE), (INDEX, FILE), (QUEUED, BLOBS)], ids=["serve", "timers", "queue"]
)
def test_what_threads_share_is_imported_before_them(program: str, state: str, tmp_path: Path) -> None:
    (tmp_path / "poller.toml").write_text(CONFIG.replace("STATE", state))
    (tmp_path / "handlers.py").write_text("def ship(batch): pass\n")
    (tmp_path / "host.json").write_text(HOST)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, total REAL, updated_at TEXT NOT NULL)")

    done = subprocess.run(
        [sys.executable, "-c", WATCH + program + TELL],
        cwd=tmp_path,
        env={**os.environ, "AzureWebJobsStorage": "UseDevelopmentStorage=true"},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert (done.stdout, done.returncode) == ("[] True\n", 0), done.stderr
