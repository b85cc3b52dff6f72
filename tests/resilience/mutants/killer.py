"""Run schedules against whatever `poller` is on the path, until one breaks a law.

    python -m tests.resilience.mutants.killer DIRECTORY KIND SEED...

DIRECTORY is where `poller` must come from. KIND is leases or failing: schedules whose rows fail
(tests/resilience/failures). Exit code 0: all laws held. 1: one was broken, and is printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import poller
from tests.resilience.failures.plan import draw as draw_failing
from tests.resilience.failures.schedule import play as play_failing
from tests.resilience.simulation.plan import draw
from tests.resilience.simulation.schedule import play


def main(directory: str, kind: str, *seeds: str) -> int:
    """See the module's docstring."""
    found = Path(poller.__file__).resolve().parents[1]
    if found != Path(directory).resolve():
        print(f"poller was imported from {found}, not from {directory}")
        return 2
    for seed in map(int, seeds):
        report = play_failing(draw_failing(seed)) if kind == "failing" else play(draw(seed))
        violation = report.violation
        if violation is not None:
            print(f"seed {seed}: {violation}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
