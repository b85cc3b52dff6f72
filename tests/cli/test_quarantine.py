"""`poller quarantine list`, `show` and `discard`: rows that wait, their content, and giving them up."""

from __future__ import annotations

import pytest

from tests.cli.console import Console, again, deleted, exported, ran
from tests.cli.project import Project
from tests.support.cases import each
from tests.support.schemas import validator
from tests.support.waiting import SECRET_NAME, WHY, row_id, waits


def with_rows(project: Project) -> Console:
    """Two rows aside, one behind an earlier one, one that waits for a person."""
    console = ran(project, rows=9)
    with console.store() as store:
        waits(store, failed=[2], pending=[7])
        waits(store, failed=[4], behind=[5], key="c")
    return console


def listed(console: Console) -> dict[str, list[str]]:
    ended = console.run("quarantine", "list", "orders", "--json")
    assert ended.code == 0, ended.err
    validator("quarantine-list").validate(ended.json)
    return {which: [row["id"] for row in ended.json[which]] for which in ("aside", "pending")}


def record(console: Console, number: int) -> dict[str, object]:
    found: dict[str, object] = console.state(f"quarantine/shop/orders/{row_id(number)}.json")
    return found


# --- list and show ---------------------------------------------------------------------------------------------------


def test_list_says_which_rows_wait_and_why(project: Project) -> None:
    console = with_rows(project)
    before = console.everything()
    assert listed(console) == {"aside": [row_id(2), row_id(4), row_id(5)], "pending": [row_id(7)]}
    output = console.run("quarantine", "list", "orders", "--json").json
    first, _, third = output["aside"]
    assert (first["pk"], first["failures"], first["error"]["message"]) == ({"id": 2}, 2, WHY)
    assert (third["behind"], third["error"], third["ordering_key"]) == (True, None, {"id": "c"})
    assert output["room"] == 96
    screen = console.run("quarantine", "list", "orders").out
    for text in (row_id(2), "id=7", f"ValueError: {WHY}", "failed 2 times", "behind an earlier row", "quarantine show"):
        assert text in screen
    assert console.everything() == before


@pytest.mark.guarantee(
    "One worker at a time",
    "What a row holds that waits is printed by `poller quarantine show` only",
)
def test_what_a_row_holds_is_printed_by_show_only(project: Project) -> None:
    console = with_rows(project)
    listing = console.run("quarantine", "list", "orders")
    discard = console.run("quarantine", "discard", "orders", "--all", "--dry-run")
    for ended in (listing, console.run("quarantine", "list", "orders", "--json"), discard):
        assert SECRET_NAME not in ended.out + ended.err
    assert SECRET_NAME in console.run("quarantine", "show", "orders", "--id", row_id(2)).out


def test_show_says_what_the_record_holds(project: Project) -> None:
    console = with_rows(project)
    ended = console.run("quarantine", "show", "orders", "--id", row_id(2), "--json")
    validator("quarantine-show").validate(ended.json)
    shown = ended.json
    assert shown["record"]["row"] == {"id": 2, "updated_at": "2026-01-01 00:00:00", "customer": SECRET_NAME}
    assert (shown["waits"]["status"], shown["record"]["batch_id"]) == ("aside", "batch_1")
    assert "orders/id=2/" in shown["record"]["row_key"]
    screen = console.run("quarantine", "show", "orders", "--id", row_id(2)).out
    assert f"quarantine discard orders --id {row_id(2)}" in screen


def test_an_error_without_its_text_where_that_is_wanted(project: Project) -> None:
    console = with_rows(project)
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('handler = "', 'error_text = false\nhandler = "'))
    for command in (("list",), ("show", "--id", row_id(2))):
        for json_ in ((), ("--json",)):
            ended = console.run("quarantine", command[0], "orders", *command[1:], *json_)
            assert ended.code == 0
            assert "ValueError" in ended.out
            assert WHY not in ended.out


def test_a_row_without_a_readable_record_is_listed_and_says_so(project: Project) -> None:
    console = with_rows(project)
    console.put("{", f"quarantine/shop/orders/{row_id(2)}.json")
    gone = f"quarantine/shop/orders/{row_id(7)}.json"
    project.execute(f"DELETE FROM poller_documents WHERE name = '{gone}'", database="state.db")
    assert listed(console) == {"aside": [row_id(2), row_id(4), row_id(5)], "pending": [row_id(7)]}
    output = console.run("quarantine", "list", "orders", "--json").json
    assert "JSON" in output["aside"][0]["problem"]
    assert "missing" in output["pending"][0]["problem"]
    for number in (2, 7):
        shown = console.run("quarantine", "show", "orders", "--id", row_id(number), "--json").json
        assert (shown["record"], bool(shown["waits"]["problem"])) == (None, True)
    assert "missing" in console.run("quarantine", "show", "orders", "--id", row_id(7)).out


@each("command", ["list", "show", "discard"])
def test_what_names_no_row_is_refused(project: Project, command: str) -> None:
    console = again(project, with_rows)
    if command == "list":
        console.refused(2, "quarantine", "list", "ordres", says="orders")
        return
    for wrong in ("", "7", "../../state", "0" * 16, "\x1b[2J"):
        console.refused(2, "quarantine", command, "orders", "--id", wrong, says="quarantine list orders")


# --- discard ---------------------------------------------------------------------------------------------------------


def test_discarded_rows_wait_no_longer_and_their_records_say_why(project: Project) -> None:
    console = with_rows(project)
    project.environ["POLLER_OPERATOR"] = "ada@console"
    token = console.state()["lease"]["fencing_token"]
    kept = console.document()
    ids = ("--id", row_id(2), "--id", row_id(7))
    output = console.done("quarantine", "discard", "orders", *ids, "--yes", "--reason", "test orders")
    assert [(row["id"], row["status"]) for row in output["rows"]] == [(row_id(2), "aside"), (row_id(7), "pending")]
    assert output["effect"]["skipped"] == 2
    assert output["undo"].endswith(f"undo orders --change {output['id'][:8]}")
    assert console.document(output["backup"]) == kept
    assert listed(console) == {"aside": [row_id(4), row_id(5)], "pending": []}
    assert console.state()["lease"]["fencing_token"] > token, "whoever tries the row right now is fenced"
    for number in (2, 7):
        assert record(console, number)["status"] == "discarded"
        settled = record(console, number)["settled"]
        assert isinstance(settled, dict)
        assert (settled["by"], settled["reason"]) == ("ada@console", "test orders")
    last = console.run("history", "orders", "--json").json["records"][-1]
    assert (last["kind"], last["by"], last["reason"]) == ("quarantine discard", "ada@console", "test orders")
    assert "discarded by ada@console" in console.run("quarantine", "show", "orders", "--id", row_id(2)).out


def test_by_ordering_key_and_all(project: Project) -> None:
    console = with_rows(project)
    output = console.done("quarantine", "discard", "orders", "--key", "id=c", "--yes")
    assert [row["id"] for row in output["rows"]] == [row_id(4), row_id(5)]
    assert listed(console) == {"aside": [row_id(2)], "pending": [row_id(7)]}
    assert console.done("quarantine", "discard", "orders", "--key", "id=99", "--yes")["changed"] is False
    console.refused(2, "quarantine", "discard", "orders", "--key", "total=3", "--yes", says="id")
    assert len(console.done("quarantine", "discard", "orders", "--all", "--yes")["rows"]) == 2
    assert listed(console) == {"aside": [], "pending": []}


def test_the_plan_says_whose_turn_comes(project: Project) -> None:
    console = with_rows(project)
    screen = console.run("quarantine", "discard", "orders", "--id", row_id(4), "--dry-run").out
    assert "1 row behind it will be tried next" in screen
    assert "1 row will never be delivered" in screen
    assert "will be tried" not in console.run("quarantine", "discard", "orders", "--id", row_id(2), "--dry-run").out


def test_one_way_of_naming_rows_is_wanted(project: Project) -> None:
    console = with_rows(project)
    for words in ((), ("--all", "--id", row_id(2)), ("--all", "--key", "id=2"), ("--id", row_id(2), "--key", "id=2")):
        console.refused(2, "quarantine", "discard", "orders", *words, "--yes", says="one of three ways")


def test_a_row_that_was_not_passed_is_not_discarded(project: Project) -> None:
    console = ran(project)
    project.insert(3)
    with console.store() as store:
        waits(store, ahead=[7], pending=[2])
    console.refused(3, "quarantine", "discard", "orders", "--id", row_id(7), "--yes", says="not passed")
    assert [row["id"] for row in console.done("quarantine", "discard", "orders", "--all", "--yes")["rows"]] == [
        row_id(2)
    ]
    assert listed(console) == {"aside": [row_id(7)], "pending": []}


def test_a_discard_that_was_killed_is_finished_by_the_next(project: Project) -> None:
    console = with_rows(project)
    stale = console.document(f"quarantine/shop/orders/{row_id(2)}.json")
    words = ("quarantine", "discard", "orders", "--id", row_id(2), "--yes")
    console.done(*words)
    console.put(stale, f"quarantine/shop/orders/{row_id(2)}.json")  # as if killed before it said so
    output = console.done(*words)
    assert output["changed"] is False
    assert record(console, 2)["status"] == "discarded"
    before = console.everything()
    assert console.done(*words)["changed"] is False
    assert console.everything() == before


def test_rows_of_before_a_reset_are_pending_and_can_be_discarded(project: Project) -> None:
    console = with_rows(project)
    console.done("reset-to-beginning", "orders", "--yes")
    assert sorted(listed(console)["pending"]) == sorted(map(row_id, (2, 4, 5, 7)))
    assert "from before the last reset" in console.run("quarantine", "list", "orders").out
    assert console.done("quarantine", "discard", "orders", "--id", row_id(2), "--yes")["changed"] is True
    assert record(console, 2)["status"] == "discarded"


# --- a document that is gone -----------------------------------------------------------------------------------------


def test_an_export_over_a_deleted_document_lists_what_waits(project: Project) -> None:
    """An export holds no list: the records would wait, and nothing would show them."""
    console = with_rows(project)
    file = exported(console)
    console.done("quarantine", "discard", "orders", "--id", row_id(4), "--yes")
    deleted(console)
    dry = console.done("reset-to-checkpoint", "orders", str(file), "--dry-run")
    output = console.done("reset-to-checkpoint", "orders", str(file), "--yes")
    for notes in (dry["notes"], output["notes"]):
        assert any("records of 3 rows say that they wait: listed again, for a person" in note for note in notes)
    assert {which: sorted(ids) for which, ids in listed(console).items()} == {
        "aside": [],
        "pending": sorted([row_id(2), row_id(5), row_id(7)]),
    }
    found = console.run("quarantine", "list", "orders", "--json").json["pending"]
    assert {(row["passed"], row["current"]) for row in found} == {(True, False)}
    console.done("quarantine", "discard", "orders", "--all", "--break-lease", "--yes")
    assert listed(console) == {"aside": [], "pending": []}


# --- records that were not told --------------------------------------------------------------------------------------


def test_a_record_that_was_not_told_is_shown_and_settled(project: Project) -> None:
    """As a replay leaves it that was killed after the write that unlists the row."""
    console = with_rows(project)
    console.edit(quarantine=[])
    assert listed(console)["pending"] == []
    output = console.run("quarantine", "list", "orders", "--json").json
    assert output["unlisted"] == [row_id(7)]
    assert f"quarantine discard orders --id {row_id(7)}" in console.run("quarantine", "list", "orders").out
    assert "waits no longer" in console.run("quarantine", "show", "orders", "--id", row_id(7)).out
    ended = console.done("quarantine", "discard", "orders", "--id", row_id(7), "--reason", "replayed", "--yes")
    assert ended["changed"] is False
    assert (record(console, 7)["status"], record(console, 2)["status"]) == ("discarded", "aside")
    assert console.run("quarantine", "list", "orders", "--json").json["unlisted"] == []
