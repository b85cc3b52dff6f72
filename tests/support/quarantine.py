"""Rows that failed, for tests of their records; and a store that is cut off, or whose answers get lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from poller.errors import StoreUnavailable
from poller.journal import Entry, Quarantine
from poller.model.aside import RowFacts
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError
from poller.model.row_ids import id_of_key
from poller.model.timing import Timing
from poller.ports import Found, Missing, Row, StateStore, Timeout, Unchanged, Written
from poller.runtime import SystemRuntime

T = TypeVar("T")
TIMING = Timing(ttl=60, heartbeat=15)


class Clock(SystemRuntime):
    """Time passes when a test says so, and where something sleeps."""

    def __init__(self) -> None:
        self.passed = 0.0

    def monotonic(self) -> float:
        return 1000.0 + self.passed

    def utcnow(self) -> datetime:
        return datetime(2026, 4, 7, tzinfo=UTC) + timedelta(seconds=self.passed)

    def sleep(self, seconds: float) -> None:
        self.passed += seconds


def quarantine(store: StateStore, runtime: SystemRuntime | None = None, **options: Any) -> Quarantine:
    options = {"app_name": "shop", "poller_name": "orders"} | options
    return Quarantine(store, runtime=runtime or SystemRuntime(), timing=TIMING, **options)


def entry(number: int = 1, row: Row | None = None, **fields: Any) -> Entry:
    """What a failure of the row of this number opens its record with."""
    key = f"orders/id={number}/2026-04-07T01:00:00.000000Z"
    facts = RowFacts(id_of_key(key), f"pk{number}", "key", cursor_of(number))
    usual: dict[str, Any] = {
        "error": DeliveryError(type="ValueError", message="no such product"),
        "failures": 1,
        "batch_id": "batch_1",
        "fencing_token": 7,
        "generation": 2,
        "ordering_key": {"customer": None},
    }
    content = {"id": number, "name": "Zürich"} if row is None else row
    return Entry(facts=facts, row=content, row_key=key, **usual | fields)


def cursor_of(number: int) -> Cursor:
    return Cursor(kind="timestamp+pk", value="2026-04-07T01:00:00.000000Z", tiebreaker={"id": number})


class Killed(BaseException):
    """The process ends here."""


class Cut:
    """A `StateStore` in front of another. `at`: the process ends at this request, from 1; `after`: once it was applied.
    `lost`: so many writes and removals are applied, and their answers are lost."""

    def __init__(self, inner: StateStore, *, at: int = 0, after: bool = False, lost: int = 0) -> None:
        self.inner = inner
        self.at = at
        self.after = after
        self.lost = lost
        self.requests: list[str] = []
        self.between: Callable[[], object] | None = None
        """Called once, before the next write or removal: what another does meanwhile."""

    def _do(self, what: str, work: Callable[[], T]) -> T:
        self.requests.append(what)
        changes = what in {"write", "remove"}
        if changes and self.between is not None:
            between, self.between = self.between, None
            between()
        if len(self.requests) == self.at and not self.after:
            raise Killed
        try:
            done = work()
        finally:
            if len(self.requests) == self.at:
                raise Killed
        if changes and self.lost:
            self.lost -= 1
            raise StoreUnavailable("the answer was lost")
        return done

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        return self._do("read", lambda: self.inner.read(name, unless=unless, timeout=timeout))

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        return self._do("write", lambda: self.inner.write(name, body, if_tag=if_tag, timeout=timeout))

    def remove(self, name: str, *, if_tag: str, timeout: Timeout | None = None) -> None:
        self._do("remove", lambda: self.inner.remove(name, if_tag=if_tag, timeout=timeout))

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        self._do("append", lambda: self.inner.append(name, line, timeout=timeout))

    def lines(self, name: str, *, limit: int | None = None) -> list[str]:
        return self._do("lines", lambda: self.inner.lines(name, limit=limit))

    def names(self, prefix: str) -> Iterator[str]:
        return self._do("names", lambda: self.inner.names(prefix))

    def locate(self, name: str) -> str:
        return self.inner.locate(name)

    def close(self) -> None:
        self.inner.close()
