"""Looking at an embedded store that may not be written, and at one that is not there yet: neither is touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.cli.console import Console
from tests.cli.project import Ended, Project
from tests.support.cases import each

LOOKS = [
    ("status",),
    ("peek", "orders"),
    ("history", "orders"),
    ("export-checkpoint", "orders"),
    ("reset-to-beginning", "orders", "--dry-run"),
    ("watch", "--json", "--count", "2", "--interval", "50ms"),
]


@pytest.fixture
def shop(project: Project) -> Iterator[Project]:
    project.configure("orders")
    project.insert(5)
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('store = "sql"\n', 'store = "sql"\nurl = "sqlite:///kept/state.db"\n'))
    kept = project.folder / "kept"
    kept.mkdir()
    assert project.run("run", "--once").code == 0
    yield project
    kept.chmod(0o755)


def run(project: Project, *arguments: str) -> Ended:
    assert project.forge is not None
    with patch.object(project.forge, "anybody", True):
        return project.run(*arguments)


@pytest.mark.parametrize(
    ("folder", "commands"),
    [(0o755, LOOKS[:2]), (0o555, [*LOOKS, ("health",)])],
    ids=["in-a-folder-of-ours", "in-a-folder-of-others"],
)
def test_what_may_only_be_read_is_looked_at(shop: Project, commands: list[tuple[str, ...]], folder: int) -> None:
    state = shop.folder / "kept" / "state.db"
    state.chmod(0o444)
    state.parent.chmod(folder)
    before = state.read_bytes()
    for command in commands:
        ended = run(shop, *command)
        assert (ended.code, ended.err) == (0, ""), command
        assert state.read_bytes() == before, command


def test_a_change_of_it_is_refused_by_name(shop: Project) -> None:
    state = shop.folder / "kept" / "state.db"
    state.chmod(0o444)
    state.parent.chmod(0o555)
    ended = run(shop, "pause", "orders", "--yes")
    assert ended.code == 1
    assert str(state) in ended.error
    assert "who may write the file" in ended.error


@each("command", LOOKS)
def test_a_store_that_is_not_there_is_not_made_by_looking(project: Project, command: tuple[str, ...]) -> None:
    project.configure("orders")
    project.insert(5)
    (project.folder / "state.db").unlink(missing_ok=True)
    ended = Console(project).run(*command)
    assert "fault" not in ended.err
    assert (ended.code == 0) == (command[0] != "export-checkpoint")
    assert not Path(project.folder / "state.db").exists()
    assert project.run("run", "--once").code == 0
    assert Console(project).run("status").code == 0
