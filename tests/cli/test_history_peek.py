"""`poller history` and `poller peek`: they show, and change nothing."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from tests.cli.console import Console, ran
from tests.cli.project import NOTING, Project, end, wait_until
from tests.support.schemas import validator

TRAIL = "audit/shop/orders.jsonl"


def kinds(console: Console, *arguments: str) -> list[str]:
    ended = console.run("history", "orders", "--json", *arguments)
    assert ended.code == 0, ended.err
    validator("history").validate(ended.json)
    return [record["kind"] for record in ended.json["records"]]


def test_what_operators_did_newest_last(project: Project) -> None:
    console = ran(project)
    assert kinds(console) == []
    assert "nothing was recorded" in console.run("history", "orders").out
    console.done("pause", "orders", "--yes", "--reason", "deploy")
    console.done("resume", "orders", "--yes")
    console.done("reset-to-beginning", "orders", "--yes")
    assert kinds(console) == ["pause", "resume", "reset-to-beginning"]
    assert kinds(console, "--limit", "2") == ["resume", "reset-to-beginning"]
    screen = console.run("history", "orders").out
    assert "deploy" in screen
    assert "2026-01-01 00:00:00 / id=5 -> the beginning" in screen
    assert "generation 0 -> 1" in screen


def test_a_change_that_only_the_document_knows_is_told_once(project: Project) -> None:
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


def test_the_order_is_that_of_the_trail_where_times_are_too_coarse_to_tell(project: Project) -> None:
    """A blob's server tells whole seconds: of two commands within one, the later may bear the earlier time."""
    console = ran(project)
    with console.store() as store:
        for number, second in enumerate(("10.9", "10.1", "20.0", "04.0", "20.5")):
            store.append(
                TRAIL, json.dumps({"id": f"{number}", "kind": f"{number}", "at": f"2026-01-01T00:00:{second}Z"})
            )
    assert kinds(console) == ["3", "0", "1", "2", "4"], "3 was copied from the document late"


def test_the_next_writer_copies_what_an_interrupted_command_did_not(project: Project) -> None:
    console = ran(project)
    console.done("pause", "orders", "--yes")
    project.execute("DELETE FROM poller_log", database="state.db")
    console.done("resume", "orders", "--yes")
    with console.store() as store:
        assert [json.loads(line)["kind"] for line in store.lines(TRAIL)] == ["pause", "resume"]


def test_history_is_told_of_a_document_that_is_gone(project: Project) -> None:
    console = ran(project)
    console.done("pause", "orders", "--yes")
    console.put("broken")
    assert kinds(console) == ["pause"]


def test_the_next_rows_and_where_they_begin(project: Project) -> None:
    console = ran(project)
    project.insert(4)
    before = console.everything()
    ended = console.run("peek", "orders", "--limit", "3", "--json")
    assert ended.code == 0
    validator("peek").validate(ended.json)
    assert [row["id"] for row in ended.json["rows"]] == [6, 7, 8]
    assert ended.json["cursor"]["tiebreaker"] == {"id": 5}
    screen = console.run("peek", "orders").out.splitlines()
    assert screen[1].split() == ["id", "updated_at"]
    assert screen[3].startswith("6 ")
    assert console.everything() == before


def test_before_the_first_tick_peek_creates_nothing(project: Project) -> None:
    project.configure("orders")
    project.insert(1)
    console = Console(project)
    assert [row["id"] for row in console.run("peek", "orders", "--json").json["rows"]] == [1]
    assert console.everything() == []
    project.execute("DELETE FROM orders")
    assert "no row after the beginning" in console.run("peek", "orders").out


def test_peek_tells_of_the_bound_only_where_it_is_held(project: Project) -> None:
    console = ran(project)
    assert console.run("peek", "orders").out == "orders: no row after 2026-01-01 00:00:00 / id=5\n"
    project.execute("PRAGMA journal_mode = wal")
    with closing(sqlite3.connect(project.folder / "shop.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        held = console.run("peek", "orders").out
        bound = console.run("peek", "orders", "--json").json["bound"]
        writer.execute("ROLLBACK")
    assert f"(the bound is held by {bound['held_by']}" in held


def test_peek_does_not_mind_a_worker(project: Project) -> None:
    project.configure("orders", handlers=NOTING)
    project.insert(2)
    (project.folder / "wait").touch()
    worker = project.start("run", "--once")
    wait_until(lambda: project.lines("started"))
    ended = Console(project).run("peek", "orders", "--json")
    (project.folder / "wait").unlink()
    assert end(worker).code == 0
    assert len(ended.json["rows"]) == 2


def test_values_of_every_kind_are_json_and_cannot_steer_a_terminal(project: Project) -> None:
    project.configure("orders")
    project.execute("ALTER TABLE orders ADD COLUMN note")
    project.execute(
        "INSERT INTO orders VALUES (?, ?, ?)",
        (1, "2026-01-01 00:00:01", "a\x1b[2Jb"),
        (2, "2026-01-01 00:00:02", b"\x00\xff"),
        (3, "2026-01-01 00:00:03", float("inf")),
        (4, "2026-01-01 00:00:04", None),
    )
    console = Console(project)
    rows = console.run("peek", "orders", "--json").json["rows"]
    assert [row["note"] for row in rows] == ["a\x1b[2Jb", "00ff", "inf", None]
    assert "\x1b" not in console.run("peek", "orders").out


def test_a_changed_source_is_not_peeked_at(project: Project) -> None:
    console = ran(project)
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('pk_columns = ["id"]', 'pk_columns = ["id"]\nfilter = "id > 0"'))
    console.refused(4, "peek", "orders", says="poller rebind orders")
    console.refused(2, "peek", "orders", "--limit", "0")


def test_a_value_in_the_trail_that_fills_a_screen_is_cut(project: Project) -> None:
    console = ran(project)
    long = "k" * 30_000
    place = {"value": long, "tiebreaker": {long: long}}
    sides = {"before": {"cursor": place, long: 1, "why": [long]}, "after": {"cursor": None, long: 2, "why": long}}
    with console.store() as store:
        store.append(TRAIL, json.dumps({"id": long, "kind": long, "by": long, "reason": long, "at": long, **sides}))
    assert len(console.run("history", "orders").out) < 5_000
    assert console.run("history", "orders", "--json").json["records"][0]["before"] == sides["before"]
