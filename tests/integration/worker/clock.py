"""Time for a worker's loop: it passes only while all its threads wait."""

from __future__ import annotations

from tests.integration.runner.clockwork import MIDNIGHT, Clockwork

__all__ = ["MIDNIGHT", "Clock"]


class Clock(Clockwork):
    """A runtime whose chance is always the highest. `stop`: for the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = self.event()

    @property
    def passed(self) -> float:
        """Seconds."""
        return self.monotonic()

    def jitter(self, low: float, high: float) -> float:
        return high
