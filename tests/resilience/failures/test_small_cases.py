"""Every small case: three rows of each kind that are there at once, with one event at each of 40 moments."""

from __future__ import annotations

import itertools
from typing import Literal, TypeAlias, get_args

import pytest

from poller.model.handover import Mode
from tests.resilience.failures.plan import FailurePlan
from tests.resilience.failures.schedule import FailureSchedule
from tests.resilience.failures.versions import Kind

Event: TypeAlias = Literal["crash", "stop", "down", "change", "delete"]
KINDS: tuple[Kind, ...] = ("ok", "bad", "named", "crash")
STEPS = 40


class Small(FailureSchedule):
    """Rows of given kinds, and one event after so many steps."""

    def __init__(self, kinds: tuple[Kind, ...], mode: Mode, event: Event | None = None, step: int = 0) -> None:
        super().__init__(FailurePlan(seed=1, mode=mode, rows=len(kinds), keys=1, batch_size=3, ttl=6.0, trouble=8.0))
        self._kinds, self._event, self._step = kinds, event, step

    def _set_up(self) -> None:
        super()._set_up()
        worker = self.workers[0]
        happens = {
            "crash": worker.crash,
            "stop": worker.stop,
            "down": self._goes_down,
            "change": self._change,
            "delete": self._delete,
        }
        if self._event is not None:
            self.world.at(self._step * 0.25, happens[self._event])

    def _schedule_rows(self) -> None:
        for pk, kind in enumerate(self._kinds, 1):
            self.changing.versions.kinds[pk] = kind
        self.changing.write(range(1, len(self._kinds) + 1))


def played(mode: Mode, event: Event | None, steps: range) -> None:
    for kinds, step in itertools.product(itertools.product(KINDS, repeat=3), steps):
        report = Small(kinds, mode, event, step).run()
        assert report.violation is None, f"{kinds} in the mode {mode}, {event} after {step}: {report.violation}"


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(mode, marks=pytest.mark.soak if mode == "quarantine" else pytest.mark.prove)
        for mode in get_args(Mode)
    ],
)
def test_three_rows_of_each_kind(mode: Mode) -> None:
    played(mode, None, range(1))


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("mode", "event"),
    [
        *(("quarantine", event) for event in get_args(Event)),
        *((mode, event) for mode in ("block", "halt") for event in ("crash", "down")),
    ],
)
@pytest.mark.parametrize("first", range(1, STEPS, 10))
def test_three_rows_of_each_kind_with_one_event_at_each_step(mode: Mode, event: Event, first: int) -> None:
    played(mode, event, range(first, first + 10))
