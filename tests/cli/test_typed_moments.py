"""A moment that is typed shorter, longer or otherwise than the rows of SQLite write it means the same row."""

from __future__ import annotations

import pytest

from tests.cli.console import Console
from tests.cli.project import Project

TIES = [(n, f"2026-04-07 01:23:{n // 10:02d}.000") for n in range(1, 31)]
"""Ten rows on each second, but nine on the first."""


def shop(project: Project) -> Console:
    project.configure("orders")
    project.execute("INSERT INTO orders VALUES (?, ?)", *TIES)
    console = Console(project)
    assert console.run("run", "--once").code == 0
    return console


@pytest.mark.parametrize(
    "typed",
    ["2026-04-07 01:23:02", "2026-04-07T01:23:02", "2026-04-07 01:23:02.0", "2026-04-07T01:23:02.000000"],
)
def test_the_rows_behind_the_named_one_come_again_and_no_other(project: Project, typed: str) -> None:
    console = shop(project)
    output = console.done("reset-to-cursor", "orders", "--value", typed, "--pk", "id=25", "--yes")
    assert output["after"]["cursor"]["value"] == "2026-04-07 01:23:02.000"
    assert output["effect"]["redelivered"] == 5
    assert [row["id"] for row in console.run("peek", "orders", "--json").json["rows"]] == [26, 27, 28, 29, 30]


def test_what_says_more_than_the_rows_do_is_kept(project: Project) -> None:
    console = shop(project)
    output = console.done("reset-to-cursor", "orders", "--value", "2026-04-07 01:23:01.12345", "--pk", "id=1", "--yes")
    assert output["after"]["cursor"]["value"] == "2026-04-07 01:23:01.12345"
    assert output["effect"]["redelivered"] == 11


def test_a_row_that_is_written_shorter_is_meant_as_it_stands(project: Project) -> None:
    console = shop(project)
    project.execute("INSERT INTO orders VALUES (?, ?)", (40, "2026-04-07 01:23:02"))
    output = console.done(
        "reset-to-cursor", "orders", "--value", "2026-04-07T01:23:02", "--pk", "id=40", "--yes", "--allow-skip"
    )
    assert output["after"]["cursor"]["value"] == "2026-04-07 01:23:02"
    assert console.run("peek", "orders", "--json").json["rows"][0]["id"] == 20


def test_a_range_has_one_backfill_however_its_ends_are_written(project: Project) -> None:
    console = shop(project)
    first = console.run(
        "backfill", "orders", "--from", "2026-04-07 01:23:01", "--to", "2026-04-07 01:23:02", "--yes", "--json"
    )
    assert (first.code, first.json["rows"]) == (0, 10), first.err
    for begins, ends in (("T01:23:01", "T01:23:02"), (" 01:23:01.000", " 01:23:02.0")):
        again = console.run(
            "backfill", "orders", "--from", f"2026-04-07{begins}", "--to", f"2026-04-07{ends}", "--yes", "--json"
        )
        assert again.json["name"] == first.json["name"]
        assert again.json["already_done"] is True
