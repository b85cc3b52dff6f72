"""Run schedules against whatever rules and loop are on the path, until one breaks a law.

    python -m tests.resilience.quarantine.killer DIRECTORY FIRST LAST

DIRECTORY is where both must come from. Exit code 0: all laws held. 1: one was broken, and is printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import poller
from tests.resilience import quarantine
from tests.resilience.quarantine.plan import draw
from tests.resilience.quarantine.schedule import play


def main(directory: str, first: str, last: str) -> int:
    """See the module's docstring."""
    for found in (Path(poller.__file__).resolve().parents[1], Path(quarantine.__file__).resolve().parents[3]):
        if found != Path(directory).resolve():
            print(f"imported from {found}, not from {directory}")
            return 2
    for seed in range(int(first), int(last)):
        try:
            violation = play(draw(seed)).violation
        except Exception as error:  # noqa: BLE001 - a mutant may die of its own change, which proves nothing
            print(f"seed {seed}: {type(error).__name__}: {error}")
            return 3
        if violation is not None:
            print(f"seed {seed}: {violation}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
