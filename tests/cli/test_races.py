"""Commands held between any two of their steps while somebody else acts completely: a worker, another operator, a hand
in the store. `tests.cli.races` says what may come of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.cli.azure_functions_db import fixture
from tests.cli.console import Console
from tests.cli.crashes import Embedded, Place, paused, placed, source_changed
from tests.cli.forge import Forge
from tests.cli.project import NOTING, Ended, Project
from tests.cli.races import BATCH, INTRUDERS, OTHERS, ROWS, Case, Scene, Worker, freed, race
from tests.support.waiting import row_id, waits

HALF, FOURTH = 6, 4
THEIRS = "theirs.json"


def worked(place: Place, poller: str, rows: int) -> None:
    """So many more rows are delivered."""
    for _ in range(rows // BATCH):
        assert Worker(place, poller).tick() == "delivered"


def row_waits(place: Place) -> None:
    waits(place.store, pending=[2])


def gone(place: Place) -> None:
    place.put("orders", None)


def was_reset(place: Place) -> None:
    """By mistake."""
    place.run("reset-to-beginning", "orders", "--yes")


LAST = "LAST"
"""Stands for the id of the newest change."""


def named(place: Place, case: Case) -> Case:
    """The case with that id, as its preparation left it."""
    if LAST not in case.command:
        return case
    newest = json.loads(place.body(case.target) or b"")["control"]["last_change"]["id"]
    return replace(case, command=tuple(newest if word == LAST else word for word in case.command))


def ahead(place: Place) -> None:
    """The other poller has come further."""
    worked(place, "invoices", HALF + BATCH)


def cases(folder: str) -> dict[str, Case]:
    kept, theirs = f"{folder}/kept.json", f"{folder}/{THEIRS}"
    fourth = ("--value", "2026-01-01 00:00:00", "--pk", f"id={FOURTH}")
    to_kept = ("reset-to-checkpoint", "orders", kept)
    importing = ("checkpoint", "import", "azure-functions-db", theirs, "--name")
    cloning = ("checkpoint", "clone", "orders", "invoices")
    return {
        case.name: case
        for case in (
            Case("reset-to-beginning", ("reset-to-beginning", "orders"), 0),
            Case("reset-to-cursor", ("reset-to-cursor", "orders", *fourth), FOURTH),
            Case("reset-to-checkpoint", to_kept, FOURTH),
            Case("undo", ("undo", "orders", "--change", LAST), HALF, prepare=was_reset),
            Case("reset-to-checkpoint-gone", to_kept, FOURTH, prepare=gone),
            Case("clone-checkpoint", cloning, HALF, "invoices"),
            Case("clone-checkpoint-overwrite", (*cloning, "--overwrite"), HALF, "invoices", ahead),
            Case("rebind", ("rebind", "orders"), None, prepare=source_changed, foreign=True),
            Case("import", (*importing, "invoices"), FOURTH, "invoices"),
            Case("import-overwrite", (*importing, "orders", "--overwrite"), FOURTH),
            Case("pause", ("pause", "orders"), None, fenced=False),
            Case("cancel", ("cancel", "orders", "--no-wait"), None, fenced=False),
            Case("resume", ("resume", "orders"), None, prepare=paused, fenced=False),
            Case("quarantine-discard", ("quarantine", "discard", "orders", "--id", row_id(2)), None, prepare=row_waits),
            Case("quarantine-add", ("quarantine", "add", "orders", "--pk", f"id={ROWS}"), None),
        )
    }


CREATING = {"reset-to-checkpoint-gone", "clone-checkpoint", "import"}
"""Where there is no document before, and so nobody at work."""
ALIKE = {"reset-to-beginning", "reset-to-checkpoint", "import-overwrite", *CREATING}
"""Whose steps are those of another."""
REMOTE = {"a worker commits", "a worker ends", "another resets", "it is deleted"}
"""Who races on Azurite before the change and after it; the others once."""


@pytest.fixture
def shop(project: Project) -> Project:
    """Two pollers of one table; the lease outlasts any pause of the machine."""
    short = f'batch_size = {BATCH}\nmax_batches_per_tick = 1\nlease_ttl = "10m"\nheartbeat_interval = "3m"'
    project.configure("orders", "invoices", poller=short)
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('table = "invoices"', 'table = "orders"'))
    project.insert(ROWS)
    theirs = json.loads(fixture("text").read_text())
    theirs["checkpoint"]["cursor"] = ["2026-01-01 00:00:00", FOURTH]
    (project.folder / THEIRS).write_text(json.dumps(theirs))
    return project


@pytest.fixture
def place(request: pytest.FixtureRequest, shop: Project, forge: Forge) -> Iterator[Place]:
    """Where half of the rows were delivered, and the checkpoint of the fourth is kept in a file; `azurite`: with the
    rows in PostgreSQL."""
    with placed(request, shop, forge, request.param, "orders") as made:
        _half(made)
        yield made


def _half(place: Place) -> None:
    worked(place, "orders", FOURTH)
    place.run("checkpoint", "export", "orders", "kept.json")
    worked(place, "orders", HALF - FOURTH)


Moments = Callable[[list[str], int], list[tuple[int, str]]]
"""Of the steps of a command, when it is held; the number is the intruder's."""


def raced(place: Place, name: str, intruders: dict[str, Moments]) -> None:
    case = cases(str(place.project.folder))[name]
    case.prepare(place)
    case = named(place, case)
    place.keep()
    place.restore()
    config = (place.project.folder / "poller.toml").read_text()
    steps = place.steps(*case.command, "--yes", "--json")
    for number, (intruder, moments) in enumerate(intruders.items()):
        for step, when in moments(steps, number):
            place.project.write(config)
            try:
                outcome = race(place, case, INTRUDERS[intruder], step, when)
            except BaseException as error:
                error.add_note(f"{intruder}; held {when} step {step}, {steps[step - 1]}, of {steps}")
                raise
            assert outcome.first is (step > write(steps) or (step, when) == (write(steps), "after"))


def write(steps: list[str]) -> int:
    """The number of the step that makes the change."""
    return next(number for number, step in enumerate(steps, 1) if step.startswith("write state/"))


def ahead_of_it(steps: list[str], _: int) -> list[tuple[int, str]]:
    return [(write(steps), "before")]


def around_it(steps: list[str], _: int) -> list[tuple[int, str]]:
    return [(write(steps), "before"), (write(steps), "after")]


def every_moment(steps: list[str], _: int) -> list[tuple[int, str]]:
    """What follows once it is made only reports it."""
    return [
        *((number, "before") for number in range(1, write(steps) + 1)),
        (write(steps), "after"),
        (len(steps), "after"),
    ]


def by_turns(steps: list[str], number: int) -> list[tuple[int, str]]:
    """One before it is made and one after, others for each intruder."""
    made = write(steps)
    return [(1 + number % made, "before"), (made + number % (len(steps) - made + 1), "after")]


def by_turn(steps: list[str], number: int) -> list[tuple[int, str]]:
    """One of those two."""
    return [by_turns(steps, number)[number % 2]]


TELLING: dict[tuple[str, str], dict[str, Moments]] = {
    ("embedded", "reset-to-cursor"): {
        "a worker commits": around_it,
        "another resets": ahead_of_it,
        "it is rolled back": ahead_of_it,
    },
    ("embedded", "reset-to-checkpoint-gone"): {"a worker commits": ahead_of_it},
    ("embedded", "clone-checkpoint-overwrite"): {"a worker is broken": ahead_of_it},
    ("embedded", "cancel"): {"a worker begins": around_it},
    ("azurite", "reset-to-checkpoint"): {"a worker commits": around_it},
}
REMOTELY: dict[tuple[str, str], dict[str, Moments]] = {
    ("azurite", "reset-to-cursor"): {"a worker begins": around_it},
    ("azurite", "import-overwrite"): {"another does the same": ahead_of_it, "it is deleted": ahead_of_it},
}
"""What the soak tries beside them; those of the embedded store it holds at every step."""


@pytest.mark.parametrize(
    ("place", "name"), [*TELLING, *(pytest.param(*one, marks=pytest.mark.soak) for one in REMOTELY)], indirect=["place"]
)
def test_held_around_the_write_that_makes_the_change(place: Place, name: str) -> None:
    where = "embedded" if isinstance(place, Embedded) else "azurite"
    raced(place, name, (TELLING | REMOTELY)[where, name])


STEPPED = ("reset-to-cursor", "import-overwrite", "quarantine-discard", "cancel")
"""One of each kind, which the soak holds at every step: a checkpoint that is moved, one put in the place of another, a
list of rows, a backfill."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("place", "name"),
    [
        pytest.param(
            place, name, marks=pytest.mark.soak if (place, name in STEPPED) == ("embedded", True) else pytest.mark.prove
        )
        for place in ("embedded", "azurite")
        for name in cases("")
    ],
    indirect=["place"],
)
def test_held_between_any_two_steps(place: Place, name: str) -> None:
    embedded = isinstance(place, Embedded)
    moments = every_moment if embedded and name not in ALIKE else by_turns
    able = [one.name for one in INTRUDERS.values() if name not in CREATING or not one.breaks]
    raced(place, name, {intruder: moments if embedded or intruder in REMOTE else by_turn for intruder in able})


# --- what people read ----------------------------------------------------------------------------------------------


def started(place: Place, name: str) -> tuple[str, ...]:
    """The command of a case, prepared and remembered."""
    case = cases(str(place.project.folder))[name]
    case.prepare(place)
    case = named(place, case)
    place.keep()
    place.restore()
    return (*case.command, "--yes")


def overtaken(place: Place, intruder: str, step: int, *command: str) -> Ended:
    """How the command ended that was held there."""
    scene = Scene(place, Case("", command, None))
    with place.held(step, "before", *command) as let_go:
        INTRUDERS[intruder].meanwhile(scene)
        return let_go()


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
def test_the_text_names_what_was_replaced_not_what_was_shown(place: Place) -> None:
    command = started(place, "reset-to-cursor")
    ended = overtaken(place, "a worker commits", 3, *command)
    assert ended.code == 0, ended.err
    shown, done = ended.out.split("Done.")
    assert "2 rows will be delivered again" in shown
    assert "the checkpoint was at 2026-01-01 00:00:00 / id=8" in done
    assert "So 4 rows will be delivered again." in done
    place.restore()
    ended = overtaken(place, "it is rolled back", 3, *command)
    assert ended.code == 3
    assert "orders: its checkpoint went back meanwhile. It is now:\n" in ended.err
    assert ended.out.count("reset-to-cursor orders") == 2, "it is shown again"
    assert "2 rows will never be delivered. Nothing was changed." in ended.err.splitlines()[-1]


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
def test_keys_that_only_the_database_can_order_are_compared_there(place: Place) -> None:
    project = place.project
    text = (project.folder / "poller.toml").read_text()
    project.write(
        text + text[text.index("[pollers.orders]") : text.index("[pollers.invoices]")].replace("orders", "names")
    )
    project.execute("CREATE TABLE names (id TEXT PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    project.execute("INSERT INTO names VALUES (?, ?)", *[(name, "2026-01-01 00:00:00") for name in "abcdef"])
    worked(place, "names", 4)
    place.keep()
    command = ("reset-to-cursor", "names", "--value", "2026-01-01 00:00:00", "--pk", "id=b", "--yes", "--json")
    with place.held(3, "before", *command) as let_go:
        worked(place, "names", 2)
        ended = let_go()
    assert ended.code == 0, ended.err
    assert (ended.json["before"]["cursor"]["tiebreaker"], ended.json["effect"]["redelivered"]) == ({"id": "f"}, 4)
    place.restore()
    with place.held(3, "before", *command) as let_go:
        met = freed((place.body("names") or b"").replace(b'"id": "d"', b'"id": "a"'))
        place.replace("names", met)
        ended = let_go()
    assert ended.code == 3
    assert "1 row will never be delivered" in ended.err
    assert place.body("names") == met


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
def test_anothers_pause_is_not_ended_unseen(place: Place) -> None:
    command = started(place, "resume")
    ended = overtaken(place, "another pauses", 3, *command)
    assert ended.code == 0, ended.err
    assert "another operator changed it meanwhile. It is now:" in ended.err
    assert f"{OTHERS}." in ended.out, "whose pause it ended, and why that was made"


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
def test_a_document_deleted_meanwhile_is_not_taken_for_a_new_one(place: Place) -> None:
    ended = overtaken(place, "it is deleted", 2, *started(place, "pause"))
    assert ended.code == 1
    assert "it was deleted" in ended.error
    assert "reset-to-checkpoint orders" in ended.error


__all__ = ["place", "shop"]


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
def test_a_file_written_meanwhile_is_replaced_only_with_overwrite(place: Place) -> None:
    file = place.project.folder / "theirs.out"
    for options, code in (((), 3), (("--overwrite",), 0)):
        command = ("checkpoint", "export", "orders", file.name, *options)
        file.unlink(missing_ok=True)
        last = len(place.steps(*command))
        file.unlink()
        with place.held(last, "before", *command) as let_go:
            file.write_text("precious")
            ended = let_go()
        assert ended.code == code, ended.err
        assert (file.read_text() == "precious") is (code == 3)
    assert [path.name for path in place.project.folder.iterdir() if path.name.endswith(".part")] == []


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
def test_two_inits_at_once_leave_one_of_the_two_projects(place: Place) -> None:
    folder = place.project.folder / "new"
    folder.mkdir()
    config = folder / "poller.toml"
    console = Console(place.project)
    command = ("init", "-c", str(config), "--url", f"sqlite:///{place.project.folder}/shop.db", "--table", "orders")
    steps = place.steps(*command, "--app", "ours", "--yes")
    for step in range(1, len(steps) + 1):
        for path in folder.iterdir():
            path.unlink()
        with place.held(step, "before", *command, "--app", "ours", "--yes") as let_go:
            others = console.run(*command, "--app", "others", "--yes")
            ended = let_go()
        assert {ended.code, others.code} == {0, 3}, (steps[step - 1], ended.err, others.err)
        winner = "ours" if ended.code == 0 else "others"
        assert f'app_name = "{winner}"' in config.read_text()
        assert {path.name for path in folder.iterdir()} == {"poller.toml", "handlers.py", "poller.schema.json"}


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
def test_late_rows_go_to_no_handler_beside_a_worker_or_a_pause(place: Place) -> None:
    project = place.project
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace("batch_size", 'audit_window = "2h"\nbatch_size'), NOTING)
    worked(place, "orders", ROWS - HALF)
    late, next_one = (ROWS + 1, "2026-01-01 00:00:00"), (ROWS + 2, "2026-01-01 00:00:05")
    project.execute("INSERT INTO orders VALUES (?, ?)", late, next_one)
    command = ("recheck", "orders", "--redeliver", "--yes", "--json")
    place.keep()
    place.restore()
    steps = place.steps(*command)
    assert project.lines("seen") == [f"orders {ROWS + 1} 6"]
    for intruder in ("a worker begins", "another pauses", "another resets"):
        for step in (write(steps) - 1, write(steps)):
            (project.folder / "seen").unlink(missing_ok=True)
            place.restore()
            scene = Scene(place, Case("", command, None))
            with place.held(step, "before", *command) as let_go:
                INTRUDERS[intruder].meanwhile(scene)
                met = scene.body
                ended = let_go()
            if intruder == "another resets" and step < write(steps):
                continue  # it then works beside the reset: its row only comes once more
            assert (ended.code, ended.out) == (3, ""), (intruder, steps[step - 1])
            assert (project.lines("seen"), scene.body) == ([], met), (intruder, steps[step - 1])
            INTRUDERS[intruder].after(scene)
