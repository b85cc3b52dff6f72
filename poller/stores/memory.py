"""Documents in this process's memory: for tests, simulations and a first try. They end with the process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Protocol

from poller import forks
from poller.errors import WriteConflict
from poller.model.finding import Finding, warn
from poller.model.limits import LARGEST_BODY, newest_lines
from poller.ports import Found, Listed, Missing, Timeout, Unchanged, Written


class WallClock(Protocol):
    """The one thing this store needs of a `ports.Runtime`."""

    def utcnow(self) -> datetime:
        """The time that is used as the server's, zone-aware UTC."""
        ...


class _SystemClock:
    def utcnow(self) -> datetime:
        return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class _Document:
    body: bytes
    tag: str
    modified_at: datetime


class MemoryStore:
    """A `StateStore` that several pollers of one process may share; safe to call from several threads.

    Args:
        clock: the server's clock, such as a simulation's runtime; this machine's when None.
        server_time: False omits the time from every answer, as a store without a clock would (protocol 3).

    Tags are "1", "2", ... in the order of writes, so that a simulation is reproducible.
    """

    def __init__(self, clock: WallClock | None = None, *, server_time: bool = True) -> None:
        self._clock: WallClock = clock if clock is not None else _SystemClock()
        self._server_time = server_time
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)
        self._writes = 0
        self._documents: dict[str, _Document] = {}
        self._logs: dict[str, list[str]] = {}

    def _reset_after_fork(self) -> None:
        """In a child process, which has a copy of the documents: another thread of the parent may have held the
        lock."""
        self._lock = Lock()

    def read(
        self,
        name: str,
        *,
        unless: str | None = None,
        timeout: Timeout | None = None,  # noqa: ARG002 - nothing here takes time
    ) -> Found | Unchanged | Missing:
        """See `StateStore.read`; never unavailable."""
        with self._lock:
            document = self._documents.get(name)
            now = self._time(self._clock.utcnow())
        if document is None:
            return Missing(now)
        if document.tag == unless:
            return Unchanged(now)
        return Found(document.body[: LARGEST_BODY + 1], document.tag, now, self._time(document.modified_at))

    def write(
        self,
        name: str,
        body: bytes,
        *,
        if_tag: str | None,
        timeout: Timeout | None = None,  # noqa: ARG002
    ) -> Written:
        """See `StateStore.write`; never unavailable."""
        with self._lock:
            stored = self._documents.get(name)
            if (stored.tag if stored is not None else None) != if_tag:
                raise WriteConflict(f"{self.locate(name)} is not the version this write was for.", document=name)
            self._writes += 1
            document = _Document(bytes(body), str(self._writes), self._clock.utcnow())
            self._documents[name] = document
        at = self._time(document.modified_at)
        return Written(document.tag, at, at)

    def remove(self, name: str, *, if_tag: str, timeout: Timeout | None = None) -> None:  # noqa: ARG002
        """See `StateStore.remove`; never unavailable."""
        with self._lock:
            stored = self._documents.get(name)
            if stored is None or stored.tag != if_tag:
                raise WriteConflict(f"{self.locate(name)} is not the version to be removed.", document=name)
            del self._documents[name]

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:  # noqa: ARG002
        """See `StateStore.append`; never unavailable."""
        if "\n" in line:
            raise ValueError("a line of a log document contains no line break")
        with self._lock:
            self._logs.setdefault(name, []).append(line)

    def lines(self, name: str, *, limit: int | None = None) -> list[str]:
        """See `StateStore.lines`."""
        with self._lock:
            return newest_lines(reversed(self._logs.get(name, [])), limit)

    def names(self, prefix: str) -> Iterator[str]:
        """See `StateStore.names`."""
        with self._lock:
            found = {name for name in (*self._documents, *self._logs) if name.startswith(prefix)}
        return iter(sorted(found))

    def listed(self, prefix: str, *, timeout: Timeout | None = None) -> Iterator[Listed]:  # noqa: ARG002
        """See `ListingStore.listed`; never unavailable."""
        with self._lock:
            found = sorted((name, one) for name, one in self._documents.items() if name.startswith(prefix))
        return (Listed(name, one.tag, self._time(one.modified_at)) for name, one in found)

    def locate(self, name: str) -> str:
        """See `StateStore.locate`."""
        return f"document {name} in this process's memory"

    def close(self) -> None:
        """Does nothing: the documents stay."""

    def checkup(self, name: str, *, exists: bool = True) -> list[Finding]:  # noqa: ARG002 - the same for every document
        """What `poller check` says of this store; see `poller.admin.doctor.ExaminableStore`."""
        return [warn("storage", "Checkpoints end with this process.", '[state] store = "sql", "blob", "table" or "s3"')]

    def _time(self, at: datetime) -> datetime | None:
        return at if self._server_time else None
