"""No bound: every committed row is read, and rows that commit late are lost."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from poller.ports import Bound
from poller.sources.bounds.base import Stateless


class NoBound(Stateless):
    """For tables with a single writer, and for measuring what a bound costs."""

    kind = "none"

    def __init__(self, reason: str) -> None:
        self._bound = Bound(kind=self.kind, reason=f"{reason}; rows that commit late are missed")

    def sample(self, connection: Connection) -> Bound:  # noqa: ARG002
        """Costs nothing."""
        return self._bound
