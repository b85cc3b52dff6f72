"""`python -m benchmarks.replicas count|look`: JSON lines."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.replicas.counting import count
from benchmarks.replicas.looks import measure
from tests.support.azurite import Azurite


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replicas", description=__doc__)
    parser.add_argument("what", choices=["count", "look"])
    parser.add_argument("--pollers", type=int, default=1000)
    parser.add_argument("--replicas", default="1,4,20", help="count: how many processes, with commas")
    parser.add_argument("--minutes", type=int, default=10, help="count: of simulated time")
    parser.add_argument("--interval", type=int, default=10, help="seconds of the pollers' schedule, a part of 60")
    parser.add_argument("--seconds", type=float, default=30.0, help="look: how long is measured")
    asked = parser.parse_args()
    if asked.what == "count":
        for replicas in map(int, asked.replicas.split(",")):
            print(
                json.dumps(count(replicas, asked.pollers, interval=asked.interval, minutes=asked.minutes)), flush=True
            )
        return
    with Azurite.start() as azurite, tempfile.TemporaryDirectory() as home:
        found = measure(azurite, Path(home), pollers=asked.pollers, interval=asked.interval, seconds=asked.seconds)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
