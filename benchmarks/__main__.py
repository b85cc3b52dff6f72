"""`python -m benchmarks`: every system side by side, then RESULTS.md and its charts. `make bench` runs it.

A whole run takes about a quarter of an hour on two cores and needs them for itself: the report says how busy others
kept the machine. `--quick` runs everything on a tiny size, into `build/bench`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.report import machine
from benchmarks.report.lines import Line, Run
from benchmarks.report.page import write
from benchmarks.steps import STEPS, run

HERE = Path(__file__).parent
LINES = "results.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: whether everything runs, not how fast it is")
    parser.add_argument("--only", default="", help="these steps, with commas; the others' lines stay as they are")
    parser.add_argument("--rounds", type=int, help="of each step but pages; default: 5, or what suits the step")
    parser.add_argument("--out", type=Path, help="where lines, RESULTS.md and charts are; default: benchmarks/")
    parser.add_argument("--report", action="store_true", help="run nothing: write RESULTS.md and charts from the lines")
    parser.add_argument("--peers-python", help="a Python that has benchmarks/requirements.txt; default: one of our own")
    asked = parser.parse_args()
    out: Path = asked.out or (HERE.parent / "build" / "bench" if asked.quick else HERE)
    wanted = [one for one in asked.only.split(",") if one]
    if unknown := set(wanted) - {step.name for step in STEPS}:
        parser.error(f"--only: {', '.join(sorted(unknown))}; steps: {', '.join(step.name for step in STEPS)}")
    found = Run.read(out / LINES)
    failed = []
    if not asked.report:
        lines: list[Line] = [machine.about()]
        for step in STEPS:
            before = [line for line in found.lines if line.get("step") == step.name]
            if wanted and step.name not in wanted:
                lines += before
                continue
            print(f"{step.name} ...", file=sys.stderr, flush=True)
            more = ["--peers-python", asked.peers_python] if step.name == "throughput" and asked.peers_python else []
            if asked.rounds and step.name != "pages":
                more += ["--rounds", str(asked.rounds)]
            try:
                lines += [{**line, "quick": asked.quick} for line in run(step, quick=asked.quick, more=more)]
            except subprocess.CalledProcessError:
                failed.append(step.name)
                lines += before
            Run(lines).write(out / f"{LINES}.part")  # what was measured is not lost with what comes after it
        found = Run(lines)
        found.write(out / LINES)
        (out / f"{LINES}.part").unlink(missing_ok=True)
    for path in write(found, out):
        print(path)
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}; see the errors above. Their lines are those of the last run, if any.")


if __name__ == "__main__":
    main()
