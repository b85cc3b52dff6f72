"""How the console counts, shows the time, and says what is next."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pexpect
import pytest

from tests.cli.console import Console, ran
from tests.cli.project import Project
from tests.cli.terminal import Terminal


def test_one_row_is_one_row_in_one_batch(project: Project) -> None:
    project.configure("orders")
    project.insert(1)
    terminal = Terminal(project, "run", "--once")
    code, shown = terminal.end()
    assert code == 0
    assert "delivered, 1 row in 1 batch, " in shown


def test_a_run_on_a_terminal_shows_the_time_in_utc(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.configure("orders")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    before = datetime.now(UTC)
    _, shown = Terminal(project, "run", "--once").end()
    found = re.search(r"(\d\d):\d\d:\d\dZ", shown)
    assert found is not None, shown
    assert int(found[1]) in {before.hour, datetime.now(UTC).hour}


def test_history_names_the_beginning_and_gives_no_zone_to_no_time(project: Project) -> None:
    console = ran(project)
    console.done("reset-to-beginning", "orders", "--yes")
    with console.store() as store:
        store.append("audit/shop/orders.jsonl", '{"id": "1", "kind": "pause", "by": "ada"}')
    screen = console.run("history", "orders").out
    assert "id=5 -> the beginning" in screen
    assert "unknown time  pause 1  by ada" in screen


def test_an_error_distinguishes_a_table_and_a_poller_of_one_name(project: Project) -> None:
    console = ran(project)
    state = console.state()
    state["checkpoint"]["cursor"]["tiebreaker"]["id"] = 10**30
    console.put(json.dumps(state))
    ended = console.run("status")
    assert (ended.code, "orders: orders:" in ended.err) == (1, False), ended.err
    assert "orders: table orders: " in ended.err


@pytest.mark.parametrize(
    ("arguments", "page"),
    [(("reset-to-cursor", "orders"), "poller reset-to-cursor --help"), (("nonsense",), "poller --help")],
)
def test_a_wrong_command_line_names_the_page_of_its_command(
    project: Project, arguments: tuple[str, ...], page: str
) -> None:
    ended = Console(project).run(*arguments)
    assert ended.code == 2
    assert ended.error.endswith(f". See: {page}")


def test_what_is_to_be_added_is_said_in_a_sentence(project: Project) -> None:
    console = ran(project)
    assert console.refused(3, "pause", "orders", "--confirm", "other").endswith("Add --confirm orders.")
    assert console.refused(2, "reset-to-cursor", "orders", "--value", "2026-01-01 00:00:00", "--yes").endswith(
        "Add --pk id=..."
    )


def test_ctrl_d_at_the_question_ends_its_line(project: Project) -> None:
    ran(project)
    terminal = Terminal(project, "reset-to-beginning", "orders")
    terminal.answer("\x04")
    terminal.child.expect(r"\r\n\S*poller:.* nothing was changed")
    terminal.child.expect(pexpect.EOF)
