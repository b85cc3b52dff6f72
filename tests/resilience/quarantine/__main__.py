"""Replay one schedule with its log, or run many:

python -m tests.resilience.quarantine SEED [key=value ...]    replay, with some of its plan changed
python -m tests.resilience.quarantine --many FIRST LAST       run these seeds; those that break a law are listed
"""

from __future__ import annotations

import sys
import time
from dataclasses import fields, replace
from typing import Any

from tests.resilience.quarantine.plan import Plan, draw
from tests.resilience.quarantine.schedule import many, play


def _changed(plan: Plan, settings: list[str]) -> Plan:
    kinds = {field.name: type(getattr(plan, field.name)) for field in fields(plan)}
    changes: dict[str, Any] = {}
    for setting in settings:
        key, _, text = setting.partition("=")
        changes[key] = tuple(filter(None, text.split(","))) if kinds[key] is tuple else kinds[key](text)
    return replace(plan, **changes)


def main(arguments: list[str]) -> int:
    """See the module's docstring. Exit code 1 when a law was broken."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 2
    if arguments[0] == "--many":
        began = time.perf_counter()
        first, last = int(arguments[1]), int(arguments[2])
        broken, seen = many(first, last)
        for seed, violation in broken:
            print(f"{seed}: {violation[:200]}")
        for name, count in sorted(seen.items()):
            print(f"{count:9}  {name}")
        seconds = time.perf_counter() - began
        print(f"{last - first} schedules, {seconds:.1f} s; {len(broken)} broke a law")
        return min(len(broken), 1)
    plan = _changed(draw(int(arguments[0])), arguments[1:])
    world = play(plan, logged=True)
    print(plan, *(world.log or ()), sep="\n")
    print(world.violation or "all laws held")
    return 0 if world.violation is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
