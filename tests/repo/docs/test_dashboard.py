"""The status page in docs/health.md: its session prints what is shown, and its pictures are there and small."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.repo.docs.blocks import GETTING_STARTED, ROOT, blocks, run
from tests.support.services import free_port

PAGE = "docs/health.md"
LARGEST_PICTURE = 150_000


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page asks with curl")
def test_the_session_prints_what_is_shown(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, total REAL, updated_at TEXT NOT NULL)")
    (tmp_path / "handlers.py").write_text(blocks(GETTING_STARTED, "python")[0].text)
    (tmp_path / "poller.toml").write_text(blocks(GETTING_STARTED, "toml")[0].text)
    session, printed = (block for block in blocks(PAGE) if block.language in ("bash", ""))
    text = session.text.replace("8765", str(free_port())).replace(" &\n", " 2>err >out &\n")

    assert run(["bash", "-muc", text], tmp_path) == printed.text


def test_the_pages_pictures_are_there_and_small() -> None:
    named = set(re.findall(r"images/[\w-]+\.png", (ROOT / PAGE).read_text()))
    there = {f"images/{file.name}": file.stat().st_size for file in (ROOT / "docs" / "images").glob("dashboard-*")}

    assert named == set(there)
    assert max(there.values()) < LARGEST_PICTURE
