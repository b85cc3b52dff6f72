"""The figures of docs/performance.md: tables from the lines that `make bench` wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import tables
from benchmarks.report.lines import Run
from benchmarks.throughput import plan

PAGE = Path("docs") / "performance.md"
LINES = Path("benchmarks") / "results.jsonl"
_BLOCK = re.compile(
    r"(<!-- Figures: (\w+); written by `make docs` from benchmarks/results\.jsonl\. -->\n)"
    r".*?(<!-- End of the figures\. -->\n)",
    re.DOTALL,
)
_OPTIONS = {
    plan.RAW: "by hand",
    plan.PEER: plan.PEER,
    plan.EACH: "defaults",
    plan.TURN_BY_TURN: "`read_ahead = 0`",
    plan.GROUPED: "`max_uncommitted = 4`",
    plan.PROCESS: '`isolation = "process"`',
    plan.LIBRARY: "defaults, Python's collector left alone",
    plan.TEXT: '`json = "text"`',
    plan.SPEED: "`speed`",
    plan.GROUPED_SPEED: "`speed`, `max_uncommitted = 4`",
    plan.ARROW: '`format = "arrow"`',
}


def performance() -> str:
    """The page with the figures of the last run."""
    run = Run.read(LINES)
    found = {
        "options": _rows_s(run, plan.PLAIN),
        "documents": _rows_s(run, plan.JSON),
        "lanes": tables.lanes(run),
        "memory": tables.slow(run),
        "ticks": tables.latency(run),
    }

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}\n{found[match[2]] or 'Not measured yet.'}\n{match[3]}"

    return _BLOCK.sub(block, PAGE.read_text(encoding="utf-8"))


def _rows_s(run: Run, name: str) -> str:
    rows: list[Sequence[str]] = []
    for system, shown in _OPTIONS.items():
        cells = []
        for batch in tables.BATCHES:
            figure, ratio = run.rows_s(name, batch, system), run.times(name, batch, system, plan.RAW)
            cells.append("" if figure is None or ratio is None else f"{figure.median:,.0f} ({ratio.median:.2f})")
        if any(cells):
            rows.append([shown, *cells])
    return tables.table(["rows/s", *(f"batch {batch:,}" for batch in tables.BATCHES)], rows)
