"""docs/relays.md: what it shows does what it says, and its tables know every relay."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from poller import load_app
from poller.config.relays import RELAYS
from tests.repo.docs.blocks import ROOT, blocks

PAGE = "docs/relays.md"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("shop.db")) as db, db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        db.execute("INSERT INTO orders VALUES (7, '2026-01-01 00:00:00.000')")
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_configuration_and_the_program_print_one_line(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "poller.toml").write_text(blocks(PAGE, "toml")[0].text)
    with load_app(shop / "poller.toml", {}) as app:
        assert app.pollers["orders"].tick().outcome == "delivered"
    by_file = lines(capsys)
    assert [line["row"]["id"] for line in by_file] == [7]

    (shop / "state.db").unlink()
    exec(blocks(PAGE, "python")[0].text, {})
    assert lines(capsys) == by_file


def test_the_page_has_a_row_and_a_section_for_every_relay() -> None:
    page = (ROOT / PAGE).read_text()
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted(RELAYS)
    assert sorted(re.findall(r"^## `(\w+)`$", page, re.MULTILINE)) == sorted(RELAYS)


def test_each_extra_of_a_relay_is_the_packages() -> None:
    extras = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    for entry in RELAYS.values():
        assert not entry.extra or re.search(rf"^{entry.extra} = ", extras, re.MULTILINE)
