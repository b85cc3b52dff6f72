"""Rows that are there and may not be read yet: `status` and `peek` say that they wait, not that there is none."""

from __future__ import annotations

from tests.cli.console import ran, word
from tests.cli.project import Project


def test_a_row_above_the_bound_is_told_as_waiting(project: Project) -> None:
    console = ran(project)
    project.execute("INSERT INTO orders VALUES (?, ?)", (6, "2099-01-01 00:00:00"))
    assert word(console) == "waiting"
    status = console.run("status", "--json").json["pollers"][0]
    assert (status["above_bound"], status["pending"]) == (True, 1)
    told = f"1 row waits above the bound {status['bound']['value'][:10]}"
    screen = console.run("status").out
    assert told in screen
    assert "poller check" in screen
    peeked = console.run("peek", "orders").out
    assert told in peeked
    assert "no row" not in peeked


def test_rows_of_which_one_can_be_read_are_behind(project: Project) -> None:
    console = ran(project)
    project.execute("INSERT INTO orders VALUES (?, ?)", (6, "2099-01-01 00:00:00"))
    project.execute("INSERT INTO orders VALUES (?, ?)", (7, "2026-02-01 00:00:00"))
    assert word(console) == "behind"
    assert "2 rows pending" in console.run("status").out
    assert console.run("status", "--json").json["pollers"][0]["above_bound"] is False
    assert "2026-02-01" in console.run("peek", "orders").out


def test_nothing_that_waits_is_no_row(project: Project) -> None:
    console = ran(project)
    assert word(console) == "idle"
    assert "no row after" in console.run("peek", "orders").out
