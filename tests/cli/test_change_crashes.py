"""A command that changes state, killed by SIGKILL between any two of its steps: nothing happened, or all of it, a
backup of exactly what was replaced exists, the trail has it once, and the same command works afterwards. On Azurite
each request is held before and after it is applied; on the embedded store each call is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from tests.cli.azure_functions_db import fixture
from tests.cli.crashes import OnAzurite, Place, lasting, paused, placed, source_changed
from tests.cli.forge import Forge
from tests.cli.project import Project
from tests.support.waiting import row_id, waits

LEAST_STEPS = 3


def exported(place: Place) -> None:
    """The checkpoint of the fifth row, and then rows behind it."""
    place.run("checkpoint", "export", "orders", "kept.json")
    place.insert(3)
    place.run("run", "orders", "--once")


def was_reset(place: Place) -> None:
    """By mistake."""
    place.run("reset-to-beginning", "orders", "--yes")


def gone(place: Place) -> None:
    exported(place)
    place.put("orders", None)


def unreadable(place: Place) -> None:
    exported(place)
    place.put("orders", b'{"version": 1, "poller_na')


def cloned_before(place: Place) -> None:
    place.run("checkpoint", "clone", "orders", "invoices", "--yes")


def rows_wait(place: Place) -> None:
    waits(place.store, failed=[2], pending=[3])


def more_rows(place: Place) -> None:
    place.insert(3)


def kept(place: Place) -> None:
    """The row that is listed has its record."""
    state = place.body("orders")
    assert state is not None
    (row,) = json.loads(state)["aside"]
    record = place.stored(f"quarantine/shop/orders/{row['id']}.json")
    assert record is not None
    assert (json.loads(record)["status"], json.loads(record)["row"]["id"]) == ("aside", 7)


def said_so(place: Place) -> None:
    """The records of the rows that were discarded say it."""
    for number in (2, 3):
        body = place.stored(f"quarantine/shop/orders/{row_id(number)}.json")
        assert body is not None
        assert json.loads(body)["status"] == "discarded"
        assert json.loads(body)["settled"]["reason"] == "crash"


def at_work(place: Place) -> None:
    """A worker holds the lease."""
    state = json.loads(place.body("orders") or b"")
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    state["lease"] |= {"owner_id": "host/somebody", "heartbeat_at": now, "ttl_seconds": 600.0, "released_at": None}
    state["delivery"]["attempts"] = 1
    place.replace("orders", json.dumps(state).encode())


@dataclass(frozen=True)
class Case:
    """A command, and what it leaves.

    Attributes:
        name: its id. at: the last row before the checkpoint afterwards. target: whose document it changes.
        prepare: what must be there first; five rows were delivered. again: the exit code of the same command, once it
        was made. fenced: whether it raises the token, and what it replaces is kept. finished: what holds once the same
        command was run again.
    """

    name: str
    command: tuple[str, ...]
    at: int | None
    target: str = "orders"
    prepare: Callable[[Place], object] = lambda _: None
    again: int = 0
    fenced: bool = True
    finished: Callable[[Place], object] = lambda _: None


ROW = ("--value", "2026-01-01 00:00:00", "--pk", "id=2")
ROWS = ("--id", row_id(2), "--id", row_id(3))
THEIRS = ("azure-functions-db", str(fixture("text")))
CASES = {
    case.name: case
    for case in (
        Case("reset-to-beginning", ("reset-to-beginning", "orders"), None),
        Case("reset-to-cursor", ("reset-to-cursor", "orders", *ROW), 2),
        Case("reset-to-checkpoint", ("reset-to-checkpoint", "orders", "kept.json"), 5, prepare=exported),
        Case("undo", ("undo", "orders"), 5, prepare=was_reset, again=2),
        Case("reset-to-checkpoint-gone", ("reset-to-checkpoint", "orders", "kept.json"), 5, prepare=gone),
        Case("reset-to-checkpoint-unreadable", ("reset-to-checkpoint", "orders", "kept.json"), 5, prepare=unreadable),
        Case("clone-checkpoint", ("checkpoint", "clone", "orders", "invoices"), 5, "invoices", again=3),
        Case(
            "clone-checkpoint-overwrite",
            ("checkpoint", "clone", "orders", "invoices", "--overwrite", "--allow-skip"),
            5,
            "invoices",
            cloned_before,
        ),
        Case("rebind", ("rebind", "orders"), 5, prepare=source_changed),
        Case("import", ("checkpoint", "import", *THEIRS, "--name", "invoices"), 10, "invoices", again=3),
        Case(
            "import-overwrite", ("checkpoint", "import", *THEIRS, "--name", "orders", "--overwrite", "--allow-skip"), 10
        ),
        Case("pause", ("pause", "orders"), 5, fenced=False),
        Case("cancel", ("cancel", "orders"), 5, fenced=False),
        Case("cancel-a-worker", ("cancel", "orders", "--no-wait"), 5, prepare=at_work, fenced=False),
        Case("resume", ("resume", "orders"), 5, prepare=paused, fenced=False),
        Case("quarantine-discard", ("quarantine", "discard", "orders", *ROWS), 5, prepare=rows_wait, finished=said_so),
        Case("quarantine-add", ("quarantine", "add", "orders", "--pk", "id=7"), 5, prepare=more_rows, finished=kept),
    )
}
AZURITE = [
    "reset-to-beginning",
    "reset-to-cursor",
    "reset-to-checkpoint",
    "clone-checkpoint",
    "clone-checkpoint-overwrite",
    "rebind",
    "import",
    "import-overwrite",
    "quarantine-discard",
    "quarantine-add",
]
TELLING = [
    ("embedded", "reset-to-cursor"),
    ("embedded", "reset-to-checkpoint-gone"),
    ("embedded", "reset-to-checkpoint-unreadable"),
    ("embedded", "import"),
    ("embedded", "pause"),
    ("embedded", "cancel-a-worker"),
    ("embedded", "quarantine-discard"),
    ("embedded", "quarantine-add"),
    ("azurite", "reset-to-checkpoint"),
    ("azurite", "clone-checkpoint-overwrite"),
]
"""One of each kind: a checkpoint that is moved, made, or put in the place of another; a flag; a list of rows. The soak
tries all."""


@pytest.fixture
def shop(project: Project) -> Project:
    project.configure("orders", "invoices")
    project.insert(5)
    project.insert(1, table="invoices")
    return project


@pytest.fixture
def place(request: pytest.FixtureRequest, shop: Project, forge: Forge) -> Iterator[Place]:
    """Where five rows were delivered; `azurite`: with the rows in PostgreSQL."""
    with placed(request, shop, forge, request.param, "orders", "invoices") as made:
        made.run("run", "orders", "--once")
        yield made


def every_moment(steps: list[str]) -> list[tuple[int, str]]:
    return [(number, when) for number, _ in enumerate(steps, 1) for when in ("before", "after")]


def by_turns(steps: list[str]) -> list[tuple[int, str]]:
    """Once at each step, before and after by turns; and around the write that makes the change."""
    turns = [(number, "after" if number % 2 else "before") for number, _ in enumerate(steps, 1)]
    return sorted({*turns, *telling_moments(steps)})


def telling_moments(steps: list[str]) -> list[tuple[int, str]]:
    """Around the write that makes the change."""
    write = next(number for number, step in enumerate(steps, 1) if step.startswith("write state/"))
    kept = [(number, "after") for number, step in enumerate(steps, 1) if step.startswith("write backups/")]
    return [*kept, (write - 1, "after"), (write, "before"), (write, "after")]


def killed_at(place: Place, case: Case, moments: Callable[[list[str]], list[tuple[int, str]]]) -> None:
    command = (*case.command, "--yes", "--reason", "crash")
    case.prepare(place)
    place.keep()
    place.restore()
    start = place.body(case.target)
    steps = place.steps(*command)
    assert len(steps) >= LEAST_STEPS
    reference = place.body(case.target)
    assert reference is not None
    whole = lasting(reference)
    cursor = whole["checkpoint"]["cursor"]
    assert (cursor and cursor["tiebreaker"]["id"]) == case.at
    assert case.name.startswith(whole["control"]["last_change"]["kind"].replace(" ", "-"))
    if case.fenced and start is not None and case.prepare is not unreadable:
        assert whole["lease"]["fencing_token"] > json.loads(start)["lease"]["fencing_token"]
    outcomes = set()
    for step, when in moments(steps):
        place.restore()
        before, others = place.body(case.target), place.body("orders" if case.target == "invoices" else "invoices")
        at = f"killed {when} step {step}, {steps[step - 1]}"
        kept = place.backups(case.target)
        place.kill(step, when, *command)

        now = place.body(case.target)
        made = now != before
        outcomes.add(made)
        new = place.backups(case.target)[len(kept) :]
        assert set(new) <= {before}, at
        assert place.body("orders" if case.target == "invoices" else "invoices") == others, at
        if made:
            assert now is not None, at
            assert lasting(now) == whole, at
            change = json.loads(now)["control"]["last_change"]["id"]
            assert [one["id"] for one in place.history(case.target)].count(change) == 1, at
            assert bool(new) is (case.fenced and before is not None), at
        code = place.forge.run(*command)
        assert code == (case.again if made else 0), (at, place.forge.err)
        case.finished(place)
    assert outcomes == {False, True}


@pytest.mark.guarantee(
    "One worker at a time",
    "A row that was discarded waits no longer, and its record says by whom and why, wherever the command was killed",
)
@pytest.mark.parametrize(
    ("place", "name"),
    [
        *TELLING,
        *(
            pytest.param("azurite", name, marks=pytest.mark.soak)
            for name in AZURITE
            if ("azurite", name) not in TELLING
        ),
    ],
    indirect=["place"],
)
def test_killed_around_the_write_that_makes_the_change(place: Place, name: str) -> None:
    killed_at(place, CASES[name], telling_moments)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("place", "name"),
    [
        pytest.param(
            place, name, marks=pytest.mark.soak if place == "embedded" and name in AZURITE else pytest.mark.prove
        )
        for place in ("embedded", "azurite")
        for name in CASES
    ],
    indirect=["place"],
)
def test_killed_between_any_two_steps(place: Place, name: str) -> None:
    coarse = isinstance(place, OnAzurite) and name not in AZURITE
    killed_at(place, CASES[name], by_turns if coarse else every_moment)


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
@pytest.mark.parametrize("there", [False, True], ids=["new", "overwrite"])
def test_a_killed_export_leaves_no_half_file(place: Place, there: bool) -> None:
    file = place.project.folder / "kept.json"
    command = ("checkpoint", "export", "orders", "kept.json", *(("--overwrite",) if there else ()))
    before = place.body("orders")

    def put_back() -> None:
        file.unlink(missing_ok=True)
        if there:
            file.write_text("precious")

    put_back()
    steps = place.steps(*command)
    whole = json.loads(file.read_text()) | {"exported_at": ""}
    assert whole["cursor"]["tiebreaker"] == {"id": 5}
    (written,) = (number for number, step in enumerate(steps, 1) if step.startswith("write_new"))
    outcomes = set()
    for step, when in [*every_moment(steps), (written, "within")]:
        put_back()
        place.kill(step, when, *command)
        made = file.exists() and file.read_text() != "precious"
        outcomes.add(made)
        assert file.exists() or not there
        if made:
            assert json.loads(file.read_text()) | {"exported_at": ""} == whole
        code = place.forge.run(*command)
        assert code == (3 if made and not there else 0), (step, when, place.forge.err)
        assert json.loads(file.read_text()) | {"exported_at": ""} == whole
    assert outcomes == {False, True}
    assert place.body("orders") == before
