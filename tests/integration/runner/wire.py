"""A store whose requests can be counted and broken, one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

from poller.errors import StoreDenied, StoreUnavailable
from poller.ports import Found, Missing, Timeout, Unchanged, Written
from poller.stores import MemoryStore

STATE = "state/shop/orders.json"

T = TypeVar("T")
Answer: TypeAlias = Found | Unchanged | Missing
Fault: TypeAlias = Callable[[Callable[[], Any]], Any]
"""Given how to do what was asked, does it or not, and answers or raises."""


def unavailable() -> StoreUnavailable:
    return StoreUnavailable("No answer from the store.", document=STATE)


def fine(do: Callable[[], T]) -> T:
    return do()


def lost_before(do: Callable[[], Any]) -> Any:
    """The request never arrives."""
    raise unavailable()


def lost_after(do: Callable[[], Any]) -> Any:
    """It is applied, and the answer is lost."""
    do()
    raise unavailable()


def denied(do: Callable[[], Any]) -> Any:
    raise StoreDenied("403 from the store.", document=STATE)


def then_lost(after: Callable[[], Any]) -> Fault:
    """It is applied, then something else happens, and the answer is lost."""

    def fault(do: Callable[[], Any]) -> Any:
        do()
        after()
        raise unavailable()

    return fault


def preceded(before: Callable[[], Any]) -> Fault:
    """Something else happens first."""

    def fault(do: Callable[[], Any]) -> Any:
        before()
        return do()

    return fault


class Wire:
    """A `poller.ports.StateStore` in front of another: counts its requests and breaks the next ones as asked.

    `reads`, `writes`: of the state document, every attempt. `others`: everything else, as (what, name).
    `read_faults`, `write_faults`, `append_faults`: for the next requests of that kind, one each.
    `down`: nothing answers. `sent`: every document that was ever to be written, by name and body.
    """

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner
        self.reads: list[str | None] = []
        self.writes: list[tuple[bytes, str | None]] = []
        self.others: list[tuple[str, str]] = []
        self.read_faults: deque[Fault] = deque()
        self.write_faults: deque[Fault] = deque()
        self.down = False
        self.append_faults: deque[Fault] = deque()
        self.sent: list[tuple[str, bytes]] = []

    def read(self, name: str, *, unless: str | None = None, timeout: Timeout | None = None) -> Answer:
        def do() -> Answer:
            return self.inner.read(name, unless=unless, timeout=timeout)

        self._up()
        if not name.startswith("state/"):
            self.others.append(("read", name))
            return do()
        self.reads.append(unless)
        answer: Answer = self.read_faults.popleft()(do) if self.read_faults else do()
        return answer

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        def do() -> Written:
            return self.inner.write(name, body, if_tag=if_tag, timeout=timeout)

        self.sent.append((name, bytes(body)))
        if not name.startswith("state/"):
            self._up()
            self.others.append(("write", name))
            return do()
        self.writes.append((body, if_tag))
        self._up()
        answer: Written = self.write_faults.popleft()(do) if self.write_faults else do()
        return answer

    def remove(self, name: str, *, if_tag: str, timeout: Timeout | None = None) -> None:
        self._up()
        self.others.append(("remove", name))
        self.inner.remove(name, if_tag=if_tag, timeout=timeout)

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        self._up()
        self.others.append(("append", name))
        fault = self.append_faults.popleft() if self.append_faults else fine
        fault(lambda: self.inner.append(name, line, timeout=timeout))

    def lines(self, name: str, *, limit: int | None = None) -> list[str]:
        self._up()
        self.others.append(("lines", name))
        return self.inner.lines(name, limit=limit)

    def names(self, prefix: str) -> Iterator[str]:
        self._up()
        return self.inner.names(prefix)

    def locate(self, name: str) -> str:
        return f"blob {name} in container db-state"

    def close(self) -> None: ...

    def forget(self) -> None:
        """Count from here."""
        self.reads.clear()
        self.writes.clear()
        self.others.clear()

    @property
    def counts(self) -> tuple[int, int]:
        """Reads and writes of the state document."""
        return len(self.reads), len(self.writes)

    def _up(self) -> None:
        if self.down:
            raise unavailable()
