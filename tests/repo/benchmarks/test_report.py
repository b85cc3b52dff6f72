"""What `make bench` writes is what its lines say, and its programs notice rows that are skipped or out of order."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as bench
from benchmarks.growth import __main__ as growth_bench
from benchmarks.latency.wire import CountingProxy
from benchmarks.profile.spent import DATABASE, DRIVER, GROUPS, READING, REST, STORAGE, TICKING, group, spent
from benchmarks.report import svg, tables
from benchmarks.report.charts import charts
from benchmarks.report.goals import GOALS
from benchmarks.report.lines import Figure, Run
from benchmarks.report.machine import LOADED, Watch, about
from benchmarks.report.page import BEGIN, CHARTS, END, PAGE, merge, write
from benchmarks.steps import STEPS, Step
from benchmarks.throughput import plan
from benchmarks.throughput.__main__ import compare
from benchmarks.throughput.plan import Part
from benchmarks.throughput.rounds import System, Turn
from benchmarks.throughput.systems.turns import Tally
from benchmarks.throughput.table import fill
from tests.support.azurite import Azurite
from tests.support.services import REPOSITORY

BENCHMARKS = REPOSITORY / "benchmarks"
COMMITTED = Run.read(BENCHMARKS / "results.jsonl")


def line(system: str, rows_s: list[int], *, batch: int = 100, table: str = plan.PLAIN) -> dict[str, Any]:
    return {
        "bench": "throughput", "table": table, "batch": batch, "system": system, "rows_s": rows_s,
        "cpu_us": [1.0 for _ in rows_s], "batches": 1, "about": {"version": "1"},
    }  # fmt: skip


def test_the_results_are_those_of_the_committed_lines() -> None:
    text = (BENCHMARKS / PAGE).read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert merge(text, COMMITTED) == text


def test_the_charts_are_those_of_the_committed_lines() -> None:
    found = {path.name: path.read_text() for path in (BENCHMARKS / CHARTS).glob("*.svg")}
    assert found == charts(COMMITTED)


def test_every_goal_has_a_line_measured_or_not() -> None:
    shown = tables.goals(Run([]))
    assert len(shown.splitlines()) == len(GOALS) + 2
    assert shown.count("not measured") == len(GOALS)


def test_a_goal_is_judged_by_the_median_of_the_rounds_ratios() -> None:
    lines = [line(plan.RAW, [100, 200, 100]), line(plan.EACH, [110, 100, 120]), line(plan.FLOOR, [130, 260, 130])]
    (each,) = [goal for goal in GOALS if goal.what.startswith("rows/s, `each`") and goal.part == "batch 100"]
    reached = tables.goals(Run(lines))
    assert "batch 100 | 0.51 | at least 1 | 1.10 (0.50 to 1.20) | reached |" in reached

    lines[1] = line(plan.EACH, [90, 190, 80])
    missed = Run(lines)
    figure = each.figure(missed)
    assert figure is not None
    assert not each.reached(figure)
    assert "batch 100: 0.90 instead of 1." in tables.misses(missed)
    assert "it is 1.30" in tables.misses(missed), "the floor stands beside what was missed"


def test_what_was_written_by_hand_stays_in_the_results(tmp_path: Path) -> None:
    (tmp_path / PAGE).write_text(f"# Results\n\nbefore\n\n{BEGIN}of a former run\n{END}\n## Torture\n\nafter\n")
    write(Run([about(), line(plan.RAW, [10]), line(plan.EACH, [9])]), tmp_path)
    text = (tmp_path / PAGE).read_text()
    assert text.startswith("# Results\n\nbefore\n")
    assert text.endswith("\n## Torture\n\nafter\n")
    assert "of a former run" not in text
    assert "| `each` | 9 | 0.90 |" in text
    assert (tmp_path / CHARTS / "throughput-1.svg").exists()


def test_a_loaded_machine_is_said(tmp_path: Path) -> None:
    step = {"bench": "step", "step": "latency", "seconds": 1, "load": [1, 9], "commit": "c", "date": "d"}
    write(Run([about(), {**step, "others": LOADED + 1}]), tmp_path)
    assert "**The machine was loaded**" in (tmp_path / PAGE).read_text()
    write(Run([about(), {**step, "others": 0.0}]), tmp_path)
    assert "The machine was loaded" not in (tmp_path / PAGE).read_text()


def test_the_watch_does_not_count_what_the_step_itself_used() -> None:
    with Watch() as watch:
        subprocess.run([sys.executable, "-c", "sum(range(2_000_000))"], check=True)
    said = watch.line("one")
    assert said["others"] <= (os.cpu_count() or 1)
    assert said["load"][0] <= said["load"][1]


@pytest.mark.parametrize(
    "drawn",
    [
        svg.bars("a & b", "<note>", {"one": [svg.Bar("ours", Figure.of([1, 2]), "1.5", 0)], "none": []}),
        svg.stacked("where", "", {"tick": {"a": 1.0, "b": 3.0}}, "ms"),
        svg.lines("cost", "", ["1", "10"], {"ours": [1.0, 2.0]}),
    ],
)
def test_a_chart_is_svg_for_light_and_dark(drawn: str) -> None:
    root = ElementTree.fromstring(drawn)
    assert root.tag.endswith("svg")
    assert "prefers-color-scheme: dark" in drawn


def test_rows_that_are_skipped_or_repeated_are_seen() -> None:
    tally = Tally()
    tally.count(1, 100, 100)
    tally.count(101, 200, 100)
    assert (tally.rows, tally.misplaced) == (200, 0)
    tally.count(301, 400, 100)
    tally.count(301, 400, 100)
    tally.count(401, 500, 99)
    assert tally.misplaced == 3


@pytest.mark.soak
def test_systems_take_turns_over_one_table(postgres_db: str, azurite: Azurite, container: str) -> None:
    fill(postgres_db, plan.PLAIN, 1_001)
    azurite_container(azurite, container)
    asked = {"url": postgres_db, "storage": azurite.connection_string, "container": container}
    shown: list[dict[str, Any]] = []
    part = Part(Turn(plan.PLAIN, 100, 200), [plan.RAW, plan.FLOOR, plan.EACH])
    compare(asked, [part], rounds=2, peers=sys.executable, show=shown.append)
    assert [one["system"] for one in shown] == part.systems
    assert {(one["batch"], one["rows"], one["batches"], len(one["rows_s"])) for one in shown} == {(100, 200, 4, 2)}


def azurite_container(azurite: Azurite, container: str) -> None:
    from azure.storage.blob import ContainerClient

    ContainerClient.from_connection_string(azurite.connection_string, container).create_container()


def test_a_system_whose_option_is_not_there_says_so() -> None:
    missing = System("x", "ours", {"options": {"max_uncommitted": 4, "no_such": 1}, "source": {"nor_this": 1}})
    assert missing.missing() == ["no_such", "nor_this"]
    assert all(system.program != "raw" or not system.missing() for system in plan.SYSTEMS.values())


def test_what_passes_the_proxy_is_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, CountingProxy(server.getsockname()[1]) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            other, _ = server.accept()
            with other:
                client.sendall(b"12345")
                assert other.recv(100) == b"12345"
                other.sendall(b"123")
                assert client.recv(100) == b"123"
        assert proxy.take() == (5, 3)
        assert proxy.take() == (0, 0)


@pytest.mark.parametrize(
    ("file", "name", "who"),
    [
        ("/x/site-packages/psycopg/connection.py", "wait", DATABASE),
        ("/x/site-packages/psycopg/cursor.py", "fetchall", DRIVER),
        ("/r/poller/sources/page.py", "page", READING),
        ("/r/poller/tick/tick.py", "run", TICKING),
        ("/usr/lib/python3/json/__init__.py", "loads", REST),
    ],
)
def test_time_is_counted_for_whom_it_is_spent(file: str, name: str, who: str) -> None:
    assert group((file, 1, name)) == who


def test_a_profile_counts_all_groups_and_the_collector() -> None:
    found = spent(lambda: [sorted(range(1000)) for _ in range(100)])
    assert list(found["ms"]) == list(GROUPS)
    assert found["ms"][REST] > 0
    assert found["ms"][STORAGE] == 0
    assert found["collector_ms"] >= 0


def test_a_step_that_fails_keeps_its_lines_and_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(step: Step, **_: Any) -> list[dict[str, Any]]:
        if step.name in failing:
            raise subprocess.CalledProcessError(1, step.name)
        return [{"bench": "none", "step": step.name, "run": number}]

    monkeypatch.setattr(bench, "run", run)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick", "--out", str(tmp_path)])
    number, failing = 1, set[str]()
    bench.main()
    number, failing = 2, {"latency"}
    with pytest.raises(SystemExit, match="Failed: latency"):
        bench.main()
    lines = {one["step"]: one["run"] for one in Run.read(tmp_path / "results.jsonl").lines if "step" in one}
    assert lines == {step.name: 1 if step.name == "latency" else 2 for step in STEPS}
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_make_bench_runs_all_of_it_on_a_tiny_size(tmp_path: Path) -> None:
    arguments = ["--quick", "--out", str(tmp_path), "--peers-python", sys.executable]
    subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=REPOSITORY, check=True, capture_output=True)
    found = Run.read(tmp_path / "results.jsonl")
    assert [one["step"] for one in found.all(bench="step")] == [step.name for step in STEPS]
    assert {one["rows"] for one in found.all(bench="growth")} == {5_000, 10_000}
    known = set(growth_bench.SLOW_WAYS)
    assert {one["options"] for one in found.all(bench="slow handler")} == known
    text = (tmp_path / PAGE).read_text()
    assert "these figures say nothing" in text
    assert len(re.findall(r"!\[.*\]\(charts/.*\.svg\)", text)) == len(charts(found))
    assert json.loads((tmp_path / "results.jsonl").read_text().splitlines()[0])["bench"] == "machine"
