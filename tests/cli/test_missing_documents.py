"""`reset-to-beginning` and `reset-to-cursor` of a deleted state document: what a person does without a backup."""

from __future__ import annotations

import json

import pytest

from tests.cli.console import STATE, Console, deleted, ran
from tests.cli.project import Project

BEGINNING = ("reset-to-beginning", "orders")
CURSOR = ("reset-to-cursor", "orders", "--value", "2026-01-01 00:00:00", "--pk", "id=3", "--allow-skip")


def gone(project: Project) -> Console:
    """A poller that never failed: its document is deleted, and the trace of its creation is left."""
    console = ran(project)
    deleted(console)
    assert console.names("") == ["audit/shop/orders.jsonl"]
    return console


@pytest.mark.parametrize(("command", "place"), [(BEGINNING, None), (CURSOR, {"id": 3})])
def test_a_reset_makes_it_and_keeps_the_lease(
    project: Project, command: tuple[str, ...], place: dict[str, int] | None
) -> None:
    console = gone(project)
    output = console.done(*command, "--yes", "--reason", "it was deleted")
    assert (output["changed"], output["before"], output["undo"]) == (True, None, None)
    cursor = output["after"]["cursor"]
    assert (cursor and cursor["tiebreaker"]) == place
    assert output["after"]["fencing_token"] == 2, "the trace of the creation names 1"
    assert output["after"]["owner_id"].startswith("operator/"), "a worker may still trust the old document"
    assert output["starts_after_seconds"] >= 60
    assert output["after"]["source_fingerprint"].startswith("sha256:")
    record = console.run("history", "orders", "--json").json["records"][-1]
    assert (record["kind"], record["reason"]) == (command[0], "it was deleted")
    assert json.loads(console.run("run", "--once", "--json").out.splitlines()[-1])["outcome"] == "held_elsewhere"
    console.edit(lease={"owner_id": None, "operator_token": None})
    assert console.run("run", "--once").code == 0


def test_it_is_refused_until_it_is_agreed_to(project: Project) -> None:
    console = gone(project)
    console.refused(3, *BEGINNING)
    console.refused(3, *CURSOR)
    cursor = [part for part in CURSOR if part != "--allow-skip"]
    console.refused(3, *cursor, "--yes", says="rows may be skipped")


def test_a_dry_run_shows_it_and_changes_nothing(project: Project) -> None:
    console = gone(project)
    before = console.everything()
    ended = console.run(*BEGINNING, "--dry-run")
    assert ended.code == 0
    assert "unknown -> the beginning" in ended.out
    assert "above the highest that left a trace" in " ".join(ended.out.split())
    assert console.everything() == before


def test_its_token_goes_above_what_a_person_knows(project: Project) -> None:
    console = gone(project)
    assert console.done(*BEGINNING, "--yes", "--token-at-least", "99")["after"]["fencing_token"] == 99
    console.edit(lease={"owner_id": None, "operator_token": None})
    assert console.done(*BEGINNING, "--yes", "--token-at-least", "200")["after"]["fencing_token"] == 200


def test_its_token_goes_above_that_of_a_record_of_a_row(project: Project) -> None:
    console = gone(project)
    name = "quarantine/shop/orders/0123456789abcdef.json"
    record = {
        "version": 1,
        "app_name": "shop",
        "poller_name": "orders",
        "id": "0123456789abcdef",
        "pk": "1",
        "key": "1",
        "cursor": {"kind": "timestamp+pk", "value": "2026-01-01 00:00:00", "tiebreaker": {"id": 3}},
        "row": {"id": 3},
        "status": "delivered",
        "fencing_token": 41,
        "generation": 6,
    }
    with console.store() as store:
        store.write(name, json.dumps(record).encode(), if_tag=None)
    output = console.done(*BEGINNING, "--yes")
    assert output["after"]["fencing_token"] == 42
    assert console.state()["checkpoint"]["generation"] == 7


def test_where_nothing_is_left_a_person_says_where_it_begins(project: Project) -> None:
    console = ran(project)
    for table in ("poller_documents", "poller_log"):
        project.execute(f"DELETE FROM {table}", database="state.db")
    output = console.done(*CURSOR, "--yes")
    assert output["after"]["cursor"]["tiebreaker"] == {"id": 3}
    assert any("no trace" in note for note in output["notes"])
    assert console.state(STATE)["control"]["last_change"]["kind"] == "reset-to-cursor"


def test_a_clone_over_a_deleted_poller_keeps_the_lease(project: Project) -> None:
    console = gone(project)
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace("[pollers.orders", "[pollers.copies") + text[text.index("[pollers.orders") :])
    assert console.run("run", "copies", "--once").code == 0
    output = console.done("clone-checkpoint", "copies", "orders", "--yes")
    assert output["after"]["fencing_token"] == 2
    assert output["after"]["owner_id"].startswith("operator/")
