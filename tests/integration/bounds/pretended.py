"""A pretended connection, what a sampler is chosen by, and a process that samples; without any server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from poller.databases.samplers import Remembering
from poller.model.cursor import Cursor
from poller.ports import Bound
from poller.sources.bound import Memory, Rule, Sampled, as_json, bound_of, recalled
from poller.sources.columns import CursorColumn, Family
from poller.sources.database import Asked
from poller.sources.options import ReadOptions, read_options

STAMP = CursorColumn("updated_at", Family.TIMESTAMP, sql_type="datetime2(7)", digits=7)


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


def asked(column: CursorColumn = STAMP, **changes: Any) -> Asked:
    keys = {
        "cursor_column": column.name, "pk_columns": ["id"], "cursor_time_zone": "UTC", "bound": "auto",
        "schema_name": "dbo", "table": "orders",
    }  # fmt: skip
    given = {name: value for name, value in {**keys, **changes}.items() if value is not None}
    return Asked(read_options(given), column, *map(sa.text, ("CLOCK", "HIGHEST", "BELOW")))


class Process:
    """What one process knows of a bound, sample by sample."""

    def __init__(self, rule: Rule, options: ReadOptions, samples: Remembering | None = None) -> None:
        self.rule = rule
        self.options = options
        self.memory = Memory()
        self._samples = samples

    def see(self, sample: Sampled, after: Cursor | None = None) -> Bound:
        bound, self.memory = bound_of(self.rule, self.options, sample, self.memory, after)
        return bound

    def remember(self) -> dict[str, Any] | None:
        return as_json(self.rule, self.memory, None if self._samples is None else self._samples.remember())

    def recall(self, found: Mapping[str, Any]) -> None:
        memory, samples = recalled(self.rule, self.options, self.memory, found)
        if self._samples is not None and samples:
            self._samples.recall(samples)
        self.memory = memory
