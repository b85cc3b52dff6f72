"""Replay one schedule with its log, or measure many:

python -m tests.resilience.simulation SEED                  replay, with every step
python -m tests.resilience.simulation SEED key=value ...    the same with some of its plan changed
python -m tests.resilience.simulation --many FIRST LAST     run these seeds; those that break a law are listed
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeAlias

from tests.resilience.simulation.plan import Plan, draw
from tests.resilience.simulation.schedule import Report, play

Draw: TypeAlias = Callable[[int], Any]
Play: TypeAlias = Callable[..., Report]


def _changed(plan: Plan, settings: list[str]) -> Plan:
    kinds = {field.name: type(getattr(plan, field.name)) for field in fields(plan)}
    changes: dict[str, Any] = {}
    for setting in settings:
        key, _, text = setting.partition("=")
        kind = kinds[key]
        changes[key] = text == "True" if kind is bool else tuple(text.split(",")) if kind is tuple else kind(text)
    return replace(plan, **changes)


def _many(first: int, last: int, draw: Draw, play: Play) -> int:
    seen: Counter[str] = Counter()
    broken = steps = 0
    began = time.perf_counter()
    for seed in range(first, last):
        report = play(draw(seed))
        seen += report.seen
        steps += report.steps
        if report.violation is not None:
            broken += 1
            print(f"{seed}: {report.violation[:300]}")
    seconds = time.perf_counter() - began
    for name, count in sorted(seen.items()):
        print(f"{count:9}  {name}")
    print(f"{last - first} schedules, {steps} steps, {seconds:.1f} s, {(last - first) / seconds:.0f} a second")
    print(f"{broken} broke a law")
    return min(broken, 1)


def main(arguments: list[str], draw: Draw = draw, play: Play = play) -> int:
    """See the module's docstring. Exit code 1 when a law was broken."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 2
    if arguments[0] == "--many":
        return _many(int(arguments[1]), int(arguments[2]), draw, play)
    plan = _changed(draw(int(arguments[0])), arguments[1:])
    report = play(plan, logged=True)
    print(plan, *report.log, sep="\n")
    print(f"{report.steps} steps, {report.seconds:.1f} simulated seconds: {report.violation or 'all laws held'}")
    return 0 if report.violation is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
