"""`poller backfill`: a range, beside the live poller, resumed after a kill, done once."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.cli.conftest import NOTING, Ended, Project, end, wait_until
from tests.cli.console import Console
from tests.cli.test_schemas import validator

FROM, TO = "2026-01-01 00:00:02", "2026-01-01 00:00:05"
RANGE = ("backfill", "orders", "--from", FROM, "--to", TO)
IN_RANGE = list(range(20, 50))
"""Of the rows that `Project.insert` makes: n is of second n // 10."""


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
    project.configure("orders", handlers=handlers, poller='batch_size = 10\nlease_ttl = "3s"')
    project.insert(100)
    process = project.start(*RANGE, "--yes")
    wait_until((project.folder / "third").exists)
    process.send_signal(signal.SIGKILL)
    end(process)
    (project.folder / "go").touch()
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


def test_parts_have_a_document_each_and_together_they_are_the_range(project: Project) -> None:
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
    again = console.run(*RANGE, "--yes")
    assert again.code == 1
    assert "--retry" in again.err
    (project.folder / "handlers.py").write_text(NOTING)
    (project.folder / "seen").unlink()
    finished(project.run(*RANGE, "--yes", "--json", "--retry"))
    assert ids(project) == IN_RANGE


def test_an_end_that_open_transactions_may_still_write_below_is_refused(project: Project) -> None:
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
    assert "'2026-01-01 00:00:05' -> '2026-01-01 00:00:09'" in ended.error
    assert len(ids(project)) == 30


def test_an_empty_table_is_nothing_to_do(project: Project) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING)
    ended = console.run(*RANGE, "--yes")
    assert ended.code == 0
    assert "no row" in ended.err
