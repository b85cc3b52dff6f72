"""`poller backfill`: a range, beside the live poller, in parts, resumed after a kill, done once."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.cli.backfills import AGED, IN_RANGE, RANGE, finished, ids, states
from tests.cli.console import Console
from tests.cli.project import NOTING, Project, end
from tests.support.schemas import validator
from tests.support.services import wait_until

LOADED = 2_000
LOAD = ("backfill", "orders", "--from", "2026-01-01", "--to", "2026-01-02", "--as", "load")


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


def test_stopped_it_says_so_and_how_to_go_on(project: Project) -> None:
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


def test_each_part_has_a_document_and_together_they_are_all(project: Project) -> None:
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
    assert "It was begun with --parallel 3, and goes on so." in console.run(*RANGE, "--yes", "--parallel", "2").error


def test_a_poison_row_halts_it_and_retry_goes_on(project: Project) -> None:
    failing = NOTING + "    if any(row['id'] == 25 for row in batch): raise ValueError('no such customer')\n"
    console = Console(project)
    project.configure("orders", handlers=failing, poller="batch_size = 10\nmax_attempts = 1\non_poison = 'halt'")
    project.insert(100)
    ended = console.run(*RANGE, "--yes")
    assert ended.code == 1
    assert "no such customer" in ended.err
    assert "--retry" in ended.out.splitlines()[-1]
    for more in ((), ("--dry-run",)):
        console.refused(3, *RANGE, "--yes", *more, says="no such customer. Nothing was delivered. Fix it, then run")
    tried = console.run(*RANGE, "--dry-run", "--retry", "--json").json
    assert (tried["pending"], tried["parts"][0]["halted"]) == (len(range(25, 50)), True)
    (project.folder / "handlers.py").write_text(NOTING)
    (project.folder / "seen").unlink()
    finished(project.run(*RANGE, "--yes", "--json", "--retry"))
    assert ids(project) == list(range(25, 50))


def test_retry_goes_on_after_a_handler_that_ended_its_process(project: Project) -> None:
    dying = "import os, signal\ndef handle(batch): os.kill(os.getpid(), signal.SIGKILL)\n"
    project.configure("orders", handlers=dying, poller="max_attempts = 1\non_poison = 'halt'")
    project.insert(100)
    assert end(project.start(*RANGE, "--yes")).code == -signal.SIGKILL
    (project.folder / "handlers.py").write_text(NOTING)
    project.execute(AGED, database="state.db")
    finished(project.run(*RANGE, "--yes", "--json", "--retry"))
    assert ids(project) == IN_RANGE


def test_a_name_for_once_more_is_one_that_is_free(project: Project) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING)
    project.insert(100)
    finished(console.run(*RANGE, "--yes", "--json"))
    for _ in range(3):
        (line,) = [line for line in console.run(*RANGE, "--yes").out.splitlines() if "--as " in line]
        finished(console.run(*RANGE, "--yes", "--json", "--as", line.partition("--as ")[2]))
    assert len(ids(project)) == 4 * len(IN_RANGE)
    shown = console.run(*RANGE, "--yes", "--as", "orders-again").out
    assert shown.endswith("--as orders-again-4\n")


def test_an_empty_table_is_nothing_to_do(project: Project) -> None:
    console = Console(project)
    project.configure("orders", handlers=NOTING)
    ended = console.run(*RANGE, "--yes")
    assert ended.code == 0
    assert "no row" in ended.err
    ended = console.run(*RANGE, "--yes", "--json")
    assert ended.code == 0
    validator("backfill").validate(ended.json)
    assert (ended.json["finished"], ended.json["rows"], ended.json["pending"]) == (False, 0, 0)


# --- in parts, after a bulk load: rows of one timestamp are cut by their keys


@pytest.fixture
def loaded(project: Project) -> Console:
    """A table of which all rows but two were loaded at one moment."""
    handler = (
        "from pathlib import Path\n"
        "def handle(batch):\n"
        "    if (Path(__file__).parent / 'fail').exists() and any(row['id'] == 1001 for row in batch):\n"
        "        raise ValueError\n"
        "    with (Path(__file__).parent / 'seen').open('a') as out:\n"
        "        out.writelines(f\"{batch.poller_name} {row['id']} 0\\n\" for row in batch)\n"
    )
    project.configure("orders", handlers=handler, poller="max_attempts = 1\non_poison = 'halt'")
    rows = [(n, "2026-01-01 12:00:00") for n in range(1, LOADED + 1)]
    rows += [(LOADED + 1, "2026-01-01 00:00:01"), (LOADED + 2, "2026-01-01 23:00:00")]
    project.execute("INSERT INTO orders VALUES (?, ?)", *rows)
    return Console(project)


def test_rows_of_one_time_are_spread_over_the_parts(loaded: Console) -> None:
    ended = loaded.run(*LOAD, "--yes", "--json", "--parallel", "4")
    assert ended.code == 0, ended.err
    by_part = Counter(line.split()[0] for line in loaded.project.lines("seen"))
    assert sorted(by_part) == [f"load-{n}of4" for n in range(1, 5)]
    assert max(by_part.values()) - min(by_part.values()) <= 1, by_part
    assert sorted(ids(loaded.project)) == list(range(1, LOADED + 3)), "each once"
    first = ended.json["parts"][0]
    assert (first["begins_key"], first["ends_key"]) == (None, {"id": 499})


def test_what_was_cut_by_keys_goes_on_with_the_same_cuts(loaded: Console) -> None:
    project = loaded.project
    (project.folder / "fail").touch()
    assert loaded.run(*LOAD, "--yes", "--parallel", "4").code == 1
    cuts = {name: state["source"] for name, state in states(project).items()}
    project.execute("DELETE FROM orders WHERE id < 400")  # cut anew, it would be cut elsewhere
    (project.folder / "fail").unlink()
    screen = loaded.run("status", "load-3of4")
    assert "after 2026-01-01 12:00:00 / id=1000, up to 2026-01-01 12:00:00 / id=1500" in screen.out
    (project.folder / "seen").unlink()
    ended = loaded.run(*LOAD, "--yes", "--retry", "--json")
    assert ended.code == 0, ended.err
    assert {name: state["source"] for name, state in states(project).items()} == cuts
    assert ids(project) == list(range(1001, 1501)), "the part that had failed"


def test_an_even_range_is_cut_by_time_as_ever(project: Project) -> None:
    project.configure("orders")
    project.insert(30)
    console = Console(project)
    ended = console.run("backfill", "orders", "--from", "2026-01-01 00:00:00", "--to", "2026-01-01 00:00:03",
                        "--parallel", "3", "--yes", "--json")  # fmt: skip
    assert ended.code == 0, ended.err
    assert [part["ends_key"] for part in ended.json["parts"]] == [None, None, None]
