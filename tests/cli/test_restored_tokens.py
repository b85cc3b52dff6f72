"""A fencing token that an export or a backup has seen is never given out again by what is restored from it."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Project
from tests.cli.console import Console, write
from tests.cli.test_pause import ran
from tests.cli.test_reset_to_checkpoint import deleted, exported


def raised(console: Console, times: int) -> int:
    """Its token, after so many resets."""
    for _ in range(times):
        console.done("reset-to-beginning", "orders", "--yes")
    return int(console.state()["lease"]["fencing_token"])


def test_a_document_made_anew_from_an_export_goes_on_above_the_exports_token(project: Project) -> None:
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
