"""`poller quarantine replay`, killed by SIGKILL between any two steps: each row that waited is done, or still waits
with its record; the same command finishes the work, and hands over nothing again but what was in the killed call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.crashes import every_moment
from tests.cli.forge import Forge
from tests.cli.lives import Life, begun
from tests.cli.project import Project

REPLAY = ("quarantine", "replay", "orders", "--all", "--yes", "--reason", "mended")


@pytest.fixture
def life(request: pytest.FixtureRequest, project: Project, forge: Forge) -> Iterator[Life]:
    """Three rows that wait for a person, and those that follow them; the handler is mended."""
    with begun(request, project, forge) as made:
        made.drain()
        made.mend()
        yield made


def killed_everywhere(life: Life, every: int) -> int:
    """How many replays were killed."""
    life.keep()
    steps = life.tick(*REPLAY)
    assert life.is_done()
    kills = 0
    for step, when in every_moment(steps)[::every]:
        life.restore()
        if not life.kill(step, when, *REPLAY):
            continue
        kills += 1
        try:
            life.holds()
            life.tick(*REPLAY)
            assert life.is_done(), life.state
        except AssertionError as error:
            error.add_note(f"killed {when} step {step} of {steps}; {life.calls()}; {life.place.forge.err}")
            raise
    return kills


@pytest.mark.soak
@pytest.mark.parametrize("life", ["embedded-raises"], indirect=True)
def test_a_replay_killed_at_some_steps_loses_no_row(life: Life) -> None:
    assert killed_everywhere(life, 3) > 3


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("life", ["embedded-raises", "azurite-raises"], indirect=True)
def test_a_replay_killed_between_any_two_steps_loses_no_row(life: Life) -> None:
    print(f"{killed_everywhere(life, 1)} kills")
