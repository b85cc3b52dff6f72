"""`poller history`: what operators did, newest last, from the trail and the document."""

from __future__ import annotations

import json

from tests.cli.console import Console, ran
from tests.cli.project import Project
from tests.support.schemas import validator
from tests.support.waiting import row_id, waits

TRAIL = "audit/shop/orders.jsonl"


def kinds(console: Console, *arguments: str) -> list[str]:
    ended = console.run("history", "orders", "--json", *arguments)
    assert ended.code == 0, ended.err
    validator("history").validate(ended.json)
    return [record["kind"] for record in ended.json["records"]]


def test_what_operators_did_newest_last(project: Project) -> None:
    console = ran(project)
    assert kinds(console) == ["created"]
    console.done("pause", "orders", "--yes", "--reason", "deploy")
    console.done("resume", "orders", "--yes")
    console.done("reset-to-beginning", "orders", "--yes")
    assert kinds(console) == ["created", "pause", "resume", "reset-to-beginning"]
    assert kinds(console, "--limit", "2") == ["resume", "reset-to-beginning"]
    screen = console.run("history", "orders").out
    assert "deploy" in screen
    assert "2026-01-01 00:00:00 / id=5 -> the beginning" in screen
    assert "generation 0 -> 1" in screen


def test_a_change_that_only_the_document_knows_is_shown_once(project: Project) -> None:
    console = ran(project)
    console.done("pause", "orders", "--yes")
    project.execute("DELETE FROM poller_log", database="state.db")
    assert kinds(console) == ["pause"]
    record = json.dumps(console.state()["control"]["last_change"])
    with console.store() as store:
        for _ in range(3):
            store.append(TRAIL, record)
        store.append(TRAIL, "half a li")
        store.append(TRAIL, '{"kind": 7, "at": null, "by": ["x"]}')
    assert kinds(console) == ["pause", "7"]


def test_the_order_is_the_trails_where_times_are_too_coarse(project: Project) -> None:
    """A blob's server gives whole seconds: of two commands within one, the later may have the earlier time."""
    console = ran(project)
    with console.store() as store:
        for number, second in enumerate(("10.9", "10.1", "20.0", "04.0", "20.5")):
            store.append(
                TRAIL, json.dumps({"id": f"{number}", "kind": f"{number}", "at": f"2026-01-01T00:00:{second}Z"})
            )
    assert kinds(console)[:-1] == ["3", "0", "1", "2", "4"], "3 was copied from the document late"


def test_the_next_writer_copies_what_an_interrupted_command_left(project: Project) -> None:
    console = ran(project)
    console.done("pause", "orders", "--yes")
    project.execute("DELETE FROM poller_log", database="state.db")
    console.done("resume", "orders", "--yes")
    with console.store() as store:
        assert [json.loads(line)["kind"] for line in store.lines(TRAIL)] == ["pause", "resume"]


def test_history_is_shown_of_a_document_that_is_gone(project: Project) -> None:
    console = ran(project)
    console.done("pause", "orders", "--yes")
    console.put("broken")
    assert kinds(console) == ["created", "pause"]


def test_a_value_in_the_trail_that_fills_a_screen_is_cut(project: Project) -> None:
    console = ran(project)
    long = "k" * 700
    place = {"value": long, "tiebreaker": {long: long}}
    sides = {"before": {"cursor": place, long: 1, "why": [long]}, "after": {"cursor": None, long: 2, "why": long}}
    with console.store() as store:
        store.append(TRAIL, json.dumps({"id": long, "kind": long, "by": long, "reason": long, "at": long, **sides}))
    assert len(console.run("history", "orders").out) < 5_000
    assert console.run("history", "orders", "--json").json["records"][-1]["before"] == sides["before"]


def test_commits_and_rows_that_wait_are_part_of_what_happened(project: Project) -> None:
    console = ran(project)
    with console.store() as store:
        waits(store, failed=[2], pending=[4])
    output = console.run("history", "orders", "--json").json
    validator("history").validate(output)
    assert [(one["rows"], one["batches"]) for one in output["commits"]] == [(5, 1)]
    assert [(one["id"], one["status"]) for one in output["rows"]] == [(row_id(2), "aside"), (row_id(4), "pending")]
    screen = console.run("history", "orders").out
    assert "  committed 5 rows in 1 batch\n" in screen
    assert f"row  {row_id(4)} was set aside, and waits for a person" in screen
    assert len(console.run("history", "orders", "--limit", "2").out.splitlines()) == 2


def test_lines_that_are_no_records_are_counted(project: Project) -> None:
    console = ran(project)
    with console.store() as store:
        store.append(TRAIL, "half a li")
        store.append(TRAIL, json.dumps({"id": "long", "kind": "pause", "reason": "x" * 20_000}))
    assert console.run("history", "orders", "--json").json["skipped"] == 2
    assert "2 lines of the trail cannot be read" in console.run("history", "orders").out
