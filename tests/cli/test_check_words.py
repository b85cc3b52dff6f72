"""`poller check`: a table that is not there, a SQLite writer that just works, and handlers that cannot be imported."""

from __future__ import annotations

import ctypes
import sqlite3
import subprocess
from contextlib import closing
from typing import Any

from tests.cli.project import COMMAND, Project


def _as_anybody() -> None:
    """Even root then heeds permissions: PR_CAPBSET_DROP of CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


def findings(project: Project, check: str, code: int) -> list[dict[str, Any]]:
    ended = project.run("check", "orders", "--json")
    assert ended.code == code, ended.out + ended.err
    return [one for one in ended.json["pollers"][0]["findings"] if one["check"] == check]


def test_a_table_that_is_not_there_is_no_view(project: Project) -> None:
    project.configure("orders")
    project.execute("DROP TABLE orders")
    assert findings(project, "key", 1) == []
    assert any("orders" in one["message"] and one["severity"] == "error" for one in findings(project, "columns", 1))


def test_a_writer_that_has_just_begun_holds_the_bound_and_is_no_error(project: Project) -> None:
    project.configure("orders")
    project.insert(5)
    with closing(sqlite3.connect(project.folder / "shop.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        (found,) = findings(project, "bound", 0)
        writer.execute("ROLLBACK")
    assert found["severity"] == "warn"
    assert "a writer's open transaction" in found["message"]
    assert "behind the database's clock" not in found["message"], "nobody knows since when it has been open"


def test_an_import_that_fails_has_a_next_step(project: Project) -> None:
    for text, fix in (
        ("import nothing_of_this_name\n", "nothing_of_this_name"),
        ("def other(batch): pass\n", "handle"),
        ("def handle(batch)\n", "handlers.py"),
    ):
        project.configure("orders", handlers=text)
        (found,) = findings(project, "handler", 1)
        assert fix in found["fix"]


def test_a_handler_that_may_not_be_read_is_told_by_its_file(project: Project) -> None:
    project.configure("orders", handlers="def handle(batch): pass\n")
    project.insert(1)
    handlers = project.folder / "handlers.py"
    handlers.chmod(0)
    ended = subprocess.run(
        [*COMMAND, "run", "--once"],
        cwd=project.folder,
        preexec_fn=_as_anybody,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert f"{handlers} cannot be read: Permission denied" in ended.stderr
