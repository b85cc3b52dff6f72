"""Replay one schedule with its log, or measure many:

python -m tests.resilience.failures SEED                  replay, with every step
python -m tests.resilience.failures SEED key=value ...    the same with some of its plan changed
python -m tests.resilience.failures --many FIRST LAST     run these seeds; those that break a law are listed
"""

from __future__ import annotations

import sys

from tests.resilience.failures.plan import draw
from tests.resilience.failures.schedule import play
from tests.resilience.simulation.__main__ import main

if __name__ == "__main__":
    if sys.argv[1:2] in ([], ["-h"], ["--help"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:], draw, play))
