"""RESULTS.md: what a run found stands between two marks; what was written by hand stays."""

from __future__ import annotations

from pathlib import Path

from benchmarks.report import tables
from benchmarks.report.charts import charts
from benchmarks.report.lines import Run
from benchmarks.report.machine import LOADED
from benchmarks.report.tables import DATABASES
from benchmarks.throughput import plan

BEGIN = "<!-- The last run: written by `make bench` from results.jsonl; edit benchmarks/report/. -->\n"
END = "<!-- End of the last run. -->\n"
PAGE, CHARTS = "RESULTS.md", "charts"

_TEXT = """\
## The last run

{header}

### Goals

*Before* is commit 8040241. Medians of rounds in which all systems took turns; in brackets the least and the most of a
round.

{goals}
{misses}
### Rows per second

{lead_throughput}

{throughput_plain}
{chart_throughput_1}{throughput_json}
{chart_throughput_2}{processor_plain}
{processor_json}
A handler that waits 20 ms per call of 100 rows, rows of one customer in order:

{lanes}
### A page of each database

Walked through by hand and by poller's source, page by page in turn; its bound serves the pages of a second, as in a
tick.

{pages}
{chart_pages}The same page of 1,000 rows at four places of a large table (a look at the clock included):

{depths}
### How long a tick takes

Raw is one conditional GET and one keyset query, and where there are rows one conditional PUT. The batch has 100 rows.

{latency}
{chart_latency}What a tick says to both servers, counted by a proxy, in bytes:

{said}
From the return of a commit to the handler's call, polled every 10 ms:

{to_handler}
### Memory and cost, the larger the table

Each table is delivered whole by a process of its own, in batches of 1,000.

{growth}
{chart_memory}{chart_cost}Rows of 1,900 characters, a handler that takes 50 ms for 500 of them, and no end of rows:

{slow}
### Starts

Fresh processes with byte code, in turn.

{starts}
{chart_starts}
### Many pollers

Built and not connected, each with a table of its own and all else from a template, on one PostgreSQL server: what it
takes beyond one poller, in a fresh process.

{built}
A round of the dispatcher in a process that has seen all documents, and every poller is due:

{dispatched}
What processes of `poller run` ask for in a minute, all together, each poller due every 10 s; counted on a clock that is
moved by hand:

{shared}
One look at a poller without rows, its table in SQLite, its state in Azurite:

{look}
### Where the time goes now

`cProfile` of ticks with `read_ahead = 0`, so that all of it is on one thread, and of 16 lanes on all threads, without
their waits for each other. What C does is counted where it is called from. The profiler makes Python's part larger than
it is.

{profile}
{chart_profile}
"""
_LEAD = f"""\
A walk through one table by programs that take turns; one call of the handler per batch, which does nothing.
*{plan.RAW}*: a keyset page to dicts by the driver, then one conditional PUT, in turn; *no state*: without the PUT;
*{plan.FLOOR}*: pages of at least 1,000 rows, the next one read by another thread, one PUT a batch: the floor of
`each`. Ours run as `poller run` does, with Python's collector at a higher threshold, but for *as a library*. `speed`:
with orjson, which the others do not have. *{plan.PEER}* runs in its own environment; its waits for its lease do not
count."""


def render(run: Run) -> str:
    """What stands between the marks."""
    pictures = charts(run)

    def chart(name: str) -> str:
        title = name.replace("-", " ")
        return f"![{title}]({CHARTS}/{name}.svg)\n\n" if f"{name}.svg" in pictures else ""

    return _TEXT.format(
        header=_header(run),
        goals=tables.goals(run),
        misses=tables.misses(run),
        lead_throughput=_LEAD,
        throughput_plain=tables.throughput(run, plan.PLAIN),
        throughput_json=tables.throughput(run, plan.JSON),
        processor_plain=tables.processor(run, plan.PLAIN),
        processor_json=tables.processor(run, plan.JSON),
        lanes=tables.lanes(run),
        pages=tables.pages(run),
        depths=tables.depths(run),
        latency=tables.latency(run),
        said=tables.said(run),
        to_handler=tables.to_handler(run),
        growth=tables.growth(run),
        slow=tables.slow(run),
        starts=tables.starts(run),
        built=tables.built(run),
        dispatched=tables.dispatched(run),
        shared=tables.shared(run),
        look=tables.look(run),
        profile=tables.profile(run),
        **{
            f"chart_{name.replace('-', '_')}": chart(name)
            for name in (
                "throughput-1", "throughput-2", "pages", "latency", "memory", "cost", "starts", "profile",
            )
        },
    )  # fmt: skip


def _header(run: Run) -> str:
    about = run.one(bench="machine")
    if about is None:
        return "Nothing was measured yet: `make bench`."
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items())
    found = list(run.all(bench="step"))
    busy = [line for line in found if line["others"] > LOADED]
    quick = any(line.get("quick") for line in found)
    peer = run.one(bench="throughput", system=plan.PEER)
    return "\n".join(
        [
            *(["**Tiny sizes (`--quick`): these figures say nothing.**", ""] if quick else []),
            f"`make bench` on {about['date']}, poller at {about['commit']}.",
            f"**Machine**: {about['cores']} cores of {about['processor']}, {about['memory_gb']} GB, {about['system']}.",
            f"**Versions**: Python {about['python']}, {_servers(run)}{packages}"
            + (f"; azure-functions-db {peer['about']['version']}." if peer and "about" in peer else "."),
            _quiet(len(busy), len(found)),
            "",
            tables.steps(run),
        ]
    ).rstrip()


def _servers(run: Run) -> str:
    found = {DATABASES[line["database"]]: line["server"] for line in run.all(bench="full_page")}
    return "".join(f"{name} {version}, " for name, version in found.items())


def _quiet(busy: int, steps: int) -> str:
    if busy:
        return (
            f"**The machine was loaded**: in {busy} of {steps} steps other programs used more than {LOADED} of its"
            " cores. Times are longer than they would be alone, ratios noisier."
        )
    return f"Nothing else used more than {LOADED} of its cores."


def merge(text: str, run: Run) -> str:
    """The page with another run between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest:
        before, after = "# Results\n\n", ""
    return f"{before}{BEGIN}\n{render(run).rstrip()}\n\n{END}{after}"


def write(run: Run, out: Path) -> list[Path]:
    """RESULTS.md and the charts. Returns what was written."""
    page, folder = out / PAGE, out / CHARTS
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    page.write_text(merge(text, run), encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = charts(run)
    for old in folder.glob("*.svg"):
        if old.name not in drawn:
            old.unlink()
    for name, svg in drawn.items():
        (folder / name).write_text(svg, encoding="utf-8")
    return [page, *(folder / name for name in drawn)]
