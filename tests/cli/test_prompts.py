"""What an operator at a terminal is asked."""

from __future__ import annotations

import json

from tests.cli.console import again, ran
from tests.cli.project import Project
from tests.cli.terminal import ASKED, Terminal
from tests.support.cases import each


def test_the_name_typed_is_consent_and_the_preview_comes_first(project: Project) -> None:
    console = ran(project)
    terminal = Terminal(project, "reset-to-beginning", "orders", "--reason", "'again'")
    shown = terminal.answer("orders\n")
    assert "2026-01-01 00:00:00 / id=5 -> the beginning" in shown
    assert "5 rows will be delivered again" in shown
    code, rest = terminal.end()
    assert (code, console.state()["checkpoint"]["generation"]) == (0, 1)
    assert "undo" in rest


@each("answer", ["\n", "y\n", "ORDERS\n", "\x04", "\x03"])
def test_anything_else_changes_nothing(project: Project, answer: str) -> None:
    console = again(project)
    before = console.everything()
    terminal = Terminal(project, "reset-to-beginning", "orders")
    terminal.answer(answer)
    code, rest = terminal.end()
    assert code == 3, rest
    assert "nothing was changed" in rest
    assert console.everything() == before


@each("answer", ["\n", "orders\n"])
def test_a_pause_moves_no_checkpoint_and_wants_a_y(project: Project, answer: str) -> None:
    console = again(project)
    before = console.everything()
    terminal = Terminal(project, "pause", "orders")
    terminal.child.expect_exact("pause orders? [y/N]: ")
    terminal.child.send(answer)
    assert terminal.end()[0] == 3
    assert console.everything() == before
    assert console.run("pause", "orders").code == 3, "without a terminal it wants --yes"


def test_y_pauses_and_y_resumes(project: Project) -> None:
    console = ran(project)
    for command, answer, paused in (("pause", "y\n", True), ("resume", "Yes\n", False)):
        terminal = Terminal(project, command, "orders")
        terminal.child.expect_exact(f"{command} orders? [y/N]: ")
        terminal.child.send(answer)
        assert terminal.end()[0] == 0
        assert console.state()["control"]["paused"] is paused


def test_yes_is_not_asked_but_in_production(project: Project) -> None:
    console = ran(project)
    assert Terminal(project, "pause", "orders", "--yes").end()[0] == 0
    project.write('environment = "production"\n' + (project.folder / "poller.toml").read_text())
    terminal = Terminal(project, "reset-to-beginning", "orders", "--yes")
    terminal.answer("orders\n")
    assert terminal.end()[0] == 0
    assert console.state()["checkpoint"]["cursor"] is None


def test_with_json_the_question_leaves_stdout_alone(project: Project) -> None:
    ran(project)
    out = project.folder / "out.json"
    terminal = Terminal(project, "reset-to-beginning", "orders", "--json", file=str(out))
    assert "the beginning" in terminal.answer("orders\n")
    assert terminal.end()[0] == 0
    assert json.loads(out.read_text())["changed"] is True


def test_a_worker_that_commits_meanwhile_is_shown_not_asked_about(project: Project) -> None:
    console = ran(project)
    project.insert(3)
    terminal = Terminal(project, "reset-to-beginning", "orders")
    terminal.child.expect_exact(ASKED)
    assert console.run("run", "--once").code == 0
    before = console.document()
    terminal.child.send("orders\n")
    code, rest = terminal.end()
    assert code == 0
    assert "A worker committed meanwhile" in rest
    assert "id=8" in rest
    state = console.state()
    assert state["checkpoint"]["cursor"] is None
    assert state["control"]["last_change"]["before"]["cursor"]["tiebreaker"] == {"id": 8}
    assert before in [console.document(name) for name in console.names("backups/")]


def test_another_operators_reset_is_shown_and_asked_about(project: Project) -> None:
    console = ran(project)
    terminal = Terminal(project, "reset-to-cursor", "orders", "--value", "2026-01-01 00:00:00", "--pk", "id=3")
    terminal.child.expect_exact(ASKED)
    console.done("reset-to-cursor", "orders", "--value", "2026-01-01 00:00:00", "--pk", "id=4", "--yes")
    terminal.child.send("orders\n")
    assert "another operator" in terminal.answer("no\n")
    assert terminal.end()[0] == 3
    assert console.state()["checkpoint"]["cursor"]["tiebreaker"] == {"id": 4}
