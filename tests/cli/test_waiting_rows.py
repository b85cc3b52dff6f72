"""While rows wait, aside or in quarantine, neither the ordering key nor the source may change."""

from __future__ import annotations

import json
import os
from typing import Any
from unittest.mock import patch

import pytest

from poller import load_app
from poller.admin import Changes, Rebind, Refused
from tests.cli.console import Console, again, changed, deleted, ran, write
from tests.cli.project import Project
from tests.support.cases import each

SETTLE = "poller quarantine replay orders --all"


def waits(number: int, **fields: Any) -> dict[str, Any]:
    """A row as a state document lists it."""
    cursor = {"kind": "timestamp+pk", "value": "2026-01-01 00:00:00", "tiebreaker": {"id": number}}
    return {"id": f"{number:016x}", "pk": f"{number:016x}", "key": "00ff", "cursor": cursor, "at": number, **fields}


def with_rows(project: Project) -> Console:
    """One row is aside and one is pending."""
    console = ran(project)
    console.edit(aside=[waits(1)], quarantine=[waits(2)])
    return console


@pytest.mark.guarantee(
    "Delivery",
    "While rows wait, neither their ordering key nor their source changes, and no other poller lists them",
)
@each(
    ("stored", "configured", "says"),
    [
        ([], 'ordering_key = ["total"]', "is total, and 2 rows wait"),
        (["total"], "", "is the key columns, and 2 rows wait"),
        (["total"], 'ordering_key = ["updated_at"]', 'ordering_key = ["total"]'),
    ],
)
def test_another_ordering_key_starts_no_tick(project: Project, stored: list[str], configured: str, says: str) -> None:
    console = again(project, with_rows)
    console.edit(ordering_key=stored)
    changed(project, 'handler = "', f'{configured}\nhandler = "')
    before = console.everything()
    for words in (says, SETTLE, "discard orders --all"):
        console.refused(2, "run", "--once", says=words)
    assert console.everything() == before


@each("configured", ["", 'ordering_key = ["id"]\n'])
@each("stored", [[], ["id"]])
def test_the_key_columns_are_the_same_named_or_not(project: Project, configured: str, stored: list[str]) -> None:
    console = again(project)
    console.edit(quarantine=[waits(2)], ordering_key=stored)
    changed(project, 'handler = "', f'{configured}handler = "')
    assert console.run("run", "--once").code == 0


def test_the_ordering_key_may_change_while_no_row_waits(project: Project) -> None:
    console = ran(project)
    changed(project, 'handler = "', 'ordering_key = ["updated_at"]\nhandler = "')
    project.insert(1)
    assert console.run("run", "--once").code == 0


# --- the source, and checkpoints of other pollers


def moved(project: Project) -> None:
    project.execute("CREATE TABLE orders2 (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    project.execute("INSERT INTO orders2 SELECT * FROM orders")
    changed(project, 'table = "orders"', 'table = "orders2"')


@each("arguments", [("rebind", "orders"), ("reset-to-beginning", "orders")])
def test_another_source_is_refused_while_rows_wait(project: Project, arguments: tuple[str, ...]) -> None:
    console = again(project, with_rows)
    moved(project)
    for words in ("2 rows of its source wait", SETTLE, "discard orders --all"):
        console.refused(3, *arguments, "--yes", says=words)
    console.edit(aside=[], quarantine=[])
    assert console.done(*arguments, "--yes")["changed"] is True


def test_a_row_that_is_listed_meanwhile_counts_too(project: Project) -> None:
    console = ran(project)
    moved(project)

    with (
        patch.dict(os.environ, project.environ),
        load_app(project.folder / "poller.toml", observers=[]) as app,
    ):
        changes = Changes(app.poller("orders"))
        preview = changes.prepare(Rebind())
        console.edit(aside=[waits(1)])
        with pytest.raises(Refused, match="1 row of its source waits"):
            changes.apply(preview)
    assert console.state()["source"]["table"] == "orders"


@pytest.mark.parametrize("lost", [False, True], ids=["there", "lost"])
def test_a_checkpoint_of_another_source_is_refused_too(project: Project, lost: bool) -> None:
    console = with_rows(project)
    backup = console.done("reset-to-beginning", "orders", "--yes")["backup"]
    if lost:
        deleted(console)
    moved(project)
    console.refused(3, "reset-to-checkpoint", "orders", backup, "--rebind", "--allow-skip", "--yes", says=SETTLE)


def test_a_reset_of_the_same_source_keeps_what_waits(project: Project) -> None:
    console = with_rows(project)
    console.done("reset-to-beginning", "orders", "--yes")
    state = console.state()
    assert "aside" not in state
    assert [row["id"] for row in state["quarantine"]] == [waits(2)["id"], waits(1)["id"]]


def test_a_backup_brings_back_no_row_that_was_settled(project: Project) -> None:
    console = with_rows(project)
    backup = console.done("reset-to-beginning", "orders", "--yes")["backup"]
    console.edit(quarantine=[waits(3)])
    console.done("reset-to-checkpoint", "orders", backup, "--yes")
    assert [row["id"] for row in console.state()["quarantine"]] == [waits(3)["id"]]


def test_a_backup_for_a_lost_document_brings_back_what_waits(project: Project) -> None:
    console = with_rows(project)
    backup = console.done("reset-to-beginning", "orders", "--yes")["backup"]
    deleted(console)
    console.done("reset-to-checkpoint", "orders", backup, "--yes")
    assert {row["id"] for row in console.state()["quarantine"]} == {waits(1)["id"], waits(2)["id"]}
    assert "aside" not in console.state()


def test_a_document_of_another_poller_brings_no_rows(project: Project) -> None:
    console = with_rows(project)
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace("orders]", "orders-v2]").replace("orders.source]", "orders-v2.source]"))
    file = write(project.folder / "whole.json", json.dumps(console.state()))
    output = console.done("reset-to-checkpoint", "orders-v2", file, "--yes")
    assert any("poller quarantine list orders" in note for note in output["notes"])
    assert {"aside", "quarantine"}.isdisjoint(console.state("state/shop/orders-v2.json"))


def test_a_clone_lists_no_row_of_its_origin(project: Project) -> None:
    console = with_rows(project)
    output = console.done("clone-checkpoint", "orders", "orders-v2", "--yes")
    assert any("Under orders, 2 rows wait" in note for note in output["notes"])
    assert {"aside", "quarantine", "ordering_key"}.isdisjoint(console.state("state/shop/orders-v2.json"))
    assert len(console.state()["aside"]) == 1


def test_a_clones_target_keeps_its_own_rows(project: Project) -> None:
    console = with_rows(project)
    console.done("clone-checkpoint", "orders", "orders-v2", "--yes")
    new = console.state("state/shop/orders-v2.json")
    console.put(json.dumps({**new, "quarantine": [waits(7)]}), "state/shop/orders-v2.json")
    console.done("clone-checkpoint", "orders", "orders-v2", "--overwrite", "--yes")
    assert [row["id"] for row in console.state("state/shop/orders-v2.json")["quarantine"]] == [waits(7)["id"]]
