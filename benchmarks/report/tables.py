"""The tables of RESULTS.md, each from the lines of its bench. One that was not measured is empty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.profile.spent import GROUPS
from benchmarks.report.goals import GOALS, Goal
from benchmarks.report.lines import Figure, Line, Run
from benchmarks.throughput import plan

DATABASES = {"postgresql": "PostgreSQL", "mysql": "MariaDB", "sqlite": "SQLite"}
TABLES = {plan.PLAIN: "six columns", plan.JSON: "with a jsonb document"}
BATCHES = (100, 1_000, 10_000)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; empty without rows."""
    found = [" | ".join(cell or " " for cell in row) for row in rows]
    if not found:
        return ""
    lines = [" | ".join(head), "|".join("---" for _ in head), *found]
    return "".join(f"|{line}|\n" if line.startswith("---") else f"| {line} |\n" for line in lines)


def goals(run: Run) -> str:
    rows = []
    for goal in GOALS:
        figure = goal.figure(run)
        limit = f"{'at least' if goal.at_least else 'at most'} {goal.limit:g}"
        what = f"{goal.what}: {goal.part}" if goal.part else goal.what
        rows.append((what, goal.before, limit, "" if figure is None else figure.text(), verdict(goal, figure)))
    return table(["", "before", "goal", "now", ""], rows)


def verdict(goal: Goal, figure: Figure | None) -> str:
    if figure is None:
        return "not measured"
    return "reached" if goal.reached(figure) else "**missed**"


def misses(run: Run) -> str:
    """Of each missed goal, where the time goes and what can be had."""
    found = []
    for goal in GOALS:
        figure = goal.figure(run)
        if figure is None or goal.reached(figure):
            continue
        parts = [
            f"- {goal.what}{': ' + goal.part if goal.part else ''}: {figure.median:.2f} instead of {goal.limit:g}."
        ]
        measured = goal.measured(run) if goal.measured else None
        if goal.floor and (goal.measured is None or measured is not None):
            parts.append(goal.floor.format(floor="" if measured is None else measured.text()))
        if goal.profile and (line := run.one(bench="profile", kind=goal.profile)):
            parts.append(f"Where the time of {goal.profile} goes: {_largest(line)}.")
        found.append(" ".join(parts) + "\n")
    return "".join(found)


def _largest(line: Line) -> str:
    whole = sum(line["ms"].values())
    ordered = sorted(line["ms"].items(), key=lambda one: -one[1])[:4]
    return ", ".join(f"{name} {100 * ms / whole:.0f} %" for name, ms in ordered)


def throughput(run: Run, name: str) -> str:
    """Rows per second, and how many times those of the page by hand."""
    rows = []
    for system in plan.SYSTEMS:
        if system in (plan.ONE_LANE, plan.LANES):
            continue
        cells = [f"`{system}`" if plan.SYSTEMS[system].program == "ours" else system]
        for batch in BATCHES:
            figure, ratio = run.rows_s(name, batch, system), run.times(name, batch, system, plan.RAW)
            cells += ["", ""] if figure is None or ratio is None else [f"{figure.median:,.0f}", ratio.text()]
        if any(cells[1:]):
            rows.append(cells)
    head = [f"{batch:,}: rows/s|of by hand" for batch in BATCHES]
    return table([TABLES[name], *(cell.replace("|", " | ") for cell in head)], rows).replace(
        "|---|---|---|---|\n", "|---|---|---|---|---|---|---|\n"
    )


def processor(run: Run, name: str) -> str:
    """Microseconds of the reading process' processor per row."""
    rows = []
    for system in plan.SYSTEMS:
        found = [run.one(bench="throughput", table=name, batch=batch, system=system) for batch in BATCHES]
        cells = ["" if line is None or "cpu_us" not in line else Figure.of(line["cpu_us"]).text() for line in found]
        if any(cells) and system not in (plan.ONE_LANE, plan.LANES):
            rows.append([system, *cells])
    return table([f"µs of the processor per row, {TABLES[name]}", *(f"batch {batch:,}" for batch in BATCHES)], rows)


def lanes(run: Run) -> str:
    rows = []
    one = run.rows_s(plan.PLAIN, 100, plan.ONE_LANE)
    for system in (plan.ONE_LANE, plan.LANES):
        figure = run.rows_s(plan.PLAIN, 100, system)
        line = run.one(bench="throughput", table=plan.PLAIN, batch=100, system=system)
        if figure is None or one is None or line is None:
            continue
        rows.append([f"`{system}`", figure.text(",.0f"), figure.over(one).text(), f"{line['batches']:,}", "0"])
    return table(["", "rows/s", "times one lane", "calls", "rows of a customer out of order"], rows)


def pages(run: Run) -> str:
    rows = []
    for line in run.all(bench="full_page"):
        ms = line["ms"]
        reused, sampled = (Figure.of(line["rounds_to_raw"][name]) for name in ("reused", "sampled"))
        name = DATABASES[line["database"]] + (", with a document" if line["json"] else "")
        rows.append([name, f"{ms['raw']:.2f} ms", f"{ms['reused']:.2f} ms", reused.text(), sampled.text()])
    return table(["page of 1,000", "by hand", "ours", "ours to by hand", "with a sample every page"], rows)


def depths(run: Run) -> str:
    rows = []
    for line in run.all(bench="pages"):
        ms = [f"{line['ms_median'][at]:.2f} ({line['ms_least'][at]:.2f})" for at in ("start", "middle", "tie", "end")]
        rows.append([f"{DATABASES[line['database']]}, {line['rows']:,} rows", *ms])
    return table(["median (least) ms", "start", "middle", "in the tie", "end"], rows)


def latency(run: Run) -> str:
    rows = []
    names = {"ours": "ours", "raw": "raw", "floor": "raw, with the statements of ours"}
    for line in run.all(bench="latency"):
        for way in ("raw", "floor", "ours"):
            if way in line["p50_ms"]:
                p50 = Figure.of(line["p50_ms"][way])
                ratio = p50.over(Figure.of(line["p50_ms"]["raw"]))
                cpu = Figure.of(line["cpu_ms"][way])
                rows.append(
                    [
                        f"{line['kind']}, {names[way]}",
                        p50.text(),
                        f"{line['p99_ms'][way]:.2f}",
                        ratio.text(),
                        cpu.text(),
                    ]
                )
    return table(["", "p50 ms", "p99 ms", "p50 to raw", "processor ms"], rows)


def said(run: Run) -> str:
    rows = []
    for line in run.all(bench="said"):
        requests = ", ".join(line["requests"])
        rows.append(
            [
                f"{line['kind']}" + (f" of {line['rows']}" if line["rows"] else ""), requests, str(line["statements"]),
                *(f"{line[f'{server}_{way}']:,}" for server in ("storage", "database") for way in ("sent", "received")),
            ]
        )  # fmt: skip
    head = ["tick", "requests", "statements", "to storage", "from storage", "to the database", "from the database"]
    return table(head, rows)


def to_handler(run: Run) -> str:
    rows = []
    for line in run.all(bench="to handler"):
        bound = f"`{line['bound']}`" + (f", margin {line['margin']}" if line["margin"] else "")
        cells = [f"{line['p50_ms'][load]:,} / {line['p99_ms'][load]:,}" for load in ("idle", "busy")]
        rows.append([bound, *cells, str(sum(line["commits"].values()))])
    return table(["bound", "idle: p50 / p99 ms", "short transactions beside: p50 / p99 ms", "commits"], rows)


def growth(run: Run) -> str:
    rows = []
    for line in run.all(bench="growth"):
        cells = [
            Figure.of(line[key]).text(form) for key, form in (("peak_mb", ".0f"), ("cpu_us", ".2f"), ("wall_us", ".2f"))
        ]
        rows.append([f"{line['rows']:,}", *cells])
    return table(["rows", "peak memory, MB", "processor, µs per row", "wall, µs per row"], rows)


def slow(run: Run) -> str:
    rows = []
    for line in run.all(bench="slow handler"):
        if "missing" not in line:
            more = line["peak_mb"] - line["before_mb"]
            cells = [f"{line['table_mb']}", f"{line['rows']:,}", f"{line['before_mb']:.0f}", f"{more:.0f}"]
            rows.append([f"`{line['options']}`", *cells])
    return table(["", "table, MB", "rows handed over", "memory before, MB", "at most more, MB"], rows)


def starts(run: Run) -> str:
    rows = []
    for line in run.all(bench="overhead"):
        if "what" in line:
            cells = [Figure.of(line[key]).text() for key in ("rounds_cpu", "rounds_wall")]
            rows.append([line["what"], f"{line['wall_ms']:.0f}", f"{line['cpu_ms']:.0f}", *cells])
    return table(["", "wall ms", "processor ms", "processor, times the first", "wall, times the first"], rows)


def built(run: Run) -> str:
    rows = []
    for line in run.all(bench="scale"):
        if "way" in line:
            cells = [Figure.of(line[key]).text() for key in ("seconds", "cpu_s", "mb")]
            rows.append([f"{line['pollers']:,}, by `{line['way']}`", *cells])
    return table(["pollers", "seconds", "processor, seconds", "memory, MB"], rows)


def dispatched(run: Run) -> str:
    rows = []
    for line in run.all(bench="dispatch"):
        if "round_s" in line:
            requests = ", ".join(f"{count:g} {verb}" for verb, count in line["requests_per_round"].items())
            cells = [f"{line['first_s']:.2f}", Figure.of(line["round_s"]).text(), f"{line['cpu_s']:.2f}", requests]
            rows.append([f"{line['pollers']:,} over {line['databases']}", *cells])
    return table(["idle pollers, databases", "first two rounds, s", "round, s", "processor, s", "requests"], rows)


def shared(run: Run) -> str:
    """What processes that share idle pollers ask for in a minute, all of them together."""
    rows = []
    for line in run.all(bench="replicas"):
        if "unshared" in line:
            hints = [f"{line[f'hint_{what}']:,.0f}" for what in ("lists", "reads", "writes")]
            cells = [f"{line['looks']:,}", f"{line['unshared']:,}", *hints, f"{line['moments_without_a_look']:,}"]
            rows.append([f"{line['replicas']}", f"{line['pollers']:,}", *cells])
    head = [
        "processes",
        "pollers",
        "looks",
        "looks without hints",
        "LIST",
        "GET of hints",
        "PUT of hints",
        "not looked at",
    ]
    return table(head, rows)


def look(run: Run) -> str:
    rows = []
    for line in run.all(bench="replicas"):
        if "cpu_ms" in line:
            cells = [f"{line[key]:,g}" for key in ("bytes_sent", "bytes_received", "statements", "cpu_ms")]
            rows.append([f"{line['pollers']:,}", f"{line['looks']:,}", *cells])
    return table(["pollers", "looks", "bytes sent", "bytes received", "statements", "processor ms"], rows)


def profile(run: Run) -> str:
    lines = list(run.all(bench="profile"))
    rows = []
    for name in GROUPS:
        shares = [100 * line["ms"][name] / sum(line["ms"].values()) for line in lines]
        cells = [f"{line['ms'][name]:.2f} ({share:.0f} %)" for line, share in zip(lines, shares, strict=True)]
        rows.append([name, *cells])
    rows.append(["all of it", *(f"{sum(line['ms'].values()):.2f}" for line in lines)])
    rows.append(["of it Python's collector", *(f"{line['collector_ms']:.2f}" for line in lines)])
    return table(["ms (share)", *(line["kind"] for line in lines)], rows if lines else [])


def steps(run: Run) -> str:
    rows = [
        [line["step"], f"{line['seconds']:.0f}", f"{line['load'][0]} to {line['load'][1]}", f"{line['others']:.2f}",
         line["commit"], line["date"]]
        for line in run.all(bench="step")
    ]  # fmt: skip
    return table(["step", "seconds", "load average", "cores that others used", "commit", "ended"], rows)
