"""`poller init`: without a stdin, with a setting of the user's own name, in a folder whose name has a blank, and where
what it found must be fixed first."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.project import COMMAND, Project
from tests.integration.sources.tables import make_orders

STAMPS = ["2026-01-01 00:00:00", "2026-01-01 00:00:01"]


@pytest.fixture
def shop(project: Project, sqlite_url: str) -> Project:
    make_orders(sqlite_url, STAMPS)
    project.environ["SHOP_DB"] = sqlite_url
    return project


def test_with_its_stdin_closed_it_asks_nothing(shop: Project) -> None:
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "init"],
        cwd=shop.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert "--url is missing" in ended.stderr


def test_a_setting_that_was_named_is_the_one_that_the_file_names(shop: Project) -> None:
    ended = shop.run("init", "--url", "%SHOP_DB%", "--table", "orders", "--yes", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["setting"] == "SHOP_DB"
    assert 'url = "%SHOP_DB%"' in (shop.folder / "poller.toml").read_text()
    assert shop.run("run", "--once", "--json").events[-1]["rows"] == len(STAMPS)


def test_a_setting_whose_name_no_file_can_hold_is_refused(shop: Project) -> None:
    shop.environ["shop_db"] = shop.environ["SHOP_DB"]
    ended = shop.run("init", "--url", "%shop_db%", "--table", "orders", "--yes")
    assert ended.code == 2
    assert "shop_db" in ended.error
    assert not (shop.folder / "poller.toml").exists()


def test_the_commands_that_follow_can_be_copied_whatever_the_folder_is_called(shop: Project, tmp_path: Path) -> None:
    folder = tmp_path / "my shop"
    folder.mkdir()
    config = str(folder / "poller.toml")
    ended = shop.run("-c", config, "init", "--url", "%SHOP_DB%", "--table", "orders", "--yes", "--json")
    assert [shlex.split(line) for line in ended.json["next"]] == [
        ["poller", "-c", config, "check", "orders"],
        ["poller", "-c", config, "run", "orders", "--once"],
    ]


def test_what_cannot_run_as_it_is_fails_and_says_to_mend_it_first(shop: Project) -> None:
    shop.execute("CREATE TABLE people (id INTEGER PRIMARY KEY NOT NULL, customer TEXT)")
    shop.execute("INSERT INTO people VALUES (1, 'Ada')")
    arguments = ("--url", "sqlite:///shop.db", "--table", "people", "--cursor", "customer", "--yes")
    ended = shop.run("init", *arguments)
    assert ended.code == 1
    assert "error: " in ended.out
    assert "First fix" in ended.out
    assert (shop.folder / "poller.toml").exists(), "there is something to fix"
