"""`poller quarantine replay`: rows that wait are handed to the handler again because a person says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.console import Console, changed
from tests.cli.project import Project
from tests.support.schemas import validator
from tests.support.waiting import row_id

HANDLER = """
from pathlib import Path
from poller import RetryLater
HERE = Path(__file__).parent

def handle(batch):
    bad = (HERE / "bad").read_text().split()
    for row in batch:
        if "later" in bad:
            raise RetryLater("the shop is closed", after="1s")
        if str(row["id"]) in bad:
            batch.reject(row, "no such customer")
            continue
        with (HERE / "seen").open("a") as out:
            print(row["id"], batch.replay, batch.retry, row["updated_at"], batch.standing.through, file=out)
"""
KEY = "2026-01-01 00:00:00"


def rejecting(project: Project, *bad: int, rows: int = 5, options: str = "") -> Console:
    """A poller whose handler rejected these rows; those of one second have one ordering key, and follow."""
    quarantine = f'on_poison = "quarantine"\nbatch_size = 1\nordering_key = ["updated_at"]\n{options}'
    project.configure("orders", handlers=HANDLER, poller=quarantine)
    project.insert(rows)
    mended(project, *bad)
    console = Console(project)
    ended = console.run("run", "--until-idle")
    assert ended.code in (0, 1), ended.err
    return console


def mended(project: Project, *bad: object) -> None:
    """The handler rejects these rows only."""
    (project.folder / "bad").write_text(" ".join(map(str, bad)))


def seen(project: Project) -> list[int]:
    """The rows that the handler took by a replay."""
    return [int(line.split()[0]) for line in project.lines("seen") if line.split()[1] == "True"]


def replay(console: Console, *words: str, code: int = 0) -> dict[str, Any]:
    ended = console.run("quarantine", "replay", "orders", *words, "--yes", "--json")
    assert ended.code == code, (ended.out, ended.err)
    validator("quarantine-replay").validate(ended.json)
    found: dict[str, Any] = ended.json
    return found


def outcomes(output: dict[str, Any]) -> list[tuple[int, str]]:
    return [(row["pk"]["id"], row["outcome"]) for row in output["rows"]]


def waiting(console: Console) -> dict[str, list[int]]:
    found = console.run("quarantine", "list", "orders", "--json").json
    return {which: [row["pk"]["id"] for row in found[which]] for which in ("aside", "pending")}


def record(console: Console, number: int) -> dict[str, Any]:
    return console.state(f"quarantine/shop/orders/{row_id(number)}.json")


def test_a_row_is_handed_over_again_and_waits_no_longer(project: Project) -> None:
    console = rejecting(project, 5)
    before = console.state()
    assert waiting(console) == {"aside": [], "pending": [5]}
    mended(project)
    project.environ["POLLER_OPERATOR"] = "ada@console"
    output = replay(console, "--id", row_id(5), "--reason", "fixed")
    assert (output["replayed"], outcomes(output)) == (1, [(5, "replayed")])
    assert project.lines("seen")[-1] == f"5 True False {KEY} 5", "through is what is settled"
    assert waiting(console) == {"aside": [], "pending": []}
    settled = record(console, 5)["settled"]
    assert (record(console, 5)["status"], settled["by"], settled["reason"]) == ("replayed", "ada@console", "fixed")
    state = console.state()
    assert state["checkpoint"] == before["checkpoint"]
    assert (state["lease"]["owner_id"], state["delivery"]["attempts"]) == (None, before["delivery"]["attempts"])
    last = console.run("history", "orders", "--json").json["records"][-1]
    assert (last["kind"], last["by"], last["reason"], last["after"]["replayed"]) == (
        "quarantine replay", "ada@console", "fixed", 1,
    )  # fmt: skip


@pytest.mark.guarantee(
    "One worker at a time",
    "A replay hands the rows of an ordering key over oldest first, stops at the first that fails, and never moves "
    "the checkpoint",
)
def test_a_key_goes_oldest_first_and_stops_at_the_first_that_fails(project: Project) -> None:
    console = rejecting(project, 2)
    assert waiting(console) == {"aside": [3, 4, 5], "pending": [2]}
    mended(project, 4)
    output = replay(console, "--key", f"updated_at={KEY}", code=1)
    assert outcomes(output) == [(2, "replayed"), (3, "replayed"), (4, "failed"), (5, "refused")]
    assert seen(project) == [2, 3]
    assert waiting(console) == {"aside": [4, 5], "pending": []}
    assert record(console, 4)["error"]["message"] == "no such customer"
    assert record(console, 4)["status"] == "aside"
    mended(project)
    assert outcomes(replay(console, "--all")) == [(4, "replayed"), (5, "replayed")]
    assert seen(project) == [2, 3, 4, 5]


def test_a_row_that_fails_again_stays_pending_and_says_so(project: Project) -> None:
    console = rejecting(project, 5)
    output = replay(console, "--all", code=1)
    assert outcomes(output) == [(5, "failed")]
    assert "no such customer" in output["rows"][0]["error"]
    assert waiting(console)["pending"] == [5]
    assert record(console, 5)["batch_id"].startswith("replay_")
    assert console.state()["lease"]["owner_id"] is None


def test_a_later_row_of_a_key_is_not_replayed_before_the_earlier(project: Project) -> None:
    console = rejecting(project, 2)
    mended(project)
    ended = console.run("quarantine", "replay", "orders", "--id", row_id(3), "--yes")
    assert ended.code == 3
    assert row_id(2) in ended.error
    assert seen(project) == []


def test_an_outage_stops_it_and_counts_for_nothing(project: Project) -> None:
    console = rejecting(project, 2, 15, rows=15)
    mended(project, "later")
    before = record(console, 2)
    output = replay(console, "--id", row_id(2), "--id", row_id(15), code=1)
    assert outcomes(output) == [(2, "failed"), (15, "not_tried")]
    assert "later" in output["stopped"]
    assert record(console, 2) == before


@pytest.mark.parametrize("gone", [False, True])
def test_a_version_that_the_table_has_no_more_must_be_named(project: Project, gone: bool) -> None:
    console = rejecting(project, 5)
    mended(project)
    change = (
        "DELETE FROM orders WHERE id = 5"
        if gone
        else "UPDATE orders SET updated_at = '2999-01-01 00:00:00' WHERE id = 5"
    )
    project.execute(change)
    words = ("quarantine", "replay", "orders", "--id", row_id(5), "--yes")
    error = console.run(*words).error
    assert "--current" in error
    assert "--recorded" in error
    assert ("no such row" if gone else "newer version") in error
    assert console.run(*words, "--current").code == 3, "it is gone, or comes by itself"
    assert console.run(*words, "--current", "--recorded").code == 2
    assert seen(project) == []
    assert outcomes(replay(console, "--id", row_id(5), "--recorded")) == [(5, "replayed")]
    assert project.lines("seen")[-1].startswith(f"5 True False {KEY}")


def test_of_before_a_reset_the_version_must_be_named(project: Project) -> None:
    console = rejecting(project, 5)
    mended(project)
    console.done("reset-to-beginning", "orders", "--yes")
    assert console.run("run", "--until-idle").code == 0
    project.execute("UPDATE orders SET updated_at = '2026-01-01 00:00:07' WHERE id = 5")
    assert console.run("run", "--until-idle").code == 0
    words = ("--id", row_id(5))
    error = console.run("quarantine", "replay", "orders", *words, "--yes").error
    assert "from before the last reset" in error
    assert "--current" in error
    assert outcomes(replay(console, *words, "--current")) == [(5, "replayed")]
    assert project.lines("seen")[-1].startswith("5 True False 2026-01-01 00:00:07"), "as the table has it now"
    assert waiting(console) == {"aside": [], "pending": []}


def test_without_a_record_only_the_tables_version_can_be_replayed(project: Project) -> None:
    console = rejecting(project, 5)
    mended(project)
    name = f"quarantine/shop/orders/{row_id(5)}.json"
    project.execute(f"DELETE FROM poller_documents WHERE name = '{name}'", database="state.db")
    assert "missing" in console.run("quarantine", "replay", "orders", "--all", "--yes").error
    assert outcomes(replay(console, "--all", "--current")) == [(5, "replayed")]


def test_a_killed_try_is_counted_by_the_replay_that_finds_it(project: Project) -> None:
    console = rejecting(project, 2)
    console.edit(retrying=row_id(3))
    mended(project, 2)
    replay(console, "--id", row_id(2), code=1)
    state = console.state()
    (third,) = (row for row in state["aside"] if row["id"] == row_id(3))
    assert third["failures"] == 1
    assert "retrying" not in state


@pytest.mark.parametrize("mode", ["block", "halt"])
def test_the_mode_does_not_matter(project: Project, mode: str) -> None:
    console = rejecting(project, 5)
    mended(project)
    changed(project, '"quarantine"', f'"{mode}"')
    assert outcomes(replay(console, "--all")) == [(5, "replayed")]
