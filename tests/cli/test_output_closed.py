"""Where stdout takes nothing more: stderr says what was changed, and `run` stops."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from tests.cli.console import ran
from tests.cli.project import COMMAND, NOTING, Project


def piped(project: Project, command: str) -> tuple[int, list[str]]:
    """Its exit code and its lines on stderr, of a command line of bash with `poller` in it."""
    script = f'set -o pipefail; poller() {{ {shlex.join(COMMAND)} "$@"; }}; {command}'
    ended = subprocess.run(
        ["bash", "-c", script], cwd=project.folder, env=dict(project._environ()), capture_output=True, text=True
    )
    return ended.returncode, ended.stderr.splitlines()


def test_a_change_that_cannot_be_printed_is_reported_on_stderr(project: Project) -> None:
    console = ran(project)
    code, lines = piped(project, "poller reset-to-beginning orders --yes --json > /dev/full")
    assert code == 1
    change = console.state()["control"]["last_change"]
    assert any("orders was changed" in line and change["id"][:8] in line for line in lines), lines
    (undo,) = [line.partition("undo: ")[2] for line in lines if "undo: " in line]
    assert console.done(*undo.removeprefix("poller ").split(), "--yes")["changed"] is True


def test_a_change_whose_preview_cannot_be_printed_is_not_made(project: Project) -> None:
    console = ran(project)
    before = console.everything()
    code, lines = piped(project, "poller reset-to-beginning orders --yes > /dev/full")
    assert (code, console.everything()) == (1, before)
    assert not any("was changed" in line for line in lines)


def test_a_dry_run_that_cannot_be_printed_claims_no_change(project: Project) -> None:
    ran(project)
    code, lines = piped(project, "poller reset-to-beginning orders --dry-run --json > /dev/full")
    assert code == 1
    assert not any("was changed" in line for line in lines)


@pytest.mark.parametrize("where", [pytest.param("> /dev/full", marks=pytest.mark.soak), "| true"])
def test_run_stops_where_its_reader_has_gone(project: Project, where: str) -> None:
    project.configure("orders", handlers=NOTING, poller='batch_size = 1\nschedule = "* * * * * *"')
    project.insert(5)
    code, lines = piped(project, f"poller run --json {where}")
    assert code == 1
    assert "Traceback" not in "\n".join(lines)
    assert len([line for line in lines if "stdout" in line]) == 1, lines
