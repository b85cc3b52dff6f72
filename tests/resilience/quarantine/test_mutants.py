"""Each wrong change of the rules dies, of the right law."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.resilience.quarantine.mutants import MUTANTS, Mutant

pytestmark = pytest.mark.timeout(400)
"""A mutant may live through many schedules before it dies, on a machine with other work."""

ROOT = Path(__file__).resolve().parents[3]
HERE = Path("tests/resilience/quarantine")
SEEDS = 3_000


def copied(to: Path, mutant: Mutant) -> None:
    """A copy of the rules and the loop, with the mutant's change."""
    ignore = shutil.ignore_patterns("__pycache__", "test_*")
    shutil.copytree(ROOT / "poller", to / "poller", ignore=ignore)
    shutil.copytree(ROOT / HERE, to / HERE, ignore=ignore)
    for package in ("tests", "tests/resilience"):
        shutil.copy(ROOT / package / "__init__.py", to / package / "__init__.py")
    file = to / HERE / "tick.py" if mutant.file == "loop" else to / "poller" / mutant.file
    text = file.read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"{mutant.file} has {text.count(mutant.old)} times:\n{mutant.old}"
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


@pytest.mark.soak
@pytest.mark.parametrize("mutant", [pytest.param(mutant, id=mutant.name.replace(" ", "-")) for mutant in MUTANTS])
def test_mutant_dies(mutant: Mutant, tmp_path: Path) -> None:
    copied(tmp_path, mutant)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.resilience.quarantine.killer", str(tmp_path), "0", str(SEEDS)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1, f"survived: {ended.stdout}{ended.stderr[-2000:]}"
    assert re.search(mutant.dies_of, ended.stdout), f"died of something else: {ended.stdout}"


def test_every_mutant_has_its_place_and_its_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        file = ROOT / HERE / "tick.py" if mutant.file == "loop" else ROOT / "poller" / mutant.file
        assert file.read_text(encoding="utf-8").count(mutant.old) == 1, mutant.name
