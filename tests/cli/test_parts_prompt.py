"""`pause` of a backfill in parts, at a terminal: all of them are shown before the one question."""

from __future__ import annotations

import pytest

from tests.cli.console import Console
from tests.cli.project import Project
from tests.cli.terminal import Terminal

RANGE = ("--from", "2026-01-01 00:00:00", "--to", "2026-01-01 00:00:03")


@pytest.fixture
def cut(project: Project) -> Console:
    """A backfill whose two parts halted."""
    project.configure("orders", handlers="def handle(batch): raise ValueError()\n", poller="max_attempts = 1")
    project.insert(30)
    console = Console(project)
    assert console.run("backfill", "orders", *RANGE, "--as", "cut", "--parallel", "2", "--yes").code == 1
    return console


def test_all_parts_are_shown_before_the_question(cut: Console) -> None:
    terminal = Terminal(cut.project, "pause", "cut")
    terminal.child.expect_exact("pause cut? [y/N]: ")
    shown = terminal.child.before or ""
    for part in ("cut-1of2", "cut-2of2"):
        assert f"pause {part}" in shown
    assert shown.count("no -> yes") == 2
    terminal.child.send("y\n")
    code, rest = terminal.end()
    assert (code, rest.count("Done."), "no -> yes" in rest) == (0, 2, False)
    for part in ("cut-1of2", "cut-2of2"):
        assert cut.state(f"state/shop/{part}.json")["control"]["paused"] is True


def test_what_is_not_confirmed_changes_no_part(cut: Console) -> None:
    before = cut.everything()
    terminal = Terminal(cut.project, "pause", "cut")
    terminal.child.expect_exact("pause cut? [y/N]: ")
    terminal.child.send("no\n")
    assert terminal.end()[0] == 3
    assert cut.everything() == before
