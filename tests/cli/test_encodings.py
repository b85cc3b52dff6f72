"""A stdout that is not UTF-8 is no fault: what it cannot hold is escaped, and JSON stays JSON."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.cli.console import ran
from tests.cli.project import COMMAND, Project

NAME = "Łódź ★"


def said(project: Project, encoding: str, *arguments: str) -> tuple[int, bytes, bytes]:
    environ = {**os.environ, "PYTHONIOENCODING": encoding, "POLLER_CONFIG": "poller.toml"}
    ended = subprocess.run(
        [*COMMAND, *arguments], cwd=project.folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_rows_of_all_scripts_are_shown(project: Project, encoding: str) -> None:
    project.configure("orders")
    project.execute("ALTER TABLE orders ADD COLUMN note TEXT")
    project.execute("INSERT INTO orders VALUES (?, ?, ?)", (1, "2026-01-01 00:00:00", NAME))
    code, out, err = said(project, encoding, "peek", "orders")
    assert (code, err) == (0, b"")
    assert b"\\u2605" in out
    code, out, err = said(project, encoding, "peek", "orders", "--json")
    assert code == 0, err
    assert json.loads(out.decode(encoding))["rows"][0]["note"] == NAME


def test_a_change_is_told_with_its_undo(project: Project) -> None:
    console = ran(project)
    code, out, err = said(project, "ascii", "reset-to-beginning", "orders", "--yes", "--reason", NAME)
    assert (code, err) == (0, b"")
    assert b"undo      poller reset-to-checkpoint" in out
    assert console.state()["control"]["last_change"]["reason"] == NAME
