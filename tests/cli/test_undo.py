"""`poller undo`: the newest change that was not taken back, or one by its id."""

from __future__ import annotations

import json
import os
from typing import Any
from unittest.mock import patch

import pytest

from poller import load_app
from poller.admin import Changes, Preview, Refused, WrongArgument, undo_of
from tests.cli.console import Console, again, at_work, changed, deleted, exported, ran
from tests.cli.project import Project
from tests.support.cases import each
from tests.support.schemas import validator
from tests.support.waiting import row_id, waits

ROW = ("--value", "2026-01-01T00:00:00", "--pk", "id=2")
TRAIL = "audit/shop/orders.jsonl"


def place(console: Console) -> Any:
    """The key of the row up to which everything was delivered."""
    cursor = console.state()["checkpoint"]["cursor"]
    return None if cursor is None else cursor["tiebreaker"]["id"]


def waiting(project: Project) -> Console:
    """Two rows wait for a person."""
    console = ran(project, rows=8)
    with console.store() as store:
        waits(store, pending=[2, 4])
    return console


def earlier(record: dict[str, Any]) -> dict[str, Any]:
    """As an earlier version wrote it."""
    return {key: value for key, value in record.items() if key not in ("backup", "undo", "undid")}


def undone(console: Console, *arguments: str) -> dict[str, Any]:
    return console.done("undo", "orders", *arguments, "--yes")


def listed(console: Console) -> list[dict[str, Any]]:
    ended = console.run("undo", "orders", "--list", "--json")
    assert ended.code == 0, ended.err
    validator("undo-list").validate(ended.json)
    changes: list[dict[str, Any]] = ended.json["changes"]
    return changes


def test_a_reset_is_taken_back_without_leave_to_skip(project: Project) -> None:
    console = ran(project)
    reset = console.done("reset-to-beginning", "orders", "--yes")
    output = undone(console, "--reason", "the wrong poller")
    assert (output["command"], place(console), output["effect"]["skipped"]) == ("undo", 5, 0)
    assert any(f"It takes back reset-to-beginning {reset['id'][:8]}" in note for note in output["notes"])
    record = console.state()["control"]["last_change"]
    assert (record["kind"], record["undid"], record["undo"]) == ("undo", reset["id"], "restore")
    assert record["backup"] == output["backup"]


@pytest.mark.guarantee(
    "One worker at a time",
    "An operator's change is taken back to exactly what it replaced, newest first or by its id, and skips no row",
)
def test_changes_are_taken_back_one_after_another(project: Project) -> None:
    console = ran(project)
    console.done("reset-to-cursor", "orders", *ROW, "--yes")
    console.done("reset-to-beginning", "orders", "--yes")
    console.done("pause", "orders", "--yes")
    assert [undone(console)["after"]["paused"], place(console)] == [False, None]
    output = undone(console)
    assert not any("stays" in note for note in output["notes"]), "the pause is gone with its undo"
    assert place(console) == 2
    assert undone(console)["changed"]
    assert place(console) == 5
    assert "no change of 'orders' to take back" in console.refused(2, "undo", "orders", "--yes")


def test_an_undo_is_taken_back_by_its_id(project: Project) -> None:
    console = ran(project)
    console.done("reset-to-beginning", "orders", "--yes")
    first = undone(console)
    assert place(console) == 5
    console.undo(first)
    assert place(console) is None
    again = undone(console)
    assert place(console) == 5, "the reset counts again"
    assert [one["undone"] for one in listed(console)] == [True, True, False, False]
    assert again["changed"]


def test_an_older_change_by_its_id_leaves_the_newer_ones(project: Project) -> None:
    console = ran(project)
    reset = console.done("reset-to-beginning", "orders", "--yes")
    console.done("pause", "orders", "--yes", "--reason", "migration")
    output = undone(console, "--change", reset["id"][:8])
    assert any("What was changed since then stays: pause " in note for note in output["notes"])
    assert (place(console), console.state()["control"]["paused"]) == (5, True)
    console.refused(3, "undo", "orders", "--change", reset["id"], "--yes", says="taken back already")


def test_what_was_resumed_is_paused_again(project: Project) -> None:
    console = ran(project)
    console.done("pause", "orders", "--yes", "--reason", "migration")
    console.done("resume", "orders", "--yes")
    output = undone(console)
    assert output["after"]["paused"] is True
    assert (output["backup"], output["undo"]) == (None, None)
    console.done("undo", "orders", "--change", output["id"], "--yes")
    assert console.state()["control"]["paused"] is False


def test_a_halt_is_not_made_again(project: Project) -> None:
    console = ran(project)
    console.edit(control={"halted": True, "by": "poller", "reason": "failed"})
    console.done("resume", "orders", "--yes")
    console.refused(3, "undo", "orders", "--yes", says="a halt cannot be made again")


def test_a_change_that_cannot_be_taken_back_hides_no_older_one(project: Project) -> None:
    """Else the reset before it would be taken back by a person who means the newest change."""
    console = ran(project)
    console.done("reset-to-beginning", "orders", "--yes")
    console.edit(control={"halted": True, "by": "poller", "reason": "failed"})
    console.done("resume", "orders", "--yes")
    console.refused(3, "undo", "orders", "--yes", says="undo orders --list")
    assert place(console) is None


def test_rows_that_were_given_up_wait_again(project: Project) -> None:
    console = waiting(project)
    console.done("quarantine", "discard", "orders", "--all", "--yes")
    assert "quarantine" not in console.state()
    output = undone(console, "--reason", "they were needed")
    assert [row["id"] for row in output["rows"]] == [row_id(2), row_id(4)]
    shown = console.run("quarantine", "list", "orders", "--json").json
    assert [row["id"] for row in shown["pending"]] == [row_id(2), row_id(4)]
    assert all(row["problem"] is None for row in shown["pending"])
    console.done("quarantine", "discard", "orders", "--id", row_id(2), "--yes")


def test_rows_whose_records_are_gone_cannot_wait_again(project: Project) -> None:
    console = waiting(project)
    console.done("quarantine", "discard", "orders", "--all", "--yes")
    project.execute("DELETE FROM poller_documents WHERE name LIKE 'quarantine/%'", database="state.db")
    console.refused(3, "undo", "orders", "--yes", says="quarantine_ttl")


def test_a_row_that_was_set_aside_is_read_again(project: Project) -> None:
    console = ran(project)
    project.insert(3)
    console.done("quarantine", "add", "orders", "--pk", "id=7", "--yes")
    output = undone(console)
    assert [row["id"] for row in output["rows"]] == [row_id(7)]
    assert "aside" not in console.state()
    assert json.loads(console.run("run", "--once", "--json").out.splitlines()[-1])["rows"] == 3


def test_a_row_that_was_passed_is_not_read_again(project: Project) -> None:
    console = ran(project)
    project.insert(3)
    console.done("quarantine", "add", "orders", "--pk", "id=7", "--yes")
    state = console.state()
    row = {**state["aside"][0], "at": 7}
    console.edit(aside=[row])
    console.refused(3, "undo", "orders", "--yes", says=f"quarantine replay orders --id {row_id(7)}")


def test_a_lease_is_broken_only_if_that_is_allowed(project: Project) -> None:
    console = ran(project)
    console.done("reset-to-beginning", "orders", "--yes")
    at_work(console)
    console.refused(3, "undo", "orders", "--yes", says="--break-lease")
    assert undone(console, "--break-lease")["starts_after_seconds"] > 0


def test_a_document_that_is_gone_is_put_back(project: Project) -> None:
    console = ran(project)
    console.done("reset-to-beginning", "orders", "--yes")
    deleted(console)
    assert undone(console)["changed"]
    assert place(console) == 5
    assert console.state()["lease"]["fencing_token"] > 2
    console.refused(2, "undo", "orders", "--yes", says="no change of 'orders' to take back")


def test_a_backup_that_is_gone_is_said(project: Project) -> None:
    console = ran(project)
    reset = console.done("reset-to-beginning", "orders", "--yes")
    project.execute(f"DELETE FROM poller_documents WHERE name = '{reset['backup']}'", database="state.db")
    console.refused(3, "undo", "orders", "--yes", says="no backup of what it replaced is left")
    assert "its backup is gone" in console.run("undo", "orders", "--list").out


def test_a_record_of_an_earlier_version_is_found_by_its_backup(project: Project) -> None:
    console = ran(project)
    console.done("reset-to-cursor", "orders", *ROW, "--yes")
    console.done("reset-to-beginning", "orders", "--yes")
    records = f"SELECT rowid, line FROM poller_log WHERE name = '{TRAIL}'"
    for number, line in project.execute(records, database="state.db"):
        project.execute(
            "UPDATE poller_log SET line = ? WHERE rowid = ?",
            (json.dumps(earlier(json.loads(line))), number),
            database="state.db",
        )
    console.edit(control={"last_change": earlier(console.state()["control"]["last_change"])})
    undone(console)
    assert place(console) == 2
    undone(console)
    assert place(console) == 5


def test_a_first_checkpoint_has_nothing_before_it(project: Project) -> None:
    console = ran(project)
    path = exported(console)
    deleted(console)
    console.done("reset-to-checkpoint", "orders", path, "--yes")
    console.refused(3, "undo", "orders", "--yes", says="nothing before it")


@each("which", ["ffffffff", "", "no such"])
def test_what_names_no_change_is_refused(project: Project, which: str) -> None:
    console = again(project)
    console.done("pause", "orders", "--yes")
    console.refused(2, "undo", "orders", "--change", which, "--yes", says="undo orders --list")


def test_the_list_shows_changes_and_backups_and_changes_nothing(project: Project) -> None:
    console = ran(project)
    project.environ["POLLER_OPERATOR"] = "ada@console"
    reset = console.done("reset-to-beginning", "orders", "--yes", "--reason", "again")
    before = console.everything()
    shown = console.run("undo", "orders", "--list").out
    assert console.everything() == before
    assert f"{reset['id'][:8]}" in shown
    assert "by ada@console: again; undo restores its backup" in shown
    assert reset["backup"] in shown
    (change,) = listed(console)
    assert (change["backup"], change["undo"], change["undone"]) == (reset["backup"], "restore", False)


def test_the_former_source_is_wanted_first(project: Project) -> None:
    console = ran(project)
    changed(project, 'table = "orders"', 'table = "orders2"')
    (made,) = project.execute("SELECT sql FROM sqlite_master WHERE name = 'orders'")
    project.execute(made[0].replace("orders", "orders2", 1))
    project.execute("INSERT INTO orders2 SELECT * FROM orders")
    output = console.done("rebind", "orders", "--yes")
    assert any("put the former source back" in note for note in output["notes"])
    error = console.refused(4, "undo", "orders", "--yes", says="reset-to-checkpoint orders")
    assert "--rebind" in error
    changed(project, 'table = "orders2"', 'table = "orders"')
    assert undone(console)["changed"]
    assert console.state()["source"]["table"] == "orders"


def test_a_program_takes_a_change_back(project: Project) -> None:
    console = ran(project)
    with patch.dict(os.environ, project.environ), load_app(project.folder / "poller.toml", observers=[]) as app:
        poller = app.poller("orders")
        reset = poller.reset("beginning")
        assert poller.undo(dry_run=True).changed is False
        assert poller.undo(reset.id, reason="the wrong one").command == "undo"
        with pytest.raises(WrongArgument, match="to take back"):
            poller.undo()
        with pytest.raises(Refused, match="taken back already"):
            poller.undo(reset.id)
    assert place(console) == 5


def test_a_halt_is_not_ended_with_the_pause_that_is_taken_back(project: Project) -> None:
    console = ran(project)
    console.done("pause", "orders", "--yes")
    console.edit(control={"halted": True})
    console.refused(3, "undo", "orders", "--yes", says="is halted as well")


def test_a_pause_that_is_over_is_not_taken_back(project: Project) -> None:
    console = ran(project)
    output = console.done("pause", "orders", "--yes")
    console.edit(control={"paused": False})
    again = console.done("undo", "orders", "--change", output["id"], "--yes")
    assert (again["changed"], again["notes"]) == (False, ["orders is not paused any more."])


def test_a_row_of_which_another_version_waits_is_not_listed_again(project: Project) -> None:
    console = waiting(project)
    pending = console.state()["quarantine"]
    console.done("quarantine", "discard", "orders", "--all", "--yes")
    newer = {**pending[0], "id": "00000000000000ff"}
    console.edit(quarantine=[newer])
    output = undone(console)
    assert [row["id"] for row in output["rows"]] == [row_id(4)]
    assert any("Of 1 more the record is gone, or another version waits" in note for note in output["notes"])


def forged(console: Console, **facts: Any) -> None:
    """Somebody who may write the trail appends a line to it."""
    line = {"id": "f" * 32, "kind": "reset-to-beginning", "at": "2026-01-01T00:00:00Z", "by": "ada", "undo": "restore"}
    with console.store() as store:
        store.append(TRAIL, json.dumps(line | facts))


@each("name", ["state/shop/orders.json", "backups/shop/orders-v2/x.json", "backups/shop/orders/../x"])
def test_a_backup_that_is_not_this_pollers_is_refused(project: Project, name: str) -> None:
    """Who may append to the trail could name any document else, and undo asks for no leave to skip rows."""
    console = again(project)
    other = console.document()
    console.done("reset-to-beginning", "orders", "--yes")
    if name != "state/shop/orders.json":
        with console.store() as store:
            store.write(name, other.encode(), if_tag=None)
    forged(console, backup=name)
    console.refused(3, "undo", "orders", "--change", "ffffffff", "--yes", says="no backup of what it replaced")
    assert place(console) is None


@each(
    "facts",
    [
        {"kind": ["reset"]},
        {"id": ["a"]},
        {"undo": ["restore"]},
        {"undid": {"a": 1}},
        {"kind": "quarantine discard", "undo": "relist", "after": "rows"},
        {"kind": "quarantine discard", "undo": "relist", "after": {"unlisted": 7}},
        {"kind": "quarantine discard", "undo": "relist", "after": {"unlisted": ["../../x"]}},
    ],
)
def test_a_strange_line_of_the_trail_stops_nobody(project: Project, facts: dict[str, Any]) -> None:
    console = again(project)
    reset = console.done("reset-to-beginning", "orders", "--yes")
    forged(console, **facts)
    assert any(one["id"] == reset["id"] for one in listed(console))
    ended = console.run("undo", "orders", "--change", "ffffffff", "--yes")
    assert ended.code in (2, 3), ended.err
    assert "Traceback" not in ended.err
    assert undone(console, "--change", reset["id"])["changed"]


@each("status", ["delivered", "superseded", "replayed"])
def test_what_was_settled_since_a_discard_waits_no_more(project: Project, status: str) -> None:
    """After a reset, say, the row was tried again, and delivered: an older version must not wait once more."""
    console = again(project, waiting)
    console.done("quarantine", "discard", "orders", "--all", "--yes")
    project.execute(
        "UPDATE poller_documents SET body = replace(body, '\"discarded\"', ?) WHERE name LIKE ?",
        (f'"{status}"', f"quarantine/%{row_id(2)}%"),
        database="state.db",
    )
    output = undone(console)
    assert [row["id"] for row in output["rows"]] == [row_id(4)]
    assert any("1 row was" in note and "since" in note for note in output["notes"])
    assert not any("the record is gone" in note for note in output["notes"])


def test_a_discard_too_long_for_the_trail_is_taken_back(project: Project) -> None:
    """The trail's line leaves its rows out, the document's record names them."""
    console = waiting(project)
    discard = console.done("quarantine", "discard", "orders", "--all", "--yes")
    record = console.state()["control"]["last_change"]
    record = {key: value for key, value in record.items() if not isinstance(value, dict)}
    project.execute(
        "UPDATE poller_log SET line = ? WHERE line LIKE ?",
        (json.dumps(record), f"%{discard['id']}%"),
        database="state.db",
    )
    assert [row["id"] for row in undone(console)["rows"]] == [row_id(2), row_id(4)]


def test_two_undos_of_one_change_are_made_once(project: Project) -> None:
    """Also where a third change lies between: the second would take back what was delivered since."""
    ran(project)
    with patch.dict(os.environ, project.environ), load_app(project.folder / "poller.toml", observers=[]) as app:
        poller = app.poller("orders")
        poller.reset("beginning")
        on = Changes(poller)
        mine = on.prepare(undo_of(on))
        poller.undo()
        poller.pause()
        shown: Any = mine
        while isinstance(shown, Preview):
            shown = on.apply(shown)
    assert shown.changed is False
    assert "taken back already" in shown.notes[0]


@each("reason", ["", "   ", "\u200b", "\u2060\u200d", "\ufeff "])
def test_in_production_an_unseen_reason_is_none(project: Project, reason: str) -> None:
    console = again(project)
    project.write('environment = "production"\n' + (project.folder / "poller.toml").read_text())
    console.refused(3, "reset-to-beginning", "orders", "--yes", "--reason", reason, says="--reason TEXT")
    assert place(console) == 5


def test_a_later_pause_is_not_ended_with_an_older_one(project: Project) -> None:
    console = ran(project)
    first = console.done("pause", "orders", "--yes")
    console.done("resume", "orders", "--yes")
    project.environ["POLLER_OPERATOR"] = "bob"
    console.done("pause", "orders", "--yes", "--reason", "migration")
    says = "was paused again since, by bob"
    console.refused(3, "undo", "orders", "--change", first["id"], "--yes", says=says)


def test_a_row_from_before_a_reset_stays_that(project: Project) -> None:
    """A replay of it asks which version is meant (failures 10)."""
    console = waiting(project)
    discard = console.done("quarantine", "discard", "orders", "--all", "--yes")
    console.done("reset-to-beginning", "orders", "--yes")
    undone(console, "--change", discard["id"])
    assert {row["generation"] for row in console.state()["quarantine"]} == {0}
    ended = console.run("quarantine", "replay", "orders", "--id", row_id(2), "--yes")
    assert "from before the last reset" in ended.err
