"""A halt and a pause of the same poller: each is shown with its own cause, and with what ends it."""

from __future__ import annotations

import pytest

from tests.cli.console import Console, word
from tests.cli.project import Project

FAILING = "def handle(batch): raise ValueError('no customer 7')\n"


@pytest.fixture
def halted(project: Project) -> Console:
    project.configure("orders", handlers=FAILING, poller="max_attempts = 1")
    project.insert(3)
    console = Console(project)
    assert console.run("run", "--once").code == 1
    return console


def test_a_halt_under_a_pause_keeps_its_cause(halted: Console) -> None:
    halted.project.environ["POLLER_OPERATOR"] = "ada@desk"
    output = halted.done("pause", "orders", "--yes", "--reason", "the warehouse moves")
    assert output["after"]["halted"] is True
    assert word(halted) == "halted, and paused"
    lines = [line.strip() for line in halted.run("status").out.splitlines()]
    (paused,) = [line for line in lines if line.startswith("paused ")]
    (cause,) = [line for line in lines if line.startswith("halted ")]
    assert "by ada@desk" in paused
    assert "the warehouse moves" in paused
    assert "no customer 7" in cause
    assert "ada" not in cause
    notes = halted.done("resume", "orders", "--dry-run")["notes"]
    assert "pause" in notes[0]
    assert "halt" not in notes[0]
    assert "the warehouse moves" in notes[0]
    assert "halt" in notes[1]
    assert "no customer 7" in notes[1]


def test_what_ends_it_can_be_copied_from_status_and_run(halted: Console) -> None:
    file = str(halted.project.folder / "poller.toml")
    wanted = f"Fix it, then: poller -c {file} resume orders"
    assert wanted in halted.run("-c", file, "status").out
    assert wanted in halted.run("-c", file, "run", "--once").err
    assert halted.run(*wanted.partition("poller ")[2].split(), "--yes").code == 0
    assert word(halted) != "halted"


def test_a_pause_is_shown_once_and_with_what_ends_it(halted: Console) -> None:
    halted.done("resume", "orders", "--yes")
    halted.project.environ["POLLER_OPERATOR"] = "ada@desk"
    halted.done("pause", "orders", "--yes", "--reason", "the warehouse moves")
    ended = halted.run("run", "--once")
    assert (ended.code, ended.err.splitlines()[-1].count("paused")) == (3, 1), ended.err
    assert "paused by ada@desk: the warehouse moves. To go on: poller" in ended.err
    assert "To go on: poller" in halted.run("status").out
