"""`poller quarantine add`: a row set aside by hand, which the checkpoint has not passed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.console import Console, again, changed, ran
from tests.cli.project import Project
from tests.support.cases import each
from tests.support.services import wait_until
from tests.support.waiting import row_id, waits

ADD = ("quarantine", "add", "orders", "--pk", "id=7", "--yes")
UNTIL = {"kind": "timestamp+pk", "value": "2026-01-01 00:00:00", "tiebreaker": {"id": 8}}
SUSPECT = {**UNTIL, "tiebreaker": {"id": 7}}


def blocked(project: Project) -> Console:
    """Five rows were delivered; the seventh of three more was found to fail, and waits for its next try."""
    console = ran(project)
    project.insert(3)
    state = console.state()
    after = state["checkpoint"]["cursor"]
    window = {"after": after, "generation": 0, "until": UNTIL, "suspect": SUSPECT, "piece": None}
    error = {"type": "ValueError", "message": "no such customer"}
    late = "2999-01-01T00:00:00Z"
    console.edit(delivery={"last_error": error, "retry_at": late, "failures": 4, "window": window})
    return console


def record(console: Console, number: int = 7) -> dict[str, Any]:
    return console.state(f"quarantine/shop/orders/{row_id(number)}.json")


def test_the_row_is_listed_and_the_next_tick_goes_on_at_once(project: Project) -> None:
    console = blocked(project)
    project.environ["POLLER_OPERATOR"] = "ada@console"
    output = console.done(*ADD, "--reason", "a test order")
    assert output["rows"] == [{"id": row_id(7), "pk": {"id": 7}, "status": "aside"}]
    assert output["after"]["fencing_token"] > output["before"]["fencing_token"]
    state = console.state()
    (entry,) = state["aside"]
    assert (entry["id"], entry["at"], entry["cursor"]["tiebreaker"]) == (row_id(7), None, {"id": 7})
    assert "window" not in state["delivery"]
    assert "retry_at" not in state["delivery"]
    assert (state["delivery"]["attempts"], state["delivery"]["last_error"]) == (0, None)
    kept = record(console)
    assert (kept["status"], kept["row"]["id"], kept["error"]["type"]) == ("aside", 7, "ValueError")
    assert (kept["opened"]["by"], kept["opened"]["reason"]) == ("ada@console", "a test order")
    assert "not tried before the checkpoint has passed it" in console.run("quarantine", "list", "orders").out


def test_a_row_that_waits_already_is_left(project: Project) -> None:
    console = blocked(project)
    console.done(*ADD)
    before = console.everything()
    assert console.done(*ADD)["changed"] is False
    assert console.everything() == before


@each(
    ("pk", "code", "says"),
    [
        (("id=99",), 2, "no row with this key"),
        (("id=soon",), 2, "integer"),
        (("id=" + "9" * 40,), 2, "range"),
        (("total=7",), 2, "The key: id"),
        (("id",), 2, "COLUMN=VALUE"),
        (("id=7", "id=8"), 2, "twice"),
        (("id=3",), 3, "is behind this row already"),
    ],
)
def test_what_is_no_row_ahead_is_refused(project: Project, pk: tuple[str, ...], code: int, says: str) -> None:
    console = again(project, blocked)
    words = [word for one in pk for word in ("--pk", one)]
    console.refused(code, "quarantine", "add", "orders", *words, "--yes", says=says)


def test_no_more_rows_than_may_wait(project: Project) -> None:
    console = blocked(project)
    changed(project, 'handler = "', 'max_quarantined = 2\nhandler = "')
    with console.store() as store:
        waits(store, failed=[2], pending=[3])
    console.refused(3, *ADD, says="max_quarantined")
    console.done("quarantine", "discard", "orders", "--id", row_id(2), "--yes")
    assert console.done(*ADD)["changed"] is True


def test_an_older_version_of_the_row_gives_up_its_place(project: Project) -> None:
    console = blocked(project)
    with console.store() as store:
        waits(store, pending=[2])
    project.execute("UPDATE orders SET updated_at = '2026-01-01 00:00:09' WHERE id = 2")
    output = console.done("quarantine", "add", "orders", "--pk", "id=2", "--yes")
    (added,) = output["rows"]
    assert added["id"] != row_id(2)
    assert [row["id"] for row in console.state()["aside"]] == [added["id"]]
    assert "quarantine" not in console.state()
    assert record(console, 2)["status"] == "superseded"


def test_a_halt_stays_and_the_next_step_is_named(project: Project) -> None:
    console = blocked(project)
    console.edit(control={"halted": True, "by": "poller", "reason": "it failed"})
    output = console.done(*ADD)
    assert any("poller resume orders" in note for note in output["notes"])
    assert console.state()["control"]["halted"] is True


POISON = """
from pathlib import Path
HERE = Path(__file__).parent

def handle(batch):
    bad = (HERE / "bad").read_text().split()
    if any(str(row["id"]) in bad for row in batch):
        raise ValueError("no such customer")
    with (HERE / "seen").open("a") as out:
        print(*(row["id"] for row in batch), sep="\\n", file=out)
"""


@pytest.mark.guarantee(
    "One worker at a time",
    "A person sets a row aside that fails, in every mode, and the others go on",
)
@pytest.mark.parametrize("mode", ["block", "halt", "quarantine"])
def test_in_each_mode_the_others_go_on_and_it_is_tried(project: Project, mode: str) -> None:
    options = f'on_poison = "{mode}"\nmax_attempts = 2\nretry_backoff = "10ms"\nretry_backoff_max = "20ms"'
    project.configure("orders", handlers=POISON, poller=options)
    project.insert(5)
    (project.folder / "bad").write_text("3")
    console = Console(project)
    assert console.run("run", "--once").code == 1
    console.done("quarantine", "add", "orders", "--pk", "id=3", "--yes")
    console.run("run", "--once")
    assert project.lines("seen") == ["1", "2", "4", "5"]
    assert console.state()["checkpoint"]["cursor"]["tiebreaker"] == {"id": 5}
    (project.folder / "bad").write_text("")
    wait_until(lambda: console.run("run", "--once").code == 0 and "aside" not in console.state())
    assert project.lines("seen") == ["1", "2", "4", "5", "3"]
    assert record(console, 3)["status"] == "delivered"
