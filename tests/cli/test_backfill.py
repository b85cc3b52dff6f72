"""`poller backfill`: a range, beside the live poller, resumed after a kill, done once."""

from __future__ import annotations

import json
import shlex
import signal
from typing import Any

import psycopg
import pytest

from poller.backfill import listing
from poller.errors import StoreDenied
from poller.stores import SqlStore
from tests.cli.console import Console
from tests.cli.databases import done
from tests.cli.project import NOTING, Ended, Project, end, wait_until
from tests.support.azurite import Azurite
from tests.support.schemas import validator

FROM, TO = "2026-01-01 00:00:02", "2026-01-01 00:00:05"
RANGE = ("backfill", "orders", "--from", FROM, "--to", TO)
IN_RANGE = list(range(20, 50))
"""Of the rows that `Project.insert` makes: n is of second n // 10."""

AGED = "UPDATE poller_documents SET modified_at = strftime('%Y-%m-%dT%H:%M:%f', modified_at, '-600 seconds')"
"""The lease of one that died has ended."""


def ids(project: Project) -> list[int]:
    return [int(line.split()[1]) for line in project.lines("seen")]


def finished(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    validator("backfill").validate(ended.json)
    assert ended.json["finished"] is True
    found: dict[str, Any] = ended.json
    return found


def states(project: Project) -> dict[str, Any]:
    rows = project.execute("SELECT name, body FROM poller_documents WHERE name LIKE 'state/%'", database="state.db")
    return {name.split("/")[-1].removesuffix(".json"): json.loads(body) for name, body in rows}


def test_the_range_is_delivered_and_the_live_poller_is_not_touched(project: Project) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING, poller="batch_size = 7")
    project.insert(100)
    assert console.run("run", "--once").code == 0
    live = states(project)["orders"]
    (project.folder / "seen").unlink()

    output = finished(console.run(*RANGE, "--yes", "--json"))

    assert ids(project) == IN_RANGE
    assert (output["rows"], output["pending"], output["already_done"]) == (30, 30, False)
    assert output["name"].startswith("orders-backfill-")
    assert {line.split()[0] for line in project.lines("seen")} == {output["name"]}
    after = states(project)
    assert after["orders"] == live
    assert after[output["name"]]["lease"]["owner_id"] is None


def test_a_finished_backfill_is_done_once(project: Project) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING)
    project.insert(100)
    finished(console.run(*RANGE, "--yes", "--json"))
    again = console.run(*RANGE, "--yes")
    assert again.code == 0
    assert "done already" in again.out
    assert finished(console.run(*RANGE, "--yes", "--json"))["already_done"] is True
    assert ids(project) == IN_RANGE
    finished(console.run(*RANGE, "--yes", "--json", "--as", "replay"))
    assert ids(project) == IN_RANGE * 2


def test_killed_it_goes_on_where_it_was(project: Project) -> None:
    waits = '(HERE / "third").touch(); time.sleep(60)'  # so the second is committed
    hangs = f'if batch.rows[0]["id"] >= 40 and not (HERE / "go").exists(): {waits}\n    '
    handlers = NOTING.replace('with (HERE / "seen")', hangs + 'with (HERE / "seen")')
    project.configure("orders", handlers=handlers, poller="batch_size = 10")
    project.insert(100)
    process = project.start(*RANGE, "--yes")
    wait_until((project.folder / "third").exists)
    process.send_signal(signal.SIGKILL)
    end(process)
    (project.folder / "go").touch()
    project.execute(AGED, database="state.db")
    output = finished(project.run(*RANGE, "--yes", "--json"))
    assert output["rows"] == 10
    assert ids(project) == IN_RANGE, "what was committed does not come again"


def test_stopped_it_says_that_it_is_not_finished_and_how_to_go_on(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller="batch_size = 10")
    project.insert(100)
    (project.folder / "wait").touch()
    process = project.start(*RANGE, "--yes")
    wait_until(lambda: project.lines("started"))
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert "stopping" in process.stderr.readline()
    (project.folder / "wait").unlink()
    ended = end(process)
    assert ended.code == 1
    assert "10 rows delivered. Run the same command again" in ended.out
    assert ids(project) == IN_RANGE[:10]
    finished(project.run(*RANGE, "--yes", "--json"))
    assert ids(project) == IN_RANGE


def test_each_part_has_its_document_and_all_of_them_are_the_range(project: Project) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING, poller="batch_size = 4")
    project.insert(100)
    output = finished(console.run(*RANGE, "--yes", "--json", "--parallel", "3"))
    assert sorted(ids(project)) == IN_RANGE
    assert [part["name"].removeprefix(output["name"]) for part in output["parts"]] == ["-1of3", "-2of3", "-3of3"]
    assert [part["rows"] for part in output["parts"]] == [10, 10, 10]
    assert {part["name"] for part in output["parts"]} == set(states(project))
    again = finished(console.run(*RANGE, "--yes", "--json"))
    assert again["already_done"] is True
    assert len(again["parts"]) == 3, "it goes on as it was begun"


def test_a_dry_run_and_a_missing_confirmation_deliver_nothing(project: Project) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING)
    project.insert(100)
    ended = console.run(*RANGE, "--dry-run", "--json")
    assert ended.code == 0
    validator("backfill").validate(ended.json)
    assert (ended.json["pending"], ended.json["finished"], ended.json["dry_run"]) == (30, False, True)
    ended = console.run(*RANGE)
    assert ended.code == 3
    assert "--yes" in ended.err
    assert "30 will be delivered" in ended.out
    assert project.lines("seen") == []
    assert console.everything() == []


def test_a_poison_row_halts_it_and_retry_goes_on(project: Project) -> None:
    failing = NOTING + "    if any(row['id'] == 25 for row in batch): raise ValueError('no such customer')\n"
    console = Console(project)
    project.configure("orders", handlers=failing, poller="batch_size = 10\nmax_attempts = 1")
    project.insert(100)
    ended = console.run(*RANGE, "--yes")
    assert ended.code == 1
    assert "no such customer" in ended.err
    assert "--retry" in ended.out.splitlines()[-1]
    for more in ((), ("--dry-run",)):
        console.refused(3, *RANGE, "--yes", *more, says="no such customer. Nothing was delivered. Fix it, then run")
    tried = console.run(*RANGE, "--dry-run", "--retry", "--json").json
    assert (tried["pending"], tried["parts"][0]["halted"]) == (len(IN_RANGE), True)
    (project.folder / "handlers.py").write_text(NOTING)
    (project.folder / "seen").unlink()
    finished(project.run(*RANGE, "--yes", "--json", "--retry"))
    assert ids(project) == IN_RANGE


def test_retry_goes_on_after_a_handler_that_ended_its_process(project: Project) -> None:
    dying = "import os, signal\ndef handle(batch): os.kill(os.getpid(), signal.SIGKILL)\n"
    project.configure("orders", handlers=dying, poller="max_attempts = 1")
    project.insert(100)
    assert end(project.start(*RANGE, "--yes")).code == -signal.SIGKILL
    (project.folder / "handlers.py").write_text(NOTING)
    project.execute(AGED, database="state.db")
    finished(project.run(*RANGE, "--yes", "--json", "--retry"))
    assert ids(project) == IN_RANGE


def test_an_end_below_which_open_transactions_may_write_is_refused(project: Project) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING)
    project.insert(10)
    ended = console.run("backfill", "orders", "--from", FROM, "--to", "2199-01-01", "--yes")
    assert ended.code == 3
    assert "Rows may still appear below --to 2199-01-01 00:00:00" in ended.error
    assert project.lines("seen") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--from", TO, "--to", FROM), "does not lie before"),
        (("--from", TO, "--to", TO), "does not lie before"),
        (("--from", "soon", "--to", TO), "--from"),
        (("--from", FROM, "--to", TO, "--as", "orders"), "configured poller"),
        (("--from", FROM, "--to", TO, "--as", "No Name"), "--as"),
    ],
)
def test_what_cannot_be_meant_is_refused(project: Project, arguments: tuple[str, ...], says: str) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING)
    project.insert(50)
    ended = console.run("backfill", "orders", *arguments, "--yes")
    assert ended.code == 2
    assert says in ended.error


def test_a_name_of_another_range_is_refused(project: Project) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING)
    project.insert(100)
    finished(console.run(*RANGE, "--yes", "--json", "--as", "replay"))
    ended = console.run("backfill", "orders", "--from", FROM, "--to", "2026-01-01 00:00:09", "--yes", "--as", "replay")
    assert ended.code == 4
    assert "2026-01-01 00:00:05 -> 2026-01-01 00:00:09" in ended.error
    assert len(ids(project)) == 30


def test_a_name_for_once_more_is_one_that_is_free(project: Project) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING)
    project.insert(100)
    finished(console.run(*RANGE, "--yes", "--json"))
    for _ in range(3):
        (line,) = [line for line in console.run(*RANGE, "--yes").out.splitlines() if "--as " in line]
        finished(console.run(*RANGE, "--yes", "--json", "--as", line.partition("--as ")[2]))
    assert len(ids(project)) == 4 * len(IN_RANGE)
    told = console.run(*RANGE, "--yes", "--as", "orders-again").out
    assert told.endswith("--as orders-again-4\n")


def test_nothing_runs_while_the_checkpoint_is_of_another_source(project: Project) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING)
    project.insert(100)
    assert console.run("run", "--once").code == 0
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('table = "orders"', 'table = "orders"\nfilter = "id > 0"'))
    for more in ((), ("--dry-run",)):
        console.refused(4, *RANGE, "--yes", *more, says="poller rebind orders")
    assert console.run("rebind", "orders", "--yes").code == 0
    finished(console.run(*RANGE, "--yes", "--json"))


def test_an_empty_table_is_nothing_to_do(project: Project) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING)
    ended = console.run(*RANGE, "--yes")
    assert ended.code == 0
    assert "no row" in ended.err


# --- by its name ---------------------------------------------------------------------------------------------------


@pytest.fixture
def halted(project: Project) -> Console:
    """Two pollers of tables of their own, and of the first a backfill that halted on its second batch."""
    failing = NOTING + "    if any(row['id'] == 35 for row in batch): raise ValueError('no such customer')\n"
    project.configure("orders", "invoices", handlers=failing, poller="batch_size = 10\nmax_attempts = 1")
    project.environ["POLLER_OPERATOR"] = "ada"
    project.insert(100)
    console = Console(project)
    assert console.run("run", "invoices", "--once").code == 0
    assert console.run(*RANGE, "--yes", "--as", "replay").code == 1
    return console


def backfills(console: Console, *names: str) -> list[dict[str, Any]]:
    ended = console.run("status", *names, "--json")
    assert ended.code == 0, ended.err
    validator("status").validate(ended.json)
    found: list[dict[str, Any]] = ended.json["backfills"]
    return found


def test_status_shows_it_beneath_its_poller_until_it_is_finished(halted: Console) -> None:
    (shown,) = backfills(halted)
    assert (shown["name"], shown["poller"], shown["begun_by"]) == ("replay", "orders", "ada")
    assert (shown["begins"], shown["ends"]) == (FROM, TO)
    assert (shown["halted"], shown["finished"], shown["pending"]) == (True, False, 20)
    assert shown["cursor"]["tiebreaker"] == {"id": 29}
    assert backfills(halted, "invoices") == []
    screen = halted.run("status").out
    orders, invoices = screen.split("\n\n")
    assert orders.startswith("orders")
    assert "backfill" not in invoices
    for told in ("replay  halted", f"from {FROM}", f"not including {TO}", "20 rows left", "begun by ada", "ValueError"):
        assert told in orders.partition("  backfill  ")[2]
    (halted.project.folder / "handlers.py").write_text(NOTING)
    finished(halted.project.run(*RANGE, "--yes", "--json", "--as", "replay", "--retry"))
    assert backfills(halted) == []
    (shown,) = backfills(halted, "replay")
    assert (shown["finished"], shown["pending"]) == (True, 0)
    assert shown["finished_at"].endswith("Z")
    assert halted.run("status", "replay").out.startswith("replay  finished\n  backfill  of orders, from ")


def test_one_paused_at_work_ends_after_its_batch_and_resumes(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller="batch_size = 10")
    project.environ["POLLER_OPERATOR"] = "ada"
    project.insert(100)
    console = Console(project)
    (project.folder / "wait").touch()
    process = project.start(*RANGE, "--yes")
    wait_until(lambda: project.lines("started"))
    (shown,) = backfills(console)
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
    told = console.refused(3, *RANGE, "--yes", says="the warehouse is down")
    assert f"poller resume {name}" in told
    console.refused(3, *RANGE, "--yes", "--retry", says="was paused by ada")
    resumed = console.done("resume", name, "--yes")
    (command,) = [note.partition(": ")[2] for note in resumed["notes"] if note.startswith("To go on with it, run: ")]
    program, *arguments = shlex.split(command)
    assert program == "poller"
    assert arguments[:1] == ["-c"], "the file is named where it is not the default"
    finished(console.run(*arguments, "--yes", "--json"))
    assert ids(project) == IN_RANGE
    assert [one["kind"] for one in console.run("history", name, "--json").json["records"]] == [
        "pause",
        "resume",
        "backfill",
    ]
    assert "is finished: there is nothing to pause" in console.run("pause", name, "--yes").out


def test_the_parts_are_paused_together_and_one_of_them_alone(halted: Console) -> None:
    project, parts = halted.project, ["cut-1of3", "cut-2of3", "cut-3of3"]
    assert halted.run(*RANGE, "--yes", "--as", "cut", "--parallel", "3").code == 1, "the second halts"
    assert [one["name"] for one in backfills(halted) if one["name"] in parts] == ["cut-2of3"]
    assert [one["name"] for one in backfills(halted, "cut")] == parts
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
    told = halted.run("resume", "cut-2of3", "--yes").out
    assert f"backfill orders --from '{FROM}' --to '{TO}' --as cut" in told, "all parts of it, as it was begun"
    (project.folder / "handlers.py").write_text(NOTING)
    (project.folder / "seen").unlink()
    finished(project.run(*RANGE, "--yes", "--json", "--as", "cut"))
    assert ids(project) == list(range(30, 40))


def test_one_that_an_earlier_version_began_is_known_by_its_source(halted: Console) -> None:
    name = "state/shop/replay.json"
    state = halted.state(name)
    del state["checkpoint"]["metadata"]["backfill"]
    halted.put(json.dumps(state), name)
    (shown,) = backfills(halted)
    assert (shown["name"], shown["poller"], shown["begun_by"]) == ("replay", "orders", None)
    halted.done("pause", "replay", "--yes")
    halted.done("resume", "replay", "--yes")
    (halted.project.folder / "handlers.py").write_text(NOTING)
    finished(halted.project.run(*RANGE, "--yes", "--json", "--as", "replay"))


@pytest.mark.parametrize(
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
    told = halted.refused(3, *arguments, says="replay is a backfill")
    assert "nothing was" in told
    if "orders" not in arguments:
        assert f"backfill orders --from '{FROM}' --to '{TO}' --as replay" in told


def test_a_name_that_is_neither_a_poller_nor_a_backfill(halted: Console) -> None:
    for arguments in (("status", "ordres"), ("pause", "ordres", "--yes"), ("reset-to-beginning", "ordres", "--yes")):
        told = halted.refused(2, *arguments, says="there is no poller 'ordres', and no backfill of that name")
        assert 'did you mean "orders"?' in told
    assert halted.run("clone-checkpoint", "invoices", "spare", "--yes").code == 0
    halted.refused(2, "pause", "spare", "--yes", says="no backfill of that name")
    text = (halted.project.folder / "poller.toml").read_text()
    (halted.project.folder / "poller.toml").write_text(text.replace("pollers.orders", "pollers.sales"))
    (shown,) = backfills(halted, "sales")
    assert shown["name"] == "replay", "a poller of another name and the same source"
    text = text.replace("pollers.orders", "pollers.sales").replace('table = "orders"', 'table = "sales"')
    (halted.project.folder / "poller.toml").write_text(text)
    halted.refused(2, "pause", "replay", "--yes", says="a backfill of 'orders', and")


def test_an_unreachable_store_is_reported_beside_an_unknown_name(halted: Console) -> None:
    (halted.project.folder / "state.db").unlink()
    (halted.project.folder / "state.db").mkdir()
    told = halted.run("status", "replay").error
    assert "whether there is such a backfill is not known" in told


def test_a_store_that_may_not_be_listed_is_no_fault_of_the_pollers(
    halted: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> list[str]:
        raise StoreDenied("The store may not be listed.", document="")

    monkeypatch.setattr(SqlStore, "names", denied)
    ended = halted.run("status", "invoices", "--json")
    assert ended.code == 0
    assert ended.json["backfills"] is None
    assert "Whether there are backfills is not known: The store may not be listed." in ended.error


def test_so_many_documents_are_looked_at_and_the_rest_is_told(halted: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    assert halted.run("backfill", "orders", "--from", FROM, "--to", "2026-01-01 00:00:04", "--yes").code == 1
    monkeypatch.setattr(listing, "MOST_READ", 1)
    ended = halted.run("status", "--json")
    validator("status").validate(ended.json)
    (shown,) = ended.json["backfills"]
    assert shown["name"].startswith("orders-backfill-"), "the likeliest are looked at first"
    assert ended.json["backfills_unread"] == 1
    assert "1 documents more" in ended.error
    assert backfills(halted, "replay")[0]["name"] == "replay"


def test_a_source_that_changed_since_does_not_hide_it(halted: Console) -> None:
    text = (halted.project.folder / "poller.toml").read_text()
    (halted.project.folder / "poller.toml").write_text(
        text.replace('table = "orders"', 'table = "orders"\nfilter = "1"')
    )
    (shown,) = backfills(halted)
    assert "another source" in shown["error"]
    assert "replay  halted" in halted.run("status").out
    assert halted.run("status", "replay").code == 4
    assert halted.run("pause", "replay", "--yes").code == 0


def test_on_servers_it_is_paused_and_costs_an_idle_poller_nothing(
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
    assert len(looked) == 3, "the poller's document, one listing, and the backfill's document"
    assert (shown["name"], shown["poller"], shown["paused"]) == ("replay", "orders", False)
    done(project, "pause", "replay", "--yes")
    (project.folder / "wait").unlink()
    assert end(process).code == 3
    mark = azurite.mark()
    assert project.run("run", "--once").code == 0
    assert [(r.method, "state/shop/orders.json" in r.path) for r in azurite.requests(since=mark)] == [("GET", True)]
    done(project, *day, code=3)
    done(project, "resume", "replay", "--yes")
    assert done(project, *day, schema="backfill").json["finished"] is True
    assert [int(line.split()[1]) for line in project.lines("seen") if line.startswith("replay")] == list(range(1, 10))
