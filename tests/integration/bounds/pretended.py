"""A pretended connection, and what a bound is chosen by; for databases of which there is no server here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta
from typing import Any

from sqlalchemy.engine import Connection

from poller.ports import Bound
from poller.sources.bounds import BoundContext
from poller.sources.columns import Column, Family

STAMP = Column("updated_at", Family.TIMESTAMP, sql_type="datetime2(7)", digits=7)


class Answer:
    """One row, or an error of the driver."""

    def __init__(self, row: Any) -> None:
        self._row = row

    def one(self) -> Any:
        return self._row

    def scalar(self) -> Any:
        return self._row

    scalar_one = scalar


class Pretended:
    """A connection that answers by a word in the statement, and keeps what it was sent."""

    def __init__(self, answers: Sequence[tuple[str, Any]]) -> None:
        self._answers = answers
        self.sent: list[str] = []

    def execute(self, statement: Any, parameters: Any = None) -> Answer:
        self.sent.append(" ".join(str(statement).split()))
        for word, answer in self._answers:
            if word in self.sent[-1]:
                if isinstance(answer, Exception):
                    raise answer
                return Answer(answer)
        raise AssertionError(f"not foreseen: {self.sent[-1]}")


def context(family: str, column: Column = STAMP, **changes: Any) -> BoundContext:
    facts: dict[str, Any] = {
        "family": family, "mariadb": False, "kind": "timestamp+pk", "column": column, "zone": UTC, "schema": "dbo",
        "table": "orders", "query": None, "settle": timedelta(seconds=1), "delay": timedelta(seconds=5),
        "extra_delay": timedelta(0), "ignore_users": (), "clock": "CLOCK",
        "highest": "HIGHEST", "highest_below": "BELOW",
    }  # fmt: skip
    return BoundContext(**{**facts, **changes})


class GivenBounds:
    kind = "exact"

    def __init__(self, *bounds: Bound) -> None:
        self._bounds = iter(bounds)

    def sample(self, connection: Connection) -> Bound:
        return next(self._bounds)

    def remember(self) -> dict[str, Any] | None:
        return None

    def recall(self, memory: Mapping[str, Any]) -> None:
        pass
