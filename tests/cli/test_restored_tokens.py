"""A fencing token that an export or a backup has seen is never given out again by what is restored from it."""

from __future__ import annotations

import json

import pytest

from tests.cli.console import Console, deleted, exported, ran, write
from tests.cli.project import Project

HIGHEST = 2**53


def raised(console: Console, times: int) -> int:
    """Its token, after so many resets."""
    for _ in range(times):
        console.done("reset-to-beginning", "orders", "--yes")
    return int(console.state()["lease"]["fencing_token"])


def test_a_document_from_an_export_starts_above_its_token(project: Project) -> None:
    console = ran(project)
    seen = raised(console, 4)
    file = exported(console)
    deleted(console)
    project.execute("DELETE FROM poller_documents", database="state.db")
    project.execute("DELETE FROM poller_log", database="state.db")
    output = console.done("reset-to-checkpoint", "orders", file, "--yes")
    assert output["after"]["fencing_token"] > seen
    assert console.state()["lease"]["fencing_token"] > seen
    assert any(file in note and f", {seen}" in note for note in output["notes"])


def test_an_older_copy_put_back_goes_on_above_the_exports_token(project: Project) -> None:
    console = ran(project)
    older = console.document()
    seen = raised(console, 4)
    file = exported(console)
    console.put(older)
    output = console.done("reset-to-checkpoint", "orders", file, "--yes")
    assert output["after"]["fencing_token"] > seen
    assert any(file in note and f", {seen}" in note for note in output["notes"])
    assert console.undo(output)["after"]["fencing_token"] > output["after"]["fencing_token"]


@pytest.mark.parametrize("token", [2**53 + 1, 10**30])
def test_a_token_that_no_export_holds_is_refused(project: Project, token: int) -> None:
    console = ran(project)
    export = console.run("export-checkpoint", "orders").json
    file = write(project.folder / "high.json", json.dumps({**export, "fencing_token": token}))
    console.refused(2, "reset-to-checkpoint", "orders", file, "--yes", says="fencing_token")


@pytest.mark.parametrize(("part", "field"), [("lease", "fencing_token"), ("checkpoint", "generation")])
def test_a_document_at_the_highest_token_is_exported_not_restored(project: Project, part: str, field: str) -> None:
    console = ran(project)
    whole = console.state()
    console.edit(**{part: {field: HIGHEST}})
    document = write(project.folder / "high.json", console.document())
    for file in (exported(console), document):
        for stands in (json.dumps(whole), "no JSON"):
            console.put(stands)
            console.refused(2, "reset-to-checkpoint", "orders", file, "--yes", says=f"{field} must be at most")


def test_an_impossible_token_does_not_spoil_what_is_restored(project: Project) -> None:
    console = ran(project)
    file = exported(console)
    with console.store() as store:
        store.append("audit/shop/orders.jsonl", json.dumps({"id": "x", "before": {"fencing_token": HIGHEST - 1}}))
    console.put("no JSON")
    assert console.done("reset-to-checkpoint", "orders", file, "--yes")["after"]["fencing_token"] < 10


@pytest.mark.parametrize("command", [("reset-to-beginning", "orders"), ("reset-to-checkpoint", "orders", "kept.json")])
def test_no_operators_change_leaves_an_unreadable_document(project: Project, command: tuple[str, ...]) -> None:
    console = ran(project)
    file = exported(console)
    console.edit(lease={"fencing_token": HIGHEST})
    stands = console.document()
    ended = console.run(*(file if word == "kept.json" else word for word in command), "--yes")
    assert (ended.code, console.document()) == (1, stands)
    assert "could not be read again" in ended.error


@pytest.mark.parametrize(
    "change", [{"last_successful_batch_id": "b" * 5000}, {"metadata": json.loads('{"a":' * 63 + "1" + "}" * 63)}]
)
def test_an_export_that_no_document_can_hold_is_refused(project: Project, change: dict[str, object]) -> None:
    console = ran(project)
    export = {**console.run("export-checkpoint", "orders").json, **change}
    file = write(project.folder / "wide.json", json.dumps(export))
    ended = console.run("reset-to-checkpoint", "orders", file, "--yes")
    assert ended.code in (1, 2)
    assert len(ended.error) < 1000
    assert console.run("status").code == 0
