"""A worker that sets rows aside, killed by SIGKILL between any two steps of record, commit and retry: each row is
delivered, or listed with a record that holds it; what was reported done comes again only from the call that was killed;
the checkpoint passes nothing else. On Azurite each request is a step, on the embedded store each call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.crashes import OnAzurite, every_moment
from tests.cli.forge import Forge
from tests.cli.lives import Life, begun
from tests.cli.project import Project


@pytest.fixture
def life(request: pytest.FixtureRequest, project: Project, forge: Forge) -> Iterator[Life]:
    with begun(request, project, forge) as made:
        yield made


def killed_everywhere(life: Life, every: int) -> int:
    """Tick after tick until only pending rows and their followers wait; each is killed at its steps, and what comes
    after that must hold: it is played once where two kills leave the same behind, as before and after a read. How many
    were killed."""
    kills = moment = 0
    seen: set[str] = set()
    for _ in range(40):
        if life.is_settled():
            print(f"{kills} kills of {moment} left {len(seen)} states")
            return kills
        life.keep()
        steps = life.tick()
        for step, when in every_moment(steps):
            moment += 1
            if moment % every:
                continue
            life.restore()
            if not life.kill(step, when):
                continue
            kills += 1
            try:
                life.holds()
                sight = life.sight()
                if sight not in seen:
                    life.drain()
                    life.holds()
                    seen.add(sight)
            except AssertionError as error:
                error.add_note(f"killed in tick {life.killed}, {when} step {step} of {steps}; {life.calls()}")
                raise
        life.restore()
        life.tick()
        state = life.state
        if state is not None and life.at(state) == life.rows()[-1] and not life.is_settled():
            life.insert(life.rows()[-1] + 1, "z")
    raise AssertionError("it does not settle")


@pytest.mark.guarantee(
    "Delivery",
    "A row that fails is passed only with its record, wherever the worker is killed, and those that were done are "
    "not handed over again but for the killed call's",
)
@pytest.mark.soak
@pytest.mark.parametrize("life", ["embedded-raises", "embedded-reports", "azurite-raises"], indirect=True)
def test_a_worker_killed_at_some_steps_loses_no_row(life: Life) -> None:
    every = 17 if isinstance(life.place, OnAzurite) else 11
    assert killed_everywhere(life, every) > 1


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "life", ["embedded-raises", "embedded-reports", "azurite-raises", "azurite-reports"], indirect=True
)
def test_a_worker_killed_between_any_two_steps_loses_no_row(life: Life) -> None:
    assert killed_everywhere(life, 1) > 1
