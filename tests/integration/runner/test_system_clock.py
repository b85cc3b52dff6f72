"""The real clock beside the two it is made of: never slower than either, and no faster for being asked."""

from __future__ import annotations

import itertools
import random

import pytest

from poller.runtime import SystemRuntime


class Machine:
    """CLOCK_MONOTONIC and CLOCK_BOOTTIME; `between` passes between the readings of the two."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running = 1000.0
        self.slept = 0.0
        self.between = 0.0
        monkeypatch.setattr("poller.runtime._BOOT", 7)
        monkeypatch.setattr("time.monotonic", lambda: self._read(0.0))
        monkeypatch.setattr("time.clock_gettime", lambda _: self._read(self.slept))

    def _read(self, more: float) -> float:
        value = self.running + more
        self.running += self.between
        return value


def test_being_asked_often_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that loses its turn between the two readings, again and again."""
    machine = Machine(monkeypatch)
    runtime = SystemRuntime()
    began, chance = machine.running, random.Random(1)
    first = runtime.monotonic()
    for _ in range(5000):
        machine.between = chance.choice((0.0, 0.000_001, 0.005, 0.04))
        runtime.monotonic()
    machine.between = 0.0
    assert runtime.monotonic() - first == pytest.approx(machine.running - began, abs=0.05)


@pytest.mark.parametrize("stall", [0.0, 0.001, 0.2, 30.0])
@pytest.mark.parametrize("slept", [0.01, 0.3, 5.0, 3600.0])
def test_a_sleep_of_the_machine_counts_in_full(monkeypatch: pytest.MonkeyPatch, stall: float, slept: float) -> None:
    """Each of the readings may be the one that stalls: the first ever, the one before the sleep, the one after it."""
    for stalls in itertools.product((0.0, stall), repeat=3):
        machine = Machine(monkeypatch)
        machine.between = stalls[0]
        runtime = SystemRuntime()
        machine.between = stalls[1]
        before = runtime.monotonic()
        machine.between = 0.0
        at = machine.running
        machine.running += 1.0
        machine.slept += slept
        machine.between = stalls[2]
        after = runtime.monotonic()
        assert after - before >= machine.running - 3 * stalls[2] - at + slept - 1e-6
