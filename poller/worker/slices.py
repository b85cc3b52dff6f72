"""The `stop` of one tick: everything is to stop, or its turn is over and others wait."""

from __future__ import annotations

from collections.abc import Callable

from poller.ports import Event

STEP = 1.0
"""Seconds between two checks of both while either is waited for."""


class TurnStop:
    """A `poller.ports.PatientStop`. Setting it ends the tick after the batch in hand; before the first call it does not
    count, or a poller whose page takes longer than a slice would deliver nothing while others wait.

    Attributes:
        cut: whether the tick was asked to stop for others' sake: then rows may be left, whatever its result says.
    """

    def __init__(self, all_stop: Event, own: Event) -> None:
        self._all = all_stop
        self._own = own
        self._worked = False
        self._in_handler: Callable[[], float] = lambda: 0.0
        self.cut = False

    def set(self) -> None:
        """Others wait: end after the batch in hand."""
        self._own.set()

    def progressed(self) -> None:
        """A call was made."""
        self._worked = True

    def watch(self, in_handler: Callable[[], float]) -> None:
        """A tick begins."""
        self._in_handler = in_handler

    @property
    def in_handler(self) -> float:
        """The seconds for which the tick has waited for its handler, and for nothing else."""
        return self._in_handler()

    @property
    def for_all(self) -> bool:
        """True if everything is to stop."""
        return self._all.is_set()

    def is_set(self) -> bool:
        """True if no further batch may start."""
        if self._all.is_set():
            return True
        if self._worked and self._own.is_set():
            self.cut = True
            return True
        return False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no further batch may start."""
        left = timeout
        while not self.is_set() and (left is None or left > 0):
            step = STEP if left is None else min(STEP, left)
            self._all.wait(step)
            left = None if left is None else left - step
        return self.is_set()
