"""The charts of RESULTS.md, by file name. One whose bench was not run is left out."""

from __future__ import annotations

from benchmarks.report import svg
from benchmarks.report.lines import Figure, Run
from benchmarks.report.tables import BATCHES, DATABASES, TABLES
from benchmarks.throughput import plan

_COLOURS = {
    plan.RAW: 5, plan.RAW_RUN: 6, plan.READ: 6, plan.ADBC: 6, plan.FLOOR: 6, plan.PEER: 8, plan.EACH: 0,
    plan.GROUPED: 2, plan.TURN_BY_TURN: 1, plan.LIBRARY: 1, plan.PROCESS: 4, plan.TEXT: 4, plan.SPEED: 0,
    plan.GROUPED_SPEED: 2, plan.ARROW: 3, plan.ARROW_GROUPED: 3,
}  # fmt: skip


def charts(run: Run) -> dict[str, str]:
    """File names, and what is in the files."""
    found = {
        **{f"throughput-{number}.svg": _throughput(run, name) for number, name in enumerate(TABLES, 1)},
        "pages.svg": _pages(run),
        "latency.svg": _latency(run),
        "memory.svg": _growth(run, "peak_mb", "Peak memory by table size", "MB"),
        "cost.svg": _growth(run, "cpu_us", "Processor time per row by table size", "µs"),
        "profile.svg": _profile(run),
        "starts.svg": _starts(run),
    }
    return {name: text for name, text in found.items() if text}


def _throughput(run: Run, name: str) -> str:
    groups = {}
    for batch in BATCHES:
        found = [(system, run.rows_s(name, batch, system)) for system in _COLOURS]
        groups[f"batch {batch:,}"] = [
            svg.Bar(system, figure, f"{figure.median:,.0f}", _COLOURS[system])
            for system, figure in found
            if figure is not None
        ]
    if not any(groups.values()):
        return ""
    return svg.bars(
        f"Rows per second, {TABLES[name]}", "PostgreSQL and Azurite; median and range of the rounds", groups
    )


def _pages(run: Run) -> str:
    bars = []
    for line in run.all(bench="full_page"):
        label = DATABASES[line["database"]] + (", with a document" if line["json"] else "")
        figure = Figure.of(line["rounds_to_raw"]["reused"])
        bars.append(svg.Bar(label, figure, f"{figure.median:.2f}", 3 if line["json"] else 0))
    title = "A page of 1,000 rows, times the page by hand"
    return svg.bars(title, "wall time; median and range of the rounds", {"": bars}) if bars else ""


def _latency(run: Run) -> str:
    groups = {}
    for line in run.all(bench="latency"):
        found = []
        for way, colour in (("raw", 5), ("floor", 6), ("ours", 0)):
            if way in line["p50_ms"]:
                p50, p99 = Figure.of(line["p50_ms"][way]), Figure.of([line["p99_ms"][way]])
                found.append(svg.Bar(f"{way}, p50", p50, f"{p50.median:.2f} ms", colour))
                found.append(svg.Bar(f"{way}, p99", p99, f"{p99.median:.2f} ms", colour))
        groups[line["kind"]] = found
    note = "raw: a conditional GET and a keyset query (and a PUT); floor: with the statements of ours"
    return svg.bars("How long a tick takes", note, groups) if groups else ""


def _growth(run: Run, key: str, title: str, unit: str) -> str:
    found = sorted(run.all(bench="growth"), key=lambda line: line["rows"])
    if not found:
        return ""
    values = [Figure.of(line[key]).median for line in found]
    return svg.lines(title, f"{unit}; rows in the table", [f"{line['rows']:,}" for line in found], {"poller": values})


def _profile(run: Run) -> str:
    groups = {line["kind"]: line["ms"] for line in run.all(bench="profile")}
    note = "wall time under cProfile, which makes Python slower and C not; read on the handler's thread"
    return svg.stacked("Where the time goes", note, groups, "ms") if groups else ""


def _starts(run: Run) -> str:
    bars = []
    for line in run.all(bench="overhead"):
        if "what" in line and line["what"] not in ("libraries", "function_app.py"):
            figure = Figure.of(line["rounds_cpu"])
            raw = line["what"] == "nothing" or line["what"].startswith("libraries")
            bars.append(svg.Bar(line["what"].partition(":")[0], figure, f"{figure.median:.1f}", 5 if raw else 0))
    title = "Start of a command, times python -c pass"
    return svg.bars(title, "processor time of fresh processes", {"": bars}) if bars else ""
