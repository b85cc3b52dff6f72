"""Numbers that no column can hold, typed or found in a state document: every command calls them what they are."""

from __future__ import annotations

import json

import pytest

from tests.cli.console import STATE, Console
from tests.cli.project import Project

HUGE = 10**30


@pytest.fixture
def numbered(project: Project) -> Console:
    """A poller of integer keys whose document holds one that SQLite cannot."""
    project.configure("orders")
    project.insert(5)
    console = Console(project)
    assert console.run("run", "--once").code == 0
    state = console.state(STATE)
    state["checkpoint"]["cursor"]["tiebreaker"]["id"] = HUGE
    console.put(json.dumps(state))
    return console


@pytest.mark.parametrize("command", [("status",), ("peek", "orders"), ("run", "--once"), ("check",)])
def test_a_document_with_a_key_that_no_column_holds(numbered: Console, command: tuple[str, ...]) -> None:
    ended = numbered.run(*command)
    shown = ended.out + ended.err
    assert ended.code == 1
    assert "out of the column's range" in shown
    assert "fault in poller" not in shown


def test_a_typed_number_that_no_column_holds(project: Project) -> None:
    project.configure("orders")
    project.insert(5)
    text = (project.folder / "poller.toml").read_text()
    timed, counted = 'cursor_column = "updated_at"\ncursor_time_zone = "UTC"', 'cursor_column = "id"'
    (project.folder / "poller.toml").write_text(text.replace(timed, counted + '\ncursor_kind = "integer+pk"'))
    ended = Console(project).run("reset-to-cursor", "orders", "--value", "9" * 20, "--yes")
    assert ended.code == 2, ended.err
    assert "range" in ended.error
    assert "fault in poller" not in ended.error


def test_a_reset_puts_another_cursor_in_its_place(numbered: Console) -> None:
    assert numbered.run("reset-to-beginning", "orders", "--yes").code == 0
    assert numbered.run("run", "--once").code == 0
    assert numbered.state(STATE)["checkpoint"]["cursor"]["tiebreaker"] == {"id": 5}
