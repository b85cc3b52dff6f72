"""docs/handlers.md: its program and its recipes do what the page says."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import create_engine, text

from poller import Batch
from tests.repo.docs.blocks import blocks, run
from tests.repo.docs.recipe import parts

PAGE = "docs/handlers.md"


def _python() -> list[str]:
    return [block.text for block in parts(PAGE, "Effectively once") if block.language == "python"]


def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    """In an empty folder."""
    printed = run([sys.executable, "-c", _python()[0]], tmp_path)
    assert printed.splitlines() == ["handler_failed delivered", "1 sale"]


@pytest.mark.parametrize(
    ("recipe", "server"),
    [(0, "sqlite_url"), (0, "postgres_db"), (1, "mariadb_db")],
    ids=["sqlite", "postgres", "mariadb"],
)
def test_an_older_version_changes_nothing(recipe: int, server: str, request: pytest.FixtureRequest) -> None:
    upsert = text(blocks(PAGE, "sql")[recipe].text)
    engine = create_engine(request.getfixturevalue(server))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders_copy (id INTEGER PRIMARY KEY, total INTEGER, updated_at INTEGER)"))
        for version in (1, 3, 2, 3, 1):
            connection.execute(upsert, {"id": 7, "total": version * 10, "updated_at": version})
        assert connection.execute(text("SELECT * FROM orders_copy")).all() == [(7, 30, 3)]
    engine.dispose()


def test_a_service_gets_one_key_for_each_version_of_a_row() -> None:
    space: dict[str, Any] = {}
    exec(_python()[1], space)
    keys: Counter[str] = Counter()

    def post(_url: str, *, headers: dict[str, str], **_: object) -> object:
        keys[headers["Idempotency-Key"]] += 1
        return type("Answer", (), {"raise_for_status": functools.partial(int)})()

    with patch("requests.post", post):
        for version in (1, 1, 2):
            space["charge"](Batch.of_rows([{"id": 1, "total": 5, "version": version}]))
    assert sorted(keys.values()) == [1, 2]
    assert {len(key) for key in keys} == {64}
