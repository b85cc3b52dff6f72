"""docs/capture.md: its configuration and its handler keep a copy of a table."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.repo.docs.blocks import blocks, run

PAGE = "docs/capture.md"


def test_the_copy_of_the_page_is_the_table(tmp_path: Path) -> None:
    (tmp_path / "poller.toml").write_text(blocks(PAGE, "toml")[0].text)
    (tmp_path / "handlers.py").write_text(blocks(PAGE, "python")[0].text)
    url = {"ORDERS_DB_URL": "sqlite:///shop.db"}
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)")
    run(["poller", "capture", "orders", "--install", "--yes"], tmp_path, **url)
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        shop.execute("UPDATE orders SET note = 'd' WHERE id = 2")
        shop.execute("UPDATE orders SET id = 4 WHERE id = 3")
        shop.execute("DELETE FROM orders WHERE id = 1")
    run(["poller", "run", "--until-idle"], tmp_path, **url)
    copied = sqlite3.connect(tmp_path / "copy.db").execute("SELECT * FROM orders ORDER BY id").fetchall()
    assert copied == [(2, "d"), (4, "c")]
