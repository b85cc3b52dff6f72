"""`poller reset-to-checkpoint`: exports, backups and whole documents; documents that are gone or unreadable; tokens."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.cli.console import Console, again, deleted, exported, ran, write
from tests.cli.project import COMMAND, Project
from tests.support.cases import each

EXAMPLE = {
    "version": 1,
    "poller_name": "orders",
    "source_fingerprint": "sha256:...",
    "checkpoint": {
        "cursor": {"kind": "timestamp+pk", "value": "2026-01-01 00:00:00", "tiebreaker": {"id": 3}},
        "last_successful_batch_id": "batch_1",
        "updated_at": "2026-01-01T00:00:00Z",
        "metadata": {"row_count": 3},
    },
    "lease": {"owner_id": None, "fencing_token": 42},
    "theirs": {"kept": True},
}


def test_an_export_is_gone_back_to(project: Project) -> None:
    console = ran(project)
    file = exported(console)
    project.insert(4)
    assert console.run("run", "--once").code == 0
    output = console.done("reset-to-checkpoint", "orders", file, "--yes")
    assert output["after"]["cursor"]["tiebreaker"] == {"id": 5}
    assert (output["effect"]["redelivered"], output["after"]["fencing_token"]) == (4, 3)
    assert [row["id"] for row in console.run("peek", "orders", "--json").json["rows"]] == [6, 7, 8, 9]
    undone = console.undo(output)
    assert undone["after"]["cursor"]["tiebreaker"] == {"id": 9}


@each("with_folder", [True, False])
def test_a_backup_is_named_with_or_without_its_folder(project: Project, with_folder: bool) -> None:
    console = again(project)
    backup = console.done("reset-to-beginning", "orders", "--yes")["backup"]
    name = backup if with_folder else backup.rpartition("/")[2]
    assert console.done("reset-to-checkpoint", "orders", name, "--yes")["after"]["cursor"]["tiebreaker"] == {"id": 5}


def test_a_whole_document_as_the_design_shows_it(project: Project) -> None:
    console = ran(project)
    output = console.done(
        "reset-to-checkpoint", "orders", write(project.folder / "whole.json", json.dumps(EXAMPLE)), "--yes"
    )
    assert output["after"]["cursor"]["tiebreaker"] == {"id": 3}
    assert output["after"]["fencing_token"] == 43
    assert output["after"]["source_fingerprint"] == output["before"]["source_fingerprint"]


def test_a_checkpoint_of_another_source_is_refused_naming_both(project: Project) -> None:
    console = ran(project)
    file = exported(console)
    theirs = console.state()["source_fingerprint"]
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('pk_columns = ["id"]', 'pk_columns = ["id"]\nfilter = "id > 0"'))
    line = console.refused(4, "reset-to-checkpoint", "orders", file, "--yes", says="--rebind")
    assert theirs in line
    assert "filter: none -> id > 0" in line
    output = console.done("reset-to-checkpoint", "orders", file, "--yes", "--rebind", "--allow-skip")
    assert output["after"]["source_fingerprint"] != theirs
    assert console.run("run", "--once").code == 0


def test_a_cursor_of_another_key_is_refused(project: Project) -> None:
    console = ran(project)
    other = json.loads(json.dumps(EXAMPLE))
    other["checkpoint"]["cursor"]["tiebreaker"] = {"number": 3}
    file = write(project.folder / "other.json", json.dumps(other))
    console.refused(4, "reset-to-checkpoint", "orders", file, "--yes", says="key number")


@each(
    "body",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"version": 7, "checkpoint": {}}',
        '{"format": "poller-checkpoint"}',
        '{"format": "poller-checkpoint", "version": 2}',
        "\ud800",
        '{"format": "poller-checkpoint", "version": 1, "app": "a", "poller": "b", "cursor": null, "x": 1e999}',
    ],
)
def test_a_file_without_a_checkpoint_is_a_usage_error(project: Project, body: str) -> None:
    console = again(project)
    path = project.folder / "bad.json"
    path.write_bytes(body.encode("utf-8", "surrogatepass"))
    console.refused(2, "reset-to-checkpoint", "orders", str(path), "--yes", says="bad.json")


def test_a_file_that_is_not_there_names_the_newest_backup(project: Project) -> None:
    console = ran(project)
    console.refused(2, "reset-to-checkpoint", "orders", "nowhere.json", "--yes", says="There is no backup")
    backup = console.done("reset-to-beginning", "orders", "--yes")["backup"]
    console.refused(2, "reset-to-checkpoint", "orders", "nowhere.json", "--yes", says=backup)
    console.refused(2, "reset-to-checkpoint", "orders", str(project.folder), "--yes", says="cannot be read")


def test_the_token_is_raised_after_a_restore(project: Project) -> None:
    console = ran(project)
    file = exported(console)
    output = console.done("reset-to-checkpoint", "orders", file, "--yes", "--token-at-least", "99")
    assert output["after"]["fencing_token"] == 99
    assert (
        console.done("reset-to-checkpoint", "orders", file, "--yes", "--token-at-least", "5")["after"]["fencing_token"]
        == 100
    )


# --- gone, or unreadable -------------------------------------------------------------------------------------------


def test_a_deleted_document_is_put_back_with_a_higher_token(project: Project) -> None:
    console = ran(project)
    backup = console.done("reset-to-beginning", "orders", "--yes")["backup"]
    assert console.run("run", "--once").code == 0
    console.done("reset-to-cursor", "orders", "--value", "2026-01-01 00:00:00", "--pk", "id=1", "--yes")
    highest = console.state()["lease"]["fencing_token"]
    deleted(console)
    line = console.refused(1, "pause", "orders", "--yes")
    assert "reset-to-checkpoint orders FILE" in line
    assert console.run("run", "--once").code == 1
    console.refused(3, "reset-to-checkpoint", "orders", backup)
    output = console.done("reset-to-checkpoint", "orders", backup, "--yes")
    assert output["before"] is None
    assert output["after"]["cursor"]["tiebreaker"] == {"id": 5}
    assert output["after"]["fencing_token"] > highest
    assert output["after"]["owner_id"].startswith("operator/"), "a worker may still trust the old document"
    assert output["starts_after_seconds"] >= 60
    assert json.loads(console.run("run", "--once", "--json").out.splitlines()[-1])["outcome"] == "held_elsewhere"


@each("body", ["", "half a docu", '{"version": 1}', '{"other": "thing"}'])
def test_an_unreadable_document_is_replaced_and_its_bytes_are_kept(project: Project, body: str) -> None:
    console = again(project)
    file = exported(console)
    console.put(body)
    assert console.run("run", "--once").code == 1
    console.refused(1, "reset-to-beginning", "orders", "--yes", says="reset-to-checkpoint")
    output = console.done("reset-to-checkpoint", "orders", file, "--yes")
    assert console.document(output["backup"]) == body
    assert output["undo"] is None
    assert console.state()["checkpoint"]["cursor"]["tiebreaker"] == {"id": 5}


def test_fields_of_others_come_back_with_a_whole_document(project: Project) -> None:
    console = ran(project)
    console.put("gone")
    file = write(project.folder / "whole.json", json.dumps(EXAMPLE))
    console.done("reset-to-checkpoint", "orders", file, "--yes")
    assert console.state()["theirs"] == {"kept": True}
    assert console.state()["lease"]["fencing_token"] == 43


def test_a_newer_versions_document_is_never_overwritten(project: Project) -> None:
    console = ran(project)
    file = exported(console)
    newer: dict[str, Any] = {**console.state(), "version": 2}
    console.put(json.dumps(newer))
    console.refused(1, "reset-to-checkpoint", "orders", file, "--yes", says="Upgrade poller")


# --- what cannot be ------------------------------------------------------------------------------------------------


def impossible(project: Project) -> str:
    other = json.loads(json.dumps(EXAMPLE))
    other["checkpoint"]["cursor"] |= {"value": "hello", "tiebreaker": {"id": 4}}
    return write(project.folder / "impossible.json", json.dumps(other))


def test_a_cursor_that_the_column_cannot_hold_is_refused(project: Project) -> None:
    console = ran(project)
    line = console.refused(
        2, "reset-to-checkpoint", "orders", impossible(project), "--yes", "--allow-skip", says="'hello' is not one"
    )
    assert "poller reset-to-cursor orders" in line


def test_a_way_back_needs_no_database(project: Project) -> None:
    console = ran(project)
    file = exported(console)
    (project.folder / "shop.db").rename(project.folder / "away.db")
    console.done("reset-to-checkpoint", "orders", file, "--yes", "--allow-skip")
    console.done("reset-to-checkpoint", "orders", impossible(project), "--yes", "--allow-skip")


def test_a_way_back_to_an_empty_table(project: Project) -> None:
    console = ran(project)
    file = exported(console)
    project.execute("DELETE FROM orders")
    console.done("reset-to-beginning", "orders", "--yes")
    console.done("reset-to-checkpoint", "orders", file, "--yes", "--allow-skip")
    assert console.state()["checkpoint"]["cursor"]["tiebreaker"] == {"id": 5}


def test_through_a_pipe(project: Project) -> None:
    console = ran(project)
    text = console.run("export-checkpoint", "orders", "-").out
    assert json.loads(text)["cursor"]["tiebreaker"] == {"id": 5}
    assert not (project.folder / "-").exists()
    console.done("reset-to-beginning", "orders", "--yes")

    def piped(*options: str) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, "reset-to-checkpoint", "orders", "-", "--allow-skip", *options]
        return subprocess.run(
            command, cwd=project.folder, input=text, capture_output=True, text=True, check=False, timeout=60
        )

    asked = piped()
    assert asked.returncode == 3
    assert "--yes" in asked.stderr
    assert piped("--yes").returncode == 0
    assert console.state()["checkpoint"]["cursor"]["tiebreaker"] == {"id": 5}


def test_a_cursor_in_another_form_than_the_columns_is_refused(project: Project) -> None:
    console = ran(project)
    file = exported(console)
    project.execute("UPDATE orders SET updated_at = replace(updated_at, ' ', 'T') || 'Z'")
    console.refused(2, "reset-to-checkpoint", "orders", file, "--yes", "--allow-skip", says="in another form")


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


@each("token", [2**53 + 1, 10**30])
def test_a_token_that_no_export_holds_is_refused(project: Project, token: int) -> None:
    console = again(project)
    export = console.run("export-checkpoint", "orders").json
    file = write(project.folder / "high.json", json.dumps({**export, "fencing_token": token}))
    console.refused(2, "reset-to-checkpoint", "orders", file, "--yes", says="fencing_token")


@each(("part", "field"), [("lease", "fencing_token"), ("checkpoint", "generation")])
def test_a_document_at_the_highest_token_is_exported_not_restored(project: Project, part: str, field: str) -> None:
    console = again(project)
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


@each("command", [("reset-to-beginning", "orders"), ("reset-to-checkpoint", "orders", "kept.json")])
def test_no_operators_change_leaves_an_unreadable_document(project: Project, command: tuple[str, ...]) -> None:
    console = again(project)
    file = exported(console)
    console.edit(lease={"fencing_token": HIGHEST})
    stands = console.document()
    ended = console.run(*(file if word == "kept.json" else word for word in command), "--yes")
    assert (ended.code, console.document()) == (1, stands)
    assert "could not be read again" in ended.error


@each("change", [{"last_successful_batch_id": "b" * 5000}, {"metadata": json.loads('{"a":' * 63 + "1" + "}" * 63)}])
def test_an_export_that_no_document_can_hold_is_refused(project: Project, change: dict[str, object]) -> None:
    console = again(project)
    export = {**console.run("export-checkpoint", "orders").json, **change}
    file = write(project.folder / "wide.json", json.dumps(export))
    ended = console.run("reset-to-checkpoint", "orders", file, "--yes")
    assert ended.code in (1, 2)
    assert len(ended.error) < 1000
    assert console.run("status").code == 0
