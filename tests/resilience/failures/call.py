"""One call of a handler, as the laws of failing rows see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from poller.model.aside import RowFacts
from poller.model.document import State, WaitingRow
from poller.model.verdict import Report


@dataclass
class Call:
    """One call of a handler: rows, and the document that was known then; `lanes`: of how many batches that are handled
    at once it is one."""

    rows: Sequence[RowFacts]
    state: State
    retries: WaitingRow | None = None
    replays: bool = False
    report: Report = field(default_factory=Report)
    lanes: int = 1

    @property
    def generation(self) -> int:
        """Of the rows: a row that waited belongs to the generation it was listed in."""
        return self.state.checkpoint.generation if self.retries is None else self.retries.generation

    @property
    def done(self) -> frozenset[str]:
        """Ids of the rows that it reported done."""
        if self.report.end != "returned":
            return frozenset()
        return frozenset(row.id for row in self.rows) - {*self.report.failed, *self.report.rejected}

    @property
    def failed_alone(self) -> bool:
        """Whether one row was handed over, and failed."""
        return len(self.rows) == 1 and (self.report.end == "raised" or bool(self.report.failed))
