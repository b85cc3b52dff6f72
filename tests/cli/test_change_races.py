"""A command that changes state, held between any two of its steps while somebody else acts completely: a worker,
another operator, a hand in the store. What may come of it is in `tests.cli.races`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.cli.conftest import Project
from tests.cli.crashes import Embedded, OnAzurite, Place
from tests.cli.forge import Forge
from tests.cli.races import BATCH, INTRUDERS, ROWS, Case, Worker, race
from tests.cli.test_import import fixture
from tests.faults.proxy import FaultProxy

HALF, FOURTH = 6, 4
THEIRS = "theirs.json"


def worked(place: Place, poller: str, rows: int) -> None:
    """So many more rows are delivered."""
    for _ in range(rows // BATCH):
        assert Worker(place, poller).tick() == "delivered"


def gone(place: Place) -> None:
    place.put("orders", None)


def ahead(place: Place) -> None:
    """The other poller has come further."""
    worked(place, "invoices", HALF + BATCH)


def source_changed(place: Place) -> None:
    text = (place.project.folder / "poller.toml").read_text()
    (place.project.folder / "old.toml").write_text(text)
    place.project.write(text.replace('pk_columns = ["id"]', 'pk_columns = ["id"]\nfilter = "id > 0"', 1))


def paused(place: Place) -> None:
    place.run("pause", "orders", "--yes")


def cases(folder: str) -> dict[str, Case]:
    kept, theirs = f"{folder}/kept.json", f"{folder}/{THEIRS}"
    fourth = ("--value", "2026-01-01 00:00:00", "--pk", f"id={FOURTH}")
    to_kept = ("reset-to-checkpoint", "orders", kept)
    importing = ("import", "azure-functions-db", theirs, "--name")
    cloning = ("clone-checkpoint", "orders", "invoices")
    return {
        case.name: case
        for case in (
            Case("reset-to-beginning", ("reset-to-beginning", "orders"), 0),
            Case("reset-to-cursor", ("reset-to-cursor", "orders", *fourth), FOURTH),
            Case("reset-to-checkpoint", to_kept, FOURTH),
            Case("reset-to-checkpoint-gone", to_kept, FOURTH, prepare=gone),
            Case("clone-checkpoint", cloning, HALF, "invoices"),
            Case("clone-checkpoint-overwrite", (*cloning, "--overwrite"), HALF, "invoices", ahead),
            Case("rebind", ("rebind", "orders"), None, prepare=source_changed, foreign=True),
            Case("import", (*importing, "invoices"), FOURTH, "invoices"),
            Case("import-overwrite", (*importing, "orders", "--overwrite"), FOURTH),
            Case("pause", ("pause", "orders"), None, fenced=False),
            Case("resume", ("resume", "orders"), None, prepare=paused, fenced=False),
        )
    }


CREATING = {"reset-to-checkpoint-gone", "clone-checkpoint", "import"}
"""Where there is no document before, and so nobody at work."""
ALIKE = {"reset-to-beginning", "reset-to-checkpoint", "import", "import-overwrite"}
"""Which go the way of others, step by step."""


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
    """Where half of the rows were delivered, and the checkpoint of the fourth is kept in a file."""
    made: Place
    if request.param == "embedded":
        made = Embedded(shop, forge)
        _half(made)
        yield made
        made.close()
        return
    azurite, container = request.getfixturevalue("azurite"), request.getfixturevalue("container")
    text = (shop.folder / "poller.toml").read_text()
    shop.write(text.replace('store = "sql"', f'store = "blob"\ncontainer = "{container}"'))
    with FaultProxy("127.0.0.1", azurite.port) as proxy:
        shop.environ["AzureWebJobsStorage"] = proxy.connection_string
        made = OnAzurite(shop, forge, proxy, azurite.connection_string, container)
        _half(made)
        yield made
        made.close()


def _half(place: Place) -> None:
    worked(place, "orders", FOURTH)
    place.run("export-checkpoint", "orders", "kept.json")
    worked(place, "orders", HALF - FOURTH)


Moments = Callable[[list[str], int], list[tuple[int, str]]]
"""Of the steps of a command, when it is held; the number is the intruder's."""


def raced(place: Place, name: str, intruders: dict[str, Moments]) -> None:
    case = cases(str(place.project.folder))[name]
    case.prepare(place)
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


def behind_it(steps: list[str], _: int) -> list[tuple[int, str]]:
    return [(write(steps), "after")]


def around_it(steps: list[str], _: int) -> list[tuple[int, str]]:
    return [(write(steps), "before"), (write(steps), "after")]


def every_moment(steps: list[str], _: int) -> list[tuple[int, str]]:
    """What follows once it is made only tells of it."""
    return [
        *((number, "before") for number in range(1, write(steps) + 1)),
        (write(steps), "after"),
        (len(steps), "after"),
    ]


def by_turns(steps: list[str], number: int) -> list[tuple[int, str]]:
    """One before it is made and one after, others for each intruder."""
    made = write(steps)
    return [(1 + number % made, "before"), (made + number % (len(steps) - made + 1), "after")]


TELLING: list[tuple[str, str, dict[str, Moments]]] = [
    (
        "embedded",
        "reset-to-cursor",
        {"a worker commits": around_it, "another resets": ahead_of_it, "it is rolled back": ahead_of_it},
    ),
    ("embedded", "reset-to-checkpoint-gone", {"a worker commits": ahead_of_it}),
    ("embedded", "clone-checkpoint-overwrite", {"a worker ends": around_it, "a worker is broken": ahead_of_it}),
    ("embedded", "rebind", {"a worker commits": around_it}),
    ("embedded", "pause", {"a worker ends": ahead_of_it, "another does the same": ahead_of_it}),
    ("azurite", "reset-to-checkpoint", {"a worker commits": around_it, "a worker begins": around_it}),
    ("azurite", "import-overwrite", {"another does the same": ahead_of_it, "it is deleted": ahead_of_it}),
]


@pytest.mark.parametrize(
    ("place", "name", "intruders"), TELLING, ids=[f"{place}-{name}" for place, name, _ in TELLING], indirect=["place"]
)
def test_held_around_the_write_that_makes_the_change(place: Place, name: str, intruders: dict[str, Moments]) -> None:
    raced(place, name, intruders)


@pytest.mark.soak
@pytest.mark.parametrize("name", cases(""))
@pytest.mark.parametrize("place", ["embedded", "azurite"], indirect=True)
def test_held_between_any_two_steps(place: Place, name: str) -> None:
    moments = by_turns if name in ALIKE or isinstance(place, OnAzurite) else every_moment
    raced(
        place,
        name,
        {intruder.name: moments for intruder in INTRUDERS.values() if name not in CREATING or not intruder.breaks},
    )
