"""The JSON lines of a run, and the figures in them: medians and ranges of rounds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Line = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """What the rounds of a measurement had: their median, and how far they were apart."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure:
        return cls(tuple(values))

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def most(self) -> float:
        return max(self.values)

    def over(self, other: Figure) -> Figure:
        """The ratio of each round."""
        return Figure.of(a / b for a, b in zip(self.values, other.values, strict=False))

    def text(self, form: str = ".2f") -> str:
        """``0.92 (0.88 to 0.97)``; one round has no range, and a count no fraction."""
        if all(isinstance(value, int) for value in self.values):
            form = ",d" if len(self.values) == 1 else form
        if len(self.values) == 1:
            return f"{self.values[0]:{form}}"
        return f"{self.median:{form}} ({self.least:{form}} to {self.most:{form}})"


class Run:
    """All lines of a run, in the order in which they came."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = list(lines)

    @classmethod
    def read(cls, path: Path) -> Run:
        """From a file of JSON lines; none where there is no such file."""
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return cls([json.loads(line) for line in text.splitlines()])

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines), encoding="utf-8")

    def all(self, **wanted: Any) -> Iterator[Line]:
        """Every line that has these values."""
        return (line for line in self.lines if all(line.get(key) == value for key, value in wanted.items()))

    def one(self, **wanted: Any) -> Line | None:
        """The last such line."""
        return next(iter([*self.all(**wanted)][-1:]), None)

    def rows_s(self, table: str, batch: int, system: str) -> Figure | None:
        """Rows per second of a system, round by round."""
        line = self.one(bench="throughput", table=table, batch=batch, system=system)
        return Figure.of(line["rows_s"]) if line and "rows_s" in line else None

    def times(self, table: str, batch: int, system: str, other: str) -> Figure | None:
        """How many times as many rows a second as another system, round by round."""
        ours, theirs = self.rows_s(table, batch, system), self.rows_s(table, batch, other)
        return None if ours is None or theirs is None else ours.over(theirs)
