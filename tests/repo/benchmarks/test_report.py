"""What `make bench` writes is what its lines say, and its programs notice rows that are skipped or out of order."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as bench
from benchmarks.growth import __main__ as growth_bench
from benchmarks.report import tables
from benchmarks.report.charts import charts
from benchmarks.report.goals import GOALS
from benchmarks.report.lines import Run
from benchmarks.report.machine import LOADED, about
from benchmarks.report.page import BEGIN, CHARTS, END, PAGE, merge, write
from benchmarks.steps import STEPS, Step
from benchmarks.throughput import plan
from benchmarks.throughput.rounds import System
from benchmarks.throughput.systems.turns import Tally
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


def test_rows_that_are_skipped_or_repeated_are_seen() -> None:
    tally = Tally()
    tally.count(1, 100, 100)
    tally.count(101, 200, 100)
    assert (tally.rows, tally.misplaced) == (200, 0)
    tally.count(301, 400, 100)
    tally.count(301, 400, 100)
    tally.count(401, 500, 99)
    assert tally.misplaced == 3


def test_a_system_whose_option_is_not_there_says_so() -> None:
    missing = System("x", "ours", {"options": {"max_uncommitted": 4, "no_such": 1}, "source": {"nor_this": 1}})
    assert missing.missing() == ["no_such", "nor_this"]
    assert all(system.program != "raw" or not system.missing() for system in plan.SYSTEMS.values())


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


@pytest.mark.prove
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
