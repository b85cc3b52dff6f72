"""A database whose names are written to do harm: `init` writes no code of theirs, and shows nothing that steers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.project import Project

NAMES = [
    "a\\users",
    'tri"""quote',
    'x"""; import pathlib; pathlib.Path("pwned").touch() #',
    "x\n    import os",
    "e\x1b]0;owned\x07",
    "{self.url}",
    "Bestellungen %HOME% Köln",
]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("name", NAMES)
def test_what_it_writes_runs_and_is_only_what_it_meant(project: Project, name: str) -> None:
    with closing(sqlite3.connect(project.folder / "shop.db")) as db, db:
        db.execute(f"CREATE TABLE {quoted(name)} (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        db.execute(f"INSERT INTO {quoted(name)} VALUES (1, '2026-01-01 00:00:00')")
    made = project.run("init", "--url", "sqlite:///shop.db", "--table", name, "--name", "orders", "--yes")
    assert made.code == 0, made.err
    assert all(c.isprintable() or c == "\n" for c in made.out + made.err)
    ended = project.run("run", "--once")
    assert ended.code == 0, ended.err
    assert "2026-01-01 00:00:00" in ended.out
    left = {path.name for path in Path(project.folder).iterdir()}
    assert left <= {"shop.db", "state.db", "poller.toml", "handlers.py", "__pycache__"}, left


def test_a_plain_name_stands_in_what_the_handler_says_of_itself(project: Project) -> None:
    project.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    assert project.run("init", "--url", "sqlite:///shop.db", "--table", "orders", "--yes").code == 0
    assert '"""New and changed rows of orders."""' in (project.folder / "handlers.py").read_text()
