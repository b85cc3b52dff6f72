"""No bound: every committed row is read, and rows that commit late are lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.engine import Connection

from poller.ports import Bound


class NoBound:
    """Right for tables that one writer fills, and for measuring what a bound costs."""

    kind = "none"

    def __init__(self, reason: str) -> None:
        self._bound = Bound(kind=self.kind, reason=f"{reason}; rows that commit late are missed")

    def sample(self, connection: Connection) -> Bound:  # noqa: ARG002
        """Costs nothing."""
        return self._bound

    def remember(self) -> dict[str, Any] | None:
        """Nothing."""
        return None

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Nothing."""
