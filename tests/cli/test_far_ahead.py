"""A checkpoint that is moved into the future skips more than the rows that lie there now, and the preview says so; a
fencing token from far beyond is not taken over."""

from __future__ import annotations

import json

import pytest

from tests.cli.azure_functions_db import ROWS, fixture
from tests.cli.console import Console, ran
from tests.cli.project import Project

FAR = "2099-01-01T00:00:00"


def ahead(project: Project) -> Console:
    """Rows that wait ahead of the checkpoint."""
    console = ran(project)
    console.done("reset-to-beginning", "orders", "--yes")
    return console


def test_rows_ahead_do_not_hide_that_later_ones_are_skipped(project: Project) -> None:
    console = ahead(project)
    to = ("reset-to-cursor", "orders", "--value", FAR, "--pk", "id=1", "--allow-skip", "--dry-run")
    effect = console.done(*to)["effect"]
    assert (effect["skipped"], effect["open_ended"]) == (5, True)
    screen = console.run(*to).out
    assert "5 rows will never be delivered" in screen
    assert "later rows up to the new cursor will never be delivered either" in screen


def test_a_way_forward_below_the_bound_skips_only_what_lies_there(project: Project) -> None:
    console = ahead(project)
    to = ("reset-to-cursor", "orders", "--value", "2026-01-01 00:00:00", "--pk", "id=3", "--allow-skip", "--dry-run")
    effect = console.done(*to)["effect"]
    assert (effect["skipped"], effect["open_ended"]) == (3, False)


def of_the_library(console: Console, at: str) -> str:
    """A copy of its blob with another time in its cursor."""
    state = json.loads(fixture("text").read_text())
    state["checkpoint"]["cursor"][0] = at
    path = console.project.folder / "theirs.json"
    path.write_text(json.dumps(state))
    return str(path)


@pytest.mark.parametrize("there", [True, False], ids=["over a checkpoint", "a first checkpoint"])
def test_a_place_in_the_future_is_imported_only_with_allow_skip(project: Project, there: bool) -> None:
    project.configure("orders")
    console = Console(project)
    project.execute("INSERT INTO orders VALUES (?, ?)", *ROWS)
    if there:
        assert console.run("run", "--once").code == 0
    theirs = of_the_library(console, "2099-01-01 00:00:00.000")
    command = ("import", "azure-functions-db", theirs, "--name", "orders", "--yes", *["--overwrite"] * there)
    console.refused(3, *command, says="rows that appear up to the new cursor will never be delivered")
    assert console.done(*command, "--allow-skip")["effect"]["open_ended"] is True


@pytest.mark.parametrize("autoincrement", ["", "AUTOINCREMENT"])
def test_the_newest_row_of_a_numbered_table_is_not_in_the_future(project: Project, autoincrement: str) -> None:
    project.configure("orders", source='cursor_kind = "integer+pk"')
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('"updated_at"', '"id"').replace('cursor_time_zone = "UTC"', ""))
    project.execute("DROP TABLE orders")
    project.execute(f"CREATE TABLE orders (id INTEGER PRIMARY KEY {autoincrement} NOT NULL)")
    project.execute("INSERT INTO orders VALUES (?)", *[(n,) for n in range(1, 11)])
    console = Console(project)
    output = console.done("import", "azure-functions-db", str(fixture("integer")), "--name", "orders", "--yes")
    assert output["effect"]["open_ended"] is False
    assert output["after"]["cursor"]["value"] == "10"


@pytest.mark.parametrize("token", [2**53 + 1, 10**30])
def test_an_impossibly_high_fencing_token_is_not_taken_over(project: Project, token: int) -> None:
    project.configure("orders")
    project.execute("INSERT INTO orders VALUES (?, ?)", *ROWS)
    state = json.loads(fixture("text").read_text())
    state["lease"] = {**(state.get("lease") or {}), "fencing_token": token}
    path = project.folder / "theirs.json"
    path.write_text(json.dumps(state))
    command = ("import", "azure-functions-db", str(path), "--name", "orders", "--yes")
    Console(project).refused(2, *command, says="fencing token")
