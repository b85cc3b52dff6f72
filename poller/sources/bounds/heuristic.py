"""The fallback: what is older than `settle`. Safe only while no transaction stays open longer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.ports import Bound
from poller.sources.bounds.base import BoundContext, Stateless
from poller.sources.columns.moments import remembered

_MISSED = "rows of transactions open longer than `settle` are missed"
_KEPT = 64


class Heuristic(Stateless):
    """The database's clock less an estimated delay."""

    kind = "heuristic"

    def __init__(self, context: BoundContext, reason: str) -> None:
        self._context = context
        self._reason = f"{reason}; {_MISSED}"

    def sample(self, connection: Connection) -> Bound:
        """One statement: the clock."""
        clock = datetime.fromisoformat(connection.execute(sa.text(self._context.clock)).scalar_one())
        return self._context.bound(clock - self._context.delay, clock, kind=self.kind, reason=self._reason)


class HighestSeen:
    """For cursors that are not times: up to the greatest value that was already there `settle` ago.

    With another `kind` and `delay`, for databases with one writer at a time. `missed`: which rows are lost.
    `handed_out`: the greatest number that the database has handed out, where it keeps count.
    """

    def __init__(
        self,
        context: BoundContext,
        reason: str,
        *,
        kind: str = "heuristic",
        delay: timedelta | None = None,
        missed: str = _MISSED,
        handed_out: Callable[[Connection], int | None] | None = None,
    ) -> None:
        self.kind = kind
        self._context = context
        self._reason = f"{reason}; {missed}" if kind == "heuristic" and missed else reason
        self._delay = context.delay if delay is None else delay
        self._handed_out = handed_out
        self._seen: list[tuple[datetime, str]] = []
        """When a sample was taken, and the greatest value then."""

    def sample(self, connection: Connection) -> Bound:
        """The clock, then the greatest value."""
        count = None if self._handed_out is None else self._handed_out(connection)
        return replace(self._highest(connection), next=None if count is None else str(count + 1))

    def _highest(self, connection: Connection) -> Bound:
        text = connection.execute(sa.text(self._context.clock)).scalar_one()
        highest = connection.execute(sa.text(self._context.highest)).scalar()
        clock = datetime.fromisoformat(text)
        if self._seen and clock < self._seen[-1][0]:
            self._seen = []
        if highest is not None:
            self._seen.append((clock, str(highest)))
        old = [number for number, (taken, _) in enumerate(self._seen) if clock - taken >= self._delay]
        if not old:
            reason = f"no value has been there for `settle` yet; {self._reason}"
            return Bound(kind=self.kind, reason=reason, clock=text, cold=bool(self._seen))
        self._seen = self._seen[old[-1] :]
        if len(self._seen) > _KEPT:
            self._seen = [self._seen[0], *self._seen[1:-1:2], self._seen[-1]]
        return Bound(kind=self.kind, value=self._seen[0][1], clock=text, reason=self._reason, inclusive=True)

    def remember(self) -> dict[str, Any] | None:
        """The first and the last few."""
        kept = dict.fromkeys(self._seen[:1] + self._seen[-4:])
        return {"seen": [[taken.isoformat(), value] for taken, value in kept]} if kept else None

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Where this process has seen nothing."""
        if not self._seen and memory.get("seen"):
            self._seen = [(remembered(taken), self._context.remembered(value)) for taken, value in memory["seen"]]
