"""`python -m benchmarks.scale build`: JSON lines."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.scale import building


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("what", choices=["build"])
    parser.add_argument("--pollers", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        for line in building.measure(Path(home), pollers=asked.pollers, rounds=asked.rounds):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
