"""What is said of rows that wait is so: each command that is named works when it is pasted."""

from __future__ import annotations

import re
import shlex
import shutil
from typing import Any

import pytest

from tests.cli.console import Console, ran
from tests.cli.project import Project
from tests.support.waiting import row_id, waits


def shop(project: Project, **rows: Any) -> Console:
    """Eight rows were delivered but for those that wait."""
    console = ran(project, rows=8)
    with console.store() as store:
        waits(store, **rows)
    return console


def advice(console: Console, number: int) -> list[list[str]]:
    """The commands that `show` ends with."""
    out = console.run("quarantine", "show", "orders", "--id", row_id(number)).out
    return [shlex.split(line.partition(": ")[2])[3:] for line in out.splitlines() if ": poller " in line]


@pytest.mark.parametrize(
    ("number", "rows"),
    [
        (2, {"failed": [2]}),
        (4, {"failed": [2], "behind": [4], "key": "k v"}),
        (4, {"pending": [2, 4], "key": "k"}),
        (2, {"pending": [2], "records": False}),
    ],
)
def test_what_show_names_works(project: Project, number: int, rows: dict[str, Any]) -> None:
    console = shop(project, **rows)
    replay, discard = advice(console, number)
    assert console.run(*discard, "--yes", "--dry-run").code == 0
    ended = console.run(*replay, "--yes")
    assert ended.code == 0, (ended.out, ended.err)
    assert row_id(number) not in console.document()


def test_of_before_a_reset_it_names_both_versions(project: Project) -> None:
    console = shop(project, failed=[2])
    console.done("reset-to-cursor", "orders", "--value", "2026-01-01 00:00:00", "--pk", "id=8", "--yes")
    as_it_was, current, discard = advice(console, 2)
    for command in (as_it_was, current, discard):
        assert console.run(*command, "--yes", "--dry-run").code == 0
    assert console.run(*current, "--yes").code == 0
    assert row_id(2) not in console.document()


def test_of_one_that_is_not_passed_it_names_none(project: Project) -> None:
    console = shop(project, ahead=[8])
    assert advice(console, 8) == []
    assert "once the checkpoint has passed it" in console.run("quarantine", "show", "orders", "--id", row_id(8)).out


def test_after_a_reset_one_that_comes_by_itself_is_not_replayed(project: Project) -> None:
    console = shop(project, failed=[2])
    console.done("reset-to-beginning", "orders", "--yes")
    words = ("quarantine", "replay", "orders", "--id", row_id(2), "--yes")
    ended = console.run(*words, "--current")
    assert ended.code == 3
    assert "a tick will deliver it" in ended.error
    assert console.run(*words, "--as-it-was").code == 0


def test_a_reset_says_which_rows_nobody_tries_any_more(project: Project) -> None:
    console = shop(project, failed=[2], behind=[4], pending=[6])
    kept = console.done("reset-to-beginning", "orders", "--yes", "--dry-run")
    (note,) = kept["notes"]
    assert "2 rows that are aside" in note
    assert "poller quarantine list orders" in note
    output = console.done("reset-to-beginning", "orders", "--yes")
    assert note in output["notes"]
    assert console.undo(output)["notes"], "of the undo"
    assert not [one for one in console.done("reset-to-beginning", "orders", "--yes")["notes"] if "tried" in one]


def test_commands_in_notes_and_fixes_name_the_file(project: Project) -> None:
    console = shop(project, failed=[2])
    other = str(project.folder / "other.toml")
    shutil.copy(project.folder / "poller.toml", other)
    out = console.run("-c", other, "reset-to-beginning", "orders", "--yes").out
    out += console.run("-c", other, "check", "orders").out
    assert len(re.findall(re.escape(f"poller -c {other} quarantine list orders"), out)) == 2
    assert "poller quarantine" not in out
