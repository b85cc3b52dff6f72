"""A program plans a project as `poller init` does: nothing is written before it says so."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from poller import load_app
from poller.admin import Refused, WrongArgument
from poller.project.choices import Choices
from poller.project.plan import ProjectPlan, Wanted, plan

TABLE = "CREATE TABLE {} (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute(TABLE.format("orders"))
    return tmp_path / "poller.toml"


def planned(config: Path, table: str | None = None) -> ProjectPlan:
    return plan(Wanted(config=config, url="sqlite:///shop.db", table=table), Choices())


def test_a_plan_writes_nothing_until_it_is_carried_out(config: Path) -> None:
    made = planned(config)
    assert (made.new.name, made.new.cursor, list(made.new.key)) == ("orders", "updated_at", ["id"])
    assert not config.exists()
    made.write()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    with load_app(config) as app:
        assert app.poller("orders").status().error is None
    made.write()  # what says the same already is left as it is


def test_a_plan_is_refused_where_the_file_is_another_by_now(config: Path) -> None:
    made = planned(config)
    config.write_text("precious")
    with pytest.raises(Refused, match="exists already"):
        made.write()
    assert config.read_text() == "precious"


def test_what_is_not_clear_is_not_guessed(config: Path) -> None:
    with closing(sqlite3.connect(config.parent / "shop.db")) as connection:
        connection.execute(TABLE.format("customers"))
    with pytest.raises(WrongArgument, match="customers, orders"):
        planned(config)
    assert planned(config, "customers").new.name == "customers"
