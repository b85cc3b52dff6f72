"""The commands of docs/getting-started.md that take a reader from a clone to the first row of a table of their own."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from scripts import stopwatch
from tests.repo.docs.blocks import GETTING_STARTED, ROOT, blocks
from tests.support.azurite import Azurite


def environment(**more: str) -> dict[str, str]:
    """With our own commands first."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **more}


def test_two_commands_deliver_the_first_row(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        shop.executescript(stopwatch.SHOP)

    taken = stopwatch.run_all(stopwatch.commands("embedded")[-2:], tmp_path, environment())

    assert [command.split()[1] for command in taken.commands] == ["init", "run"]


def test_they_deliver_it_from_postgresql_with_azurite(azurite: Azurite, postgres_db: str, tmp_path: Path) -> None:
    (table,) = blocks(GETTING_STARTED, "sql")
    engine = sa.create_engine(postgres_db)
    with engine.begin() as connection:
        connection.execute(sa.text(table.text))
    engine.dispose()
    init, run = stopwatch.commands("azurite")[-2:]
    ours = environment(AzureWebJobsStorage=azurite.connection_string, SHOP_URL=postgres_db)

    stopwatch.run_all((f"{init} --app {azurite.container_name()}", run), tmp_path, ours)


@pytest.mark.soak
def test_all_commands_work_in_an_empty_folder() -> None:
    taken = stopwatch.measure("embedded")

    assert len(taken.seconds) == len(taken.commands)


def test_the_page_says_what_was_measured() -> None:
    page = (ROOT / GETTING_STARTED).read_text()

    for name, words in stopwatch.WORDS.items():
        assert f"| {words} | {len(stopwatch.commands(name))} | " in page
