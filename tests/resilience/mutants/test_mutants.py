"""Each mutant dies, of the right law; the code as it is survives the same schedules."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.resilience.mutants.capture import CAPTURE
from tests.resilience.mutants.conditions import CONDITIONS
from tests.resilience.mutants.delivery import DELIVERY
from tests.resilience.mutants.facts import FACTS
from tests.resilience.mutants.failing import FAILING
from tests.resilience.mutants.health import HEALTH
from tests.resilience.mutants.lanes import LANES, LANES_FAILING, OF_TESTS
from tests.resilience.mutants.mutant import ANY, SPECIAL, Edit, Mutant
from tests.resilience.mutants.protocol import PROTOCOL
from tests.resilience.mutants.rules import OF_RULES, RULES
from tests.resilience.mutants.table import MUTANTS

FEW = range(400)
"""Schedules whose rows fail; `tests.resilience.failures` proves that the code as it is survives them."""
BEYOND = (range(5_024, 12_000, 25), range(5_013, 6_000, 20), range(5_003, 6_000, 20))
"""Of all seeds that mutants die of, those that the schedules of `tests.resilience.simulation` do not play."""
HERE = 4
"""Schedules of each kind that the code as it is is shown to survive in a copy; the simulation plays the others."""
ROOT = Path(__file__).resolve().parents[3]


def copied(to: Path, edits: tuple[Edit, ...] = ()) -> Path:
    """A copy of the package with some edits, and with what is compiled of the rest of it."""
    shutil.copytree(ROOT / "poller", to / "poller")
    for edit in edits:
        file = to / "poller" / edit.file
        text = file.read_text(encoding="utf-8")
        found = text.count(edit.old)
        assert found == 1, f"poller/{edit.file} has {found} times what the mutant replaces:\n{edit.old}"
        file.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
            compiled.unlink()
    return to


def tried(
    directory: Path, seeds: range, *, first: int | None = None, kind: str = "leases"
) -> subprocess.CompletedProcess[str]:
    """The simulation on the copy, in a process of its own."""
    played = seeds if first is None else (first, *seeds)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.resilience.mutants.killer",
            str(directory),
            kind,
            *map(str, played),
        ],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(directory), str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )


def marks(mutant: Mutant) -> tuple[pytest.MarkDecorator, ...]:
    return () if mutant.line else (pytest.mark.soak,)


pytestmark = pytest.mark.timeout(400)
"""A mutant may live through many schedules before it dies, on a machine with other work."""


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(mutant, id=mutant.name.replace(" ", "-"), marks=marks(mutant)) for mutant in (*MUTANTS, *LANES)],
)
def test_mutant_dies(mutant: Mutant, tmp_path: Path) -> None:
    assert mutant.first is None or mutant.first in mutant.seeds
    ended = tried(copied(tmp_path, mutant.edits), mutant.seeds, first=mutant.first)
    assert ended.returncode == 1, f"survived {mutant.seeds}: {ended.stdout}{ended.stderr}"
    assert re.search(mutant.dies_of, ended.stdout), f"died of something else: {ended.stdout}{ended.stderr}"


@pytest.mark.parametrize(
    "seeds",
    [
        *(pytest.param(seeds[:HERE], marks=pytest.mark.soak) for seeds in (range(400), *SPECIAL)),
        *(pytest.param(seeds, marks=[pytest.mark.prove, pytest.mark.timeout(600)]) for seeds in BEYOND),
    ],
    ids=str,
)
def test_the_code_as_it_is_survives(seeds: range, tmp_path: Path) -> None:
    ended = tried(copied(tmp_path), seeds)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.soak
@pytest.mark.parametrize(
    "mutant", [pytest.param(one, id=one.name.replace(" ", "-")) for one in (*FAILING, *RULES, *LANES_FAILING)]
)
def test_mutant_of_failing_rows_dies(mutant: Mutant, tmp_path: Path) -> None:
    seeds = FEW if mutant.seeds is ANY else mutant.seeds
    ended = tried(copied(tmp_path, mutant.edits), seeds, first=mutant.first, kind="failing")
    assert ended.returncode == 1, f"survived {seeds}: {ended.stdout}{ended.stderr}"
    assert re.search(mutant.dies_of, ended.stdout), f"died of something else: {ended.stdout}{ended.stderr}"


OF_ONE_TEST = (*OF_TESTS, *OF_RULES, *HEALTH, *DELIVERY, *FACTS, *CONDITIONS, *CAPTURE)
ONE_TEST = "import sys, poller, pytest; print(poller.__file__); sys.exit(pytest.main(sys.argv[1:]))"


def ran(directory: Path, test: str) -> subprocess.CompletedProcess[str]:
    """A test on the copy, in a process of its own, which imports the copy before pytest finds another."""
    return subprocess.run(
        [sys.executable, "-P", "-c", ONE_TEST, "-q", "-n", "0", "-p", "no:cacheprovider", test],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(directory), str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.soak
@pytest.mark.parametrize(
    "mutant",
    [pytest.param(one, id=one.name.replace(" ", "-")) for one in OF_ONE_TEST],
)
def test_mutant_dies_of_its_test(mutant: Mutant, tmp_path: Path) -> None:
    ended = ran(copied(tmp_path, mutant.edits), mutant.test)
    assert ended.stdout.startswith(str(tmp_path)), ended.stdout
    assert ended.returncode == 1, f"survived {mutant.test}: {ended.stdout}{ended.stderr}"
    assert re.search(f"FAILED .*{mutant.dies_of}", ended.stdout), f"died of something else: {ended.stdout}"


LINES = {
    "deadline counted from the answer",
    "taker using its own wall clock",
    "timeout taken as applied",
    "timeout taken as not applied after a re-read",
    "document deleted on release",
    "heartbeat and commit with separate ETags",
    "only the newest write id kept",
    "`--break-lease` that releases at once",
}
"""protocol.md, "Faults to inject", to the letter."""


def test_every_mutant_of_the_protocols_list_is_there() -> None:
    assert {mutant.line for mutant in PROTOCOL} == LINES
    assert {mutant.line for mutant in MUTANTS} == LINES | {""}


def test_every_kind_of_schedule_has_a_mutant_with_a_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.seeds for mutant in MUTANTS if mutant.seeds.step > 1} == set(SPECIAL)
    assert ANY in {mutant.seeds for mutant in MUTANTS}
