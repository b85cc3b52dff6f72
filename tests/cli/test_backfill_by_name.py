"""A backfill by its name: `status` shows it, `pause` and `resume` change all its parts, other commands refuse it."""

from __future__ import annotations

import json
import shlex
from typing import Any

import psycopg
import pytest

from poller.backfill import listing
from poller.errors import StoreDenied
from poller.stores import SqlStore
from tests.cli.backfills import FROM, IN_RANGE, RANGE, TO, finished, ids, shown_backfills
from tests.cli.console import Console
from tests.cli.databases import done
from tests.cli.project import NOTING, Project, end
from tests.cli.terminal import Terminal
from tests.support.azurite import Azurite
from tests.support.cases import each
from tests.support.schemas import validator
from tests.support.services import wait_until


@pytest.fixture
def halted(project: Project) -> Console:
    """Two pollers of tables of their own, and of the first a backfill that halted on its second batch."""
    failing = NOTING + "    if any(row['id'] == 30 for row in batch): raise ValueError('no such customer')\n"
    project.configure(
        "orders", "invoices", handlers=failing, poller="batch_size = 10\nmax_attempts = 1\non_poison = 'halt'"
    )
    project.environ["POLLER_OPERATOR"] = "ada"
    project.insert(100)
    console = Console(project)
    assert console.run("run", "invoices", "--once").code == 0
    assert console.run(*RANGE, "--yes", "--as", "replay").code == 1
    return console


def test_status_shows_it_beneath_its_poller_until_it_is_finished(halted: Console) -> None:
    (shown,) = shown_backfills(halted)
    assert (shown["name"], shown["poller"], shown["begun_by"]) == ("replay", "orders", "ada")
    assert (shown["begins"], shown["ends"]) == (FROM, TO)
    assert (shown["halted"], shown["finished"], shown["pending"]) == (True, False, 20)
    assert shown["cursor"]["tiebreaker"] == {"id": 29}
    assert shown_backfills(halted, "invoices") == []
    table = [line.split()[:2] for line in halted.run("status").out.splitlines()]
    assert table[1:4] == [["orders", "new"], ["replay", "halted"], ["invoices", "idle"]]
    assert "backfill" not in halted.run("status", "invoices").out
    orders = halted.run("status", "orders").out
    for said in ("replay  halted", f"from {FROM}", f"not including {TO}", "20 rows left", "begun by ada", "ValueError"):
        assert said in orders.partition("  backfill  ")[2]
    (halted.project.folder / "handlers.py").write_text(NOTING)
    finished(halted.project.run(*RANGE, "--yes", "--json", "--as", "replay", "--retry"))
    assert shown_backfills(halted) == []
    (shown,) = shown_backfills(halted, "replay")
    assert (shown["finished"], shown["pending"]) == (True, 0)
    assert shown["finished_at"].endswith("Z")
    said = "replay  finished\n  why       Every row of the range was delivered.\n  backfill  of orders, from "
    assert halted.run("status", "replay").out.startswith(said)


def test_one_paused_at_work_ends_after_its_batch_and_resumes(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller="batch_size = 10")
    project.environ["POLLER_OPERATOR"] = "ada"
    project.insert(100)
    console = Console(project)
    (project.folder / "wait").touch()
    process = project.start(*RANGE, "--yes")
    wait_until(lambda: project.lines("started"))
    (shown,) = shown_backfills(console)
    name = shown["name"]
    assert shown["lease"]["live"] is True
    assert f"{name}  working" in console.run("status").out
    assert shown["lease"]["owner_id"] in console.run("status").out
    paused = console.done("pause", name, "--yes", "--reason", "the warehouse is down")
    assert (paused["name"], paused["after"]["paused"], paused["after"]["fencing_token"]) == (name, True, 1)
    assert f"{name}  pausing" in console.run("status").out
    (project.folder / "wait").unlink()
    ended = end(process)
    assert ended.code == 3, ended.err
    assert "paused by ada" in ended.err
    assert "the warehouse is down" in ended.err
    assert f"10 rows delivered. To go on: poller resume {name}; then run the same command again." in ended.out
    assert ids(project) == IN_RANGE[:10]
    assert f"{name}  paused" in console.run("status").out
    said = console.refused(3, *RANGE, "--yes", says="the warehouse is down")
    assert f"poller resume {name}" in said
    console.refused(3, *RANGE, "--yes", "--retry", says="was paused by ada")
    resumed = console.done("resume", name, "--yes")
    (command,) = [note.partition(": ")[2] for note in resumed["notes"] if note.startswith("To go on with it, run: ")]
    program, *arguments = shlex.split(command)
    assert program == "poller"
    assert arguments[:1] == ["-c"], "the file is named where it is not the default"
    finished(console.run(*arguments, "--yes", "--json"))
    assert ids(project) == IN_RANGE
    assert [one["kind"] for one in console.run("history", name, "--json").json["records"]] == [
        "created",
        "pause",
        "resume",
        "backfill",
    ]
    assert "is finished: there is nothing to pause" in console.run("pause", name, "--yes").out


def test_the_parts_are_paused_together_and_one_of_them_alone(halted: Console) -> None:
    project, parts = halted.project, ["cut-1of3", "cut-2of3", "cut-3of3"]
    assert halted.run(*RANGE, "--yes", "--as", "cut", "--parallel", "3").code == 1, "the second halts"
    assert [one["name"] for one in shown_backfills(halted) if one["name"] in parts] == ["cut-2of3"]
    assert [one["name"] for one in shown_backfills(halted, "cut")] == parts
    before = halted.everything()
    assert halted.done("pause", "cut", "--dry-run")["changed"] is False
    assert halted.everything() == before
    paused = halted.done("pause", "cut", "--yes")
    assert [(one["name"], one["changed"]) for one in paused["parts"]] == list(
        zip(parts, [False, True, False], strict=True)
    )
    assert halted.state("state/shop/cut-2of3.json")["control"]["paused"] is True
    for command in ("peek", "history", "export-checkpoint"):
        halted.refused(2, command, "cut", says="Name one: cut-1of3, cut-2of3, cut-3of3.")
    assert halted.run("peek", "cut-2of3", "--limit", "1", "--json").json["rows"][0]["id"] == 30
    exported = halted.run("export-checkpoint", "cut-2of3").json
    assert (exported["poller"], exported["cursor"]["value"]) == ("cut-2of3", "2026-01-01 00:00:03")
    said = halted.run("resume", "cut-2of3", "--yes").out
    assert f"backfill orders --from '{FROM}' --to '{TO}' --as cut" in said, "all parts of it, as it was begun"
    (project.folder / "handlers.py").write_text(NOTING)
    (project.folder / "seen").unlink()
    finished(project.run(*RANGE, "--yes", "--json", "--as", "cut"))
    assert ids(project) == list(range(30, 40))


@pytest.fixture
def cut(project: Project) -> Console:
    """A backfill whose two parts halted."""
    project.configure(
        "orders", handlers="def handle(batch): raise ValueError()\n", poller="max_attempts = 1\non_poison = 'halt'"
    )
    project.insert(50)
    console = Console(project)
    assert console.run(*RANGE, "--as", "cut", "--parallel", "2", "--yes").code == 1
    return console


def test_all_parts_are_shown_before_the_question(cut: Console) -> None:
    terminal = Terminal(cut.project, "pause", "cut")
    terminal.child.expect_exact("pause cut? [y/N]: ")
    shown = terminal.child.before or ""
    for part in ("cut-1of2", "cut-2of2"):
        assert f"pause {part}" in shown
    assert shown.count("no -> yes") == 2
    terminal.child.send("y\n")
    code, rest = terminal.end()
    assert (code, rest.count("Done."), "no -> yes" in rest) == (0, 2, False)
    for part in ("cut-1of2", "cut-2of2"):
        assert cut.state(f"state/shop/{part}.json")["control"]["paused"] is True


def test_what_was_done_to_a_part_is_said_although_the_next_fails(cut: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    write = SqlStore.write

    def failing(store: SqlStore, document: str, *args: Any, **options: Any) -> Any:
        if "cut-2of2" in document:
            raise StoreDenied("This may not be written.", document=document)
        return write(store, document, *args, **options)

    monkeypatch.setattr(SqlStore, "write", failing)
    ended = cut.run("pause", "cut", "--yes")
    assert ended.code == 1
    assert "This may not be written." in ended.error
    assert cut.state("state/shop/cut-1of2.json")["control"]["paused"] is True
    assert "Done." in ended.out, "of the first, which is paused"


def test_one_of_an_earlier_version_is_known_by_its_source(halted: Console) -> None:
    name = "state/shop/replay.json"
    state = halted.state(name)
    del state["checkpoint"]["metadata"]["backfill"]
    halted.put(json.dumps(state), name)
    (shown,) = shown_backfills(halted)
    assert (shown["name"], shown["poller"], shown["begun_by"]) == ("replay", "orders", None)
    halted.done("pause", "replay", "--yes")
    halted.done("resume", "replay", "--yes")
    (halted.project.folder / "handlers.py").write_text(NOTING)
    finished(halted.project.run(*RANGE, "--yes", "--json", "--as", "replay"))


@each(
    "arguments",
    [
        ("reset-to-beginning", "replay", "--yes"),
        ("reset-to-cursor", "replay", "--value", FROM, "--pk", "id=1", "--yes"),
        ("reset-to-checkpoint", "replay", "kept.json", "--yes"),
        ("rebind", "replay", "--yes"),
        ("clone-checkpoint", "replay", "other", "--yes"),
        ("clone-checkpoint", "orders", "replay", "--yes", "--overwrite", "--allow-skip"),
        ("run", "replay", "--once"),
        ("check", "replay"),
        ("recheck", "replay"),
        ("backfill", "replay", "--from", FROM, "--to", TO, "--yes"),
    ],
)
def test_commands_for_pollers_refuse_it(halted: Console, arguments: tuple[str, ...]) -> None:
    said = halted.refused(3, *arguments, says="replay is a backfill")
    assert "nothing was" in said
    if "orders" not in arguments:
        assert f"backfill orders --from '{FROM}' --to '{TO}' --as replay" in said


def test_a_name_that_is_neither_a_poller_nor_a_backfill(halted: Console) -> None:
    for arguments in (("status", "ordres"), ("pause", "ordres", "--yes"), ("reset-to-beginning", "ordres", "--yes")):
        said = halted.refused(2, *arguments, says="there is no poller 'ordres', and no backfill of that name")
        assert 'did you mean "orders"?' in said
    assert halted.run("clone-checkpoint", "invoices", "spare", "--yes").code == 0
    halted.refused(2, "pause", "spare", "--yes", says="no backfill of that name")
    text = (halted.project.folder / "poller.toml").read_text()
    (halted.project.folder / "poller.toml").write_text(text.replace("pollers.orders", "pollers.sales"))
    (shown,) = shown_backfills(halted, "sales")
    assert shown["name"] == "replay", "a poller of another name and the same source"
    text = text.replace("pollers.orders", "pollers.sales").replace('table = "orders"', 'table = "sales"')
    (halted.project.folder / "poller.toml").write_text(text)
    halted.refused(2, "pause", "replay", "--yes", says="a backfill of 'orders', and")


def test_an_unreachable_store_is_reported_beside_an_unknown_name(halted: Console) -> None:
    (halted.project.folder / "state.db").unlink()
    (halted.project.folder / "state.db").mkdir()
    said = halted.run("status", "replay").error
    assert "whether there is such a backfill is not known" in said


def test_a_store_that_may_not_be_listed_fails_no_poller(halted: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> list[str]:
        raise StoreDenied("The store may not be listed.", document="")

    monkeypatch.setattr(SqlStore, "names", denied)
    ended = halted.run("status", "invoices", "--json")
    assert ended.code == 0
    assert ended.json["backfills"] is None
    assert "Whether there are backfills is not known: The store may not be listed." in ended.error


def test_only_so_many_documents_are_read_and_the_rest_counted(halted: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    assert halted.run("backfill", "orders", "--from", FROM, "--to", "2026-01-01 00:00:04", "--yes").code == 1
    monkeypatch.setattr(listing, "MOST_READ", 1)
    ended = halted.run("status", "--json")
    validator("status").validate(ended.json)
    (shown,) = ended.json["backfills"]
    assert shown["name"].startswith("orders-backfill-"), "the likeliest are looked at first"
    assert ended.json["backfills_unread"] == 1
    assert "were not looked at: 1;" in ended.error
    assert shown_backfills(halted, "replay")[0]["name"] == "replay"


def test_a_source_that_changed_since_does_not_hide_it(halted: Console) -> None:
    text = (halted.project.folder / "poller.toml").read_text()
    (halted.project.folder / "poller.toml").write_text(
        text.replace('table = "orders"', 'table = "orders"\nfilter = "1"')
    )
    (shown,) = shown_backfills(halted)
    assert "another source" in shown["error"]
    assert "replay  halted" in halted.run("status").out
    assert halted.run("status", "replay").code == 4
    assert halted.run("pause", "replay", "--yes").code == 0


def test_on_servers_it_costs_an_idle_poller_nothing(
    project: Project, servers: psycopg.Connection, azurite: Azurite
) -> None:
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('handler = "', 'batch_size = 4\nhandler = "'))
    day = ("backfill", "orders", "--from", "2026-01-01", "--to", "2026-01-02", "--yes", "--as", "replay")
    assert project.run("run", "--once").code == 0
    (project.folder / "started").unlink()
    (project.folder / "wait").touch()
    process = project.start(*day)
    wait_until(lambda: project.lines("started"))
    mark = azurite.mark()
    (shown,) = done(project, "status", schema="status").json["backfills"]
    looked = [r for r in azurite.requests(since=mark) if r.method == "GET"]  # and its worker renews its lease
    mine = [one for one in looked if "configurations" not in one.path + one.query]
    assert len(mine) == 3, "the poller's document, one listing, and the backfill's document"
    assert len(looked) == 5, "and which configurations work under this name"
    assert (shown["name"], shown["poller"], shown["paused"]) == ("replay", "orders", False)
    done(project, "pause", "replay", "--yes")
    (project.folder / "wait").unlink()
    assert end(process).code == 3
    mark = azurite.mark()
    assert project.run("run", "--once").code == 0
    asked = [(r.method, "state/shop/orders.json" in r.path) for r in azurite.requests(since=mark)]
    assert asked == [("GET", True), ("GET", False)], (
        "the document, and the first look of a process whether it has a trail"
    )
    done(project, *day, code=3)
    done(project, "resume", "replay", "--yes")
    assert done(project, *day, schema="backfill").json["finished"] is True
    assert [int(line.split()[1]) for line in project.lines("seen") if line.startswith("replay")] == list(range(1, 10))
