"""One clock for a process and its SQLite files: it stands still until a test moves it, or something sleeps."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import Pool

from poller.runtime import SystemRuntime

BEGIN = datetime(2026, 4, 7, 9, 30, tzinfo=UTC)
_FUNCTIONS = {"strftime": 1, "datetime": 0, "date": 0, "time": 0, "julianday": 0}
"""SQLite's functions that know the word `now`, and which argument of each says a time."""


class FrozenRuntime(SystemRuntime):
    """A machine whose clock stands still, and whose ids are counted."""

    def __init__(self, begin: datetime = BEGIN) -> None:
        super().__init__()
        self.now = begin
        self._begin = begin
        self._ids = itertools.count(1)
        self._plain = sqlite3.connect(":memory:", check_same_thread=False)
        self._one_at_a_time = threading.Lock()

    def utcnow(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return 1000.0 + (self.now - self._begin).total_seconds()

    def sleep(self, seconds: float) -> None:
        self.pass_by(seconds)

    def pass_by(self, seconds: float) -> None:
        """Move the clock on."""
        self.now += timedelta(seconds=seconds)

    def jitter(self, low: float, high: float) -> float:
        return high

    def new_id(self) -> str:
        """The first eight digits, which people see, differ most."""
        number = next(self._ids)
        return f"{number * 0x9E3779B1 % 2**32:08x}{number:024x}"

    @contextmanager
    def in_sqlite(self) -> Iterator[None]:
        """Every SQLite connection that SQLAlchemy makes meanwhile has this clock."""

        def set_clock(dbapi: Any, _: object) -> None:
            if isinstance(dbapi, sqlite3.Connection):
                for name, place in _FUNCTIONS.items():
                    dbapi.create_function(name, -1, self._function(name, place))

        sa.event.listen(Pool, "connect", set_clock)
        try:
            yield
        finally:
            sa.event.remove(Pool, "connect", set_clock)

    def _function(self, name: str, place: int) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            given = list(arguments)
            if len(given) == place:
                given.append("now")
            if given[place] == "now":
                given[place] = f"{self.now:%Y-%m-%d %H:%M:%S.%f}"
            marks = ", ".join("?" * len(given))
            with self._one_at_a_time, closing(self._plain.execute(f"SELECT {name}({marks})", given)) as cursor:
                return cursor.fetchone()[0]

        return call
