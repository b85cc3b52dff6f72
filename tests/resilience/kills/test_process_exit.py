"""`isolation = "process"`: a program ends when its main script does, whether or not it closed its poller."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.resilience.kills import children
from tests.resilience.kills.children import gone
from tests.support.services import wait_until

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys
from pathlib import Path

from poller.stores import MemoryStore
from tests.resilience.faults.shop import Shop
from tests.resilience.kills import children

if __name__ == "__main__":
    shop = Shop(Path(sys.argv[1]), 5)
    print(shop.poller(MemoryStore(), isolation="process").tick(children.fine).rows, flush=True)
    {last}
"""


@pytest.mark.parametrize("last", ["pass", pytest.param('raise ValueError("at the end")', marks=pytest.mark.soak)])
def test_a_program_that_never_closes_its_poller_ends_its_child(tmp_path: Path, last: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(last=last))
    environ = {**os.environ, "PYTHONPATH": str(ROOT), children.FOLDER: str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path)],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert out == "5\n"
    assert (process.returncode, "at the end" in errors) == ((1, True) if "raise" in last else (0, False))
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: gone(child), "the child ends")
