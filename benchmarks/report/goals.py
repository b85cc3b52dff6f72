"""What was to be reached, and what a run has of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.report.lines import Figure, Line, Run
from benchmarks.throughput import plan

PLAIN, JSON = plan.PLAIN, plan.JSON


@dataclass(frozen=True)
class Goal:
    """One line of the table.

    Attributes:
        what: is measured. part: for which database, size or option. before: at commit 8040241, where this was measured
            then. limit: what is to be reached. at_least: whether more is better. figure: of a run; None where it was
            not measured. profile: where to look when it is missed. floor: the least or most that can be had, as found:
            a text, in which `{floor}` is `measured`.
    """

    what: str
    part: str
    before: str
    limit: float
    at_least: bool
    figure: Callable[[Run], Figure | None]
    profile: str = ""
    floor: str = ""
    measured: Callable[[Run], Figure | None] | None = None

    def reached(self, figure: Figure) -> bool:
        return figure.median >= self.limit if self.at_least else figure.median <= self.limit


def _page(database: str) -> Callable[[Run], Figure | None]:
    def figure(run: Run) -> Figure | None:
        line = run.one(bench="full_page", database=database, json=False)
        return None if line is None else Figure.of(line["rounds_to_raw"]["reused"])

    return figure


def _times(table: str, batch: int, system: str, other: str) -> Callable[[Run], Figure | None]:
    return lambda run: run.times(table, batch, system, other)


def _processor(table: str, batch: int, system: str, other: str) -> Callable[[Run], Figure | None]:
    """How many times as many rows as another system this one could deliver if it never waited."""

    def figure(run: Run) -> Figure | None:
        line, theirs = (
            run.one(bench="throughput", table=table, batch=batch, system=system),
            run.rows_s(table, batch, other),
        )
        if line is None or theirs is None or "cpu_us" not in line:
            return None
        return Figure.of(1e6 / us for us in line["cpu_us"]).over(theirs)

    return figure


def _lanes(run: Run) -> Figure | None:
    one, many = (run.rows_s(PLAIN, 100, name) for name in (plan.ONE_LANE, plan.LANES))
    return None if one is None or many is None else many.over(one)


def _idle(way: str) -> Callable[[Run], Figure | None]:
    def figure(run: Run) -> Figure | None:
        line = run.one(bench="latency", kind="idle")
        if line is None:
            return None
        return Figure.of(line["p50_ms"][way]).over(Figure.of(line["p50_ms"]["raw"]))

    return figure


def _said(key: str) -> Callable[[Run], Figure | None]:
    def figure(run: Run) -> Figure | None:
        line = run.one(bench="latency", kind="idle")
        return None if line is None else Figure.of([line[key]])

    return figure


def _start(what: str, key: str = "rounds_cpu") -> Callable[[Run], Figure | None]:
    def figure(run: Run) -> Figure | None:
        line = run.one(bench="overhead", what=what)
        return None if line is None else Figure.of(line[key])

    return figure


def _growth(key: str) -> Callable[[Run], Figure | None]:
    """The largest table's to the smallest's, the medians of their rounds."""

    def figure(run: Run) -> Figure | None:
        found = {line["rows"]: line for line in run.all(bench="growth")}
        if len(found) < 2:
            return None
        least, most = (Figure.of(found[rows][key]).median for rows in (min(found), max(found)))
        return Figure.of([most / least])

    return figure


PAGE_FLOOR = (
    "The source's own work is the statement through SQLAlchemy, one sample of the bound a second, and the check of the"
    " rows' order; rows and driver are those of the page by hand. (The profile is PostgreSQL's.)"
)
EACH_FLOOR = (
    "By hand, with the same pages read ahead by another thread and one PUT a batch, it is {floor}: each batch waits for"
    " its PUT, which `max_uncommitted = 4` does not."
)  # fmt: skip
PEER_FLOOR = "By hand, with pages read ahead and one PUT a batch, it is {floor}."
ARROW_FLOOR = "The same pages to tables by ADBC, by hand and without state: {floor}."
IDLE_FLOOR = (
    "The same GET and the same statements, said by the libraries alone, take {floor} times as long as the raw pair."
)
START_FLOOR = "A process that only imports what it needs and uses it once: {floor}. What is left is poller's own."


def _built(way: str, key: str) -> Callable[[Run], Figure | None]:
    def figure(run: Run) -> Figure | None:
        line = run.one(bench="scale", way=way, pollers=1000)
        return None if line is None else Figure.of(line[key])

    return figure


def _dispatched(figure: Callable[[Line], Iterable[float]]) -> Callable[[Run], Figure | None]:
    def found(run: Run) -> Figure | None:
        line = run.one(bench="dispatch", pollers=DISPATCHED)
        return None if line is None else Figure.of(figure(line))

    return found


def _asked(*verbs: str) -> Callable[[Line], Iterable[float]]:
    """How many requests of these kinds a round sends."""

    def asked(line: Line) -> Iterable[float]:
        count = sum(line["requests_per_round"].get(verb, 0.0) for verb in verbs)
        return [int(count) if count == int(count) else count]

    return asked


FULL = "full page of 1,000 against a keyset page by hand"
EACH = "rows/s, `each`, against raw keyset and PUT in turn"
PEER = "rows/s against azure-functions-db"
ARROW = "`format = \"arrow\"`, batch 10,000, against raw keyset to dicts without state"  # fmt: skip
START = "against `python -c pass` (processor)"
GROWTH = "5 million rows against 100,000"
DISPATCH = "a dispatcher's round, 1,000 idle pollers over 3 databases"
DISPATCHED = 1_000

GOALS: Sequence[Goal] = (
    Goal(FULL, "PostgreSQL", "2.9", 1.1, False, _page("postgresql"), "a page of 1,000", PAGE_FLOOR),
    Goal(FULL, "MariaDB", "1.5", 1.3, False, _page("mysql"), "a page of 1,000", PAGE_FLOOR),
    Goal(FULL, "SQLite", "2.5", 1.6, False, _page("sqlite"), "a page of 1,000", PAGE_FLOOR),
    *(
        goal
        for batch in (1_000, 10_000)
        for goal in (
            Goal(
                EACH, f"batch {batch:,}", "0.73", 1.1, True, _times(PLAIN, batch, plan.EACH, plan.RAW),
                f"a batch of {batch:,}", EACH_FLOOR, _times(PLAIN, batch, plan.FLOOR, plan.RAW),
            ),
            Goal(
                EACH, f"batch {batch:,}, jsonb, `speed`", "", 1.3, True, _times(JSON, batch, plan.SPEED, plan.RAW),
                f"a batch of {batch:,}", EACH_FLOOR, _times(JSON, batch, plan.FLOOR, plan.RAW),
            ),
        )
    ),
    Goal(
        EACH, "batch 100", "0.51", 1.0, True, _times(PLAIN, 100, plan.EACH, plan.RAW),
        "a batch of 100", EACH_FLOOR, _times(PLAIN, 100, plan.FLOOR, plan.RAW),
    ),
    Goal(
        EACH.replace("each", "grouped"), "batch 100", "", 2.5, True, _times(PLAIN, 100, plan.GROUPED, plan.RAW),
        "a batch of 100",
        "Its processor time alone, if it never waited for anything, allows {floor}: the threads of a process share one"
        " interpreter.",
        _processor(PLAIN, 100, plan.GROUPED, plan.RAW),
    ),
    *(
        Goal(
            PEER, f"batch {batch:,}{how}", before, limit, True, _times(table, batch, system, plan.PEER),
            f"a batch of {batch:,}", PEER_FLOOR, _times(table, batch, plan.FLOOR, plan.PEER),
        )
        for table, batch, how, before, limit, system in (
            (PLAIN, 100, ", `grouped`", "3.1", 10.0, plan.GROUPED),
            (PLAIN, 1_000, "", "2.7", 4.0, plan.EACH),
            (PLAIN, 10_000, "", "1.65", 3.0, plan.EACH),
            (JSON, 100, ", `grouped`, jsonb, `speed`", "", 12.0, plan.GROUPED_SPEED),
            (JSON, 1_000, ", jsonb, `speed`", "", 5.0, plan.SPEED),
            (JSON, 10_000, ", jsonb, `speed`", "", 4.0, plan.SPEED),
        )
    ),
    Goal(
        ARROW, "with jsonb", "", 3.0, True, _times(JSON, 10_000, plan.ARROW, plan.READ), "",
        ARROW_FLOOR, _times(JSON, 10_000, plan.ADBC, plan.READ),
    ),
    Goal(
        ARROW, "without", "", 1.8, True, _times(PLAIN, 10_000, plan.ARROW, plan.READ), "",
        ARROW_FLOOR, _times(PLAIN, 10_000, plan.ADBC, plan.READ),
    ),
    Goal(
        "`concurrency = 16` against one lane", "handler waits 20 ms per 100 rows", "1", 14.0, True, _lanes,
        "a batch of 100, 16 lanes",
        "Its processor time alone, if it never waited for anything, allows {floor}: the lanes share one interpreter.",
        _processor(PLAIN, 100, plan.LANES, plan.ONE_LANE),
    ),
    Goal(
        "idle tick p50 against raw conditional GET and keyset query", "", "2.1", 1.7, False, _idle("ours"),
        "an idle tick", IDLE_FLOOR, _idle("floor"),
    ),
    Goal("statements of an idle tick", "", "5", 3, False, _said("statements")),
    Goal(
        "statements of an idle tick", "prepared transactions on", "5", 4, False,
        _said("statements_with_prepared_transactions"),
    ),
    Goal(
        "indexing `function_app.py` against its libraries, an engine and a client (processor)", "", "1.85", 1.5, False,
        _start("function_app.py"),
    ),
    *(
        Goal(f"`poller {what}` {START}", part, before, limit, False, _start(line), "", START_FLOOR, _start(floor))
        for what, part, before, limit, line, floor in (
            ("--help", "", "19", 12, "--help", "libraries of --help: typer"),
            (
                "status", "one SQLite poller", "75", 50, "status of one SQLite poller",
                "libraries of status: typer, pydantic, SQLAlchemy, a connection",
            ),
            (
                "history", "a blob store", "70", 30, "history with a blob store",
                "libraries of history: typer, pydantic, the storage client, one LIST",
            ),
        )
    ),
    *(
        Goal(f"1,000 pollers built, beyond one: {unit}", f"`{way}`", "", limit, False, _built(way, key))
        for way in ("load_app", "create_app")
        for unit, limit, key in (("seconds", 2, "seconds"), ("MB", 100, "mb"))
    ),
    Goal(DISPATCH, "seconds", "", 2, False, _dispatched(lambda line: line["round_s"])),
    Goal(DISPATCH, "requests that list", "", 1, False, _dispatched(_asked("LIST"))),
    Goal(DISPATCH, "requests that read or write", "", 0, False, _dispatched(_asked("GET", "PUT"))),
    Goal("peak memory", GROWTH, "", 1.1, False, _growth("peak_mb")),
    Goal("processor time per row", GROWTH, "", 1.1, False, _growth("cpu_us")),
)  # fmt: skip
