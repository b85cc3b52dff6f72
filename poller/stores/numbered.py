"""Log documents of numbered lines: one entry of the service for each line, and one that says there is a log.

A line is created under a number that is free: so of two that append at once each gets one of its own, and their order
is that of the numbers. The digits in an entry's key count down from the highest number: services list keys in ascending
order, and so find the newest line first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from poller.errors import StoreUnavailable
from poller.model.limits import newest_lines
from poller.ports import Timeout

PAGE = 1000
"""Entries that one request asks for."""
_HIGHEST = 10**16 - 1
# One for each other process that appends at the same moment, and then some.
_ATTEMPTS = 50


class NumberedLog(ABC):
    """Appends lines to log documents and finds them."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}  # only a hint: the service says when the number is taken

    def append(self, name: str, line: str, timeout: Timeout | None) -> None:
        """One request, once this process knows the newest number (one more).

        Raises: as `StateStore.append`.
        """
        for _ in range(_ATTEMPTS):
            known = self._newest.pop(name, None)
            number = 1 + (self._number(self.newest(name, timeout)) if known is None else known)
            if number == 1:
                self.begin(name, timeout)
            if self.create(name, f"{_HIGHEST - number:016d}", line, timeout):
                self._newest[name] = number
                return
        raise StoreUnavailable(
            f"Others write to {self.locate(name)} all the time.", document=name, next_step="Try again."
        )

    def lines(self, name: str, limit: int | None) -> list[str]:
        """The last `limit` lines, oldest first: one request for each `PAGE`, from the newest on."""
        page = PAGE if limit is None else min(limit, PAGE)
        return newest_lines(self.newest_first(name, limit, page), limit)

    @staticmethod
    def _number(digits: str) -> int:
        return _HIGHEST - int(digits) if digits.isdecimal() else 0

    @abstractmethod
    def locate(self, name: str) -> str:
        """See `StateStore.locate`."""

    @abstractmethod
    def newest(self, name: str, timeout: Timeout | None) -> str:
        """The digits in the key of the newest line; empty if there is none. Raises: StoreError."""

    @abstractmethod
    def begin(self, name: str, timeout: Timeout | None) -> None:
        """Say that there is such a log, unless another did. Raises: StoreError."""

    @abstractmethod
    def create(self, name: str, digits: str, line: str, timeout: Timeout | None) -> bool:
        """Create a line's entry; False if there is one. Raises: StoreError."""

    @abstractmethod
    def newest_first(self, name: str, limit: int | None, page: int) -> Iterator[str]:
        """The lines, `page` in one answer; with a `limit` only their beginnings need travel. Raises: StoreError."""
