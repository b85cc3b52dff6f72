"""`poller pause` and `poller resume`, of a halt too: each is shown with its own cause, and with what ends it."""

from __future__ import annotations

import pytest

from tests.cli.console import Console, ran, word
from tests.cli.project import Project


def test_a_paused_poller_delivers_nothing_until_it_is_resumed(project: Project) -> None:
    console = ran(project)
    project.environ["POLLER_OPERATOR"] = "ada@console"
    output = console.done("pause", "orders", "--reason", "migration", "--yes")
    assert (output["before"]["paused"], output["after"]["paused"], output["by"]) == (False, True, "ada@console")
    project.insert(2)
    assert console.run("run", "--once").code == 3
    screen = console.run("status").out
    assert "ada@console" in screen
    assert "migration" in screen
    output = console.done("resume", "orders", "--yes")
    assert output["changed"] is True
    assert "pause" in output["notes"][0]
    assert console.run("run", "--once").code == 0
    assert console.state()["checkpoint"]["cursor"]["tiebreaker"] == {"id": 7}


def test_a_resume_has_a_failed_call_made_again_at_once(project: Project) -> None:
    failing = "def handle(batch): raise ConnectionError('the warehouse is down')\n"
    project.configure("orders", handlers=failing, poller="retry_backoff = '1h'\nretry_backoff_max = '1h'")
    project.insert(3)
    console = Console(project)
    console.run("run", "--once")
    waits = console.run("run", "--once", "--json").out
    output = console.done("resume", "orders", "--yes")
    again = console.run("run", "--once", "--json").out

    assert ('"backing_off"' in waits, "made again at once" in output["notes"][0]) == (True, True)
    assert '"handler_failed"' in again


FAILING = "def handle(batch): raise ValueError('no customer 7')\n"


@pytest.fixture
def halted(project: Project) -> Console:
    project.configure("orders", handlers=FAILING, poller="max_attempts = 1\non_poison = 'halt'")
    project.insert(1)
    console = Console(project)
    assert console.run("run", "--once").code == 1
    return console


def test_a_halt_under_a_pause_keeps_its_cause(halted: Console) -> None:
    halted.project.environ["POLLER_OPERATOR"] = "ada@desk"
    output = halted.done("pause", "orders", "--yes", "--reason", "the warehouse moves")
    assert output["after"]["halted"] is True
    assert word(halted) == "halted"
    lines = [" ".join(line.split()) for line in halted.run("status").out.splitlines()]
    (paused,) = [line for line in lines if line.startswith("also Paused by ada@desk")]
    assert "the warehouse moves" in paused
    assert "why Halted: a row failed too often." in lines
    assert any(line.startswith("detail") and "no customer 7" in line and "ada" not in line for line in lines)
    notes = halted.done("resume", "orders", "--dry-run")["notes"]
    assert "pause" in notes[0]
    assert "halt" not in notes[0]
    assert "the warehouse moves" in notes[0]
    assert "halt" in notes[1]
    assert "no customer 7" in notes[1]


def test_what_ends_it_can_be_copied_from_status_and_run(halted: Console) -> None:
    file = str(halted.project.folder / "poller.toml")
    assert "fix it, then: poller resume orders" in halted.run("-c", file, "status").out  # POLLER_CONFIG names the file
    wanted = f"Fix it, then: poller -c {file} resume orders"
    assert wanted in halted.run("-c", file, "run", "--once").err
    assert halted.run(*wanted.partition("poller ")[2].split(), "--yes").code == 0
    assert word(halted) != "halted"
