"""What `make bench` runs, one step after the other, each a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.report.lines import Line
from benchmarks.report.machine import Watch
from tests.support.services import REPOSITORY


@dataclass(frozen=True)
class Step:
    """A bench with its sizes.

    Attributes:
        name: of the step; in its lines, `bench` where they have none. module: with `main`. whole, quick: its arguments.
    """

    name: str
    module: str
    whole: str
    quick: str


STEPS: Sequence[Step] = (
    Step("full_page", "full_page", "--rounds 7", "--rows 2000 --rounds 1 --database sqlite"),
    Step("overhead", "overhead", "start --rounds 5", "start --rounds 1"),
    Step("overhead index", "overhead", "index --rounds 5", "index --rounds 1"),
    Step("scale", "scale", "build --rounds 5", "build --rounds 1 --pollers 20"),
    Step("dispatch", "dispatch", "--rounds 7", "--database sqlite --rounds 1 --pollers 20"),
    Step("replicas", "replicas", "count --replicas 1,20", "count --replicas 1,2 --pollers 20 --minutes 1"),
    Step("replicas look", "replicas", "look --interval 30", "look --pollers 5 --interval 1 --seconds 2"),
    Step("latency", "latency", "--rounds 5 --ticks 200 --seconds 4", "--rounds 1 --ticks 5 --seconds 0.3"),
    Step("profile", "profile", "", "--rounds 1 --ticks 5 --batches 2"),
    Step("throughput", "throughput", "--rounds 5", "--rounds 1 --scale 1000 --batch 100"),
    Step("growth", "growth", "", "--sizes 5000,10000 --rounds 1 --wide 3000 --seconds 1"),
    Step(
        "pages", "pages", "--rows 1000000 --tie 40000 --repeat 25",
        "--database sqlite --rows 2000 --tie 400 --limit 50 --repeat 1",
    ),
)  # fmt: skip


def run(step: Step, *, quick: bool, more: Sequence[str] = ()) -> list[Line]:
    """Its lines, and one that says how long it took and how busy the machine was. What it writes to standard error is
    shown. Raises: CalledProcessError."""
    arguments = (step.quick if quick else step.whole).split()
    with Watch() as watch:
        done = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{step.module}", *arguments, *more],
            stdout=subprocess.PIPE, text=True, check=True, cwd=REPOSITORY,
        )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    name = step.name.split()[0]
    return [*({"bench": name, "step": step.name, **line} for line in found), watch.line(step.name)]
