"""`make race`: the stale owner is refused, every time, and that is what is shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.resilience.race import show
from tests.support.azurite import Azurite, find_azurite
from tests.support.services import REPOSITORY, unavailable

_EVENT = re.compile(r" *[\d.]+s  (?P<worker>first|second) +(?P<event>\w+) +(?P<facts>.*)")
_ENTRY = re.compile(r" +(?P<row>\d+) +(?P<token>\d+)  (?P<worker>first|second)")


def _make(target: str) -> str:
    """What the target prints when it is run with this interpreter and what is installed for it."""
    if shutil.which("make") is None:
        unavailable("make is not installed")
    here = Path(sys.executable).parent
    done = subprocess.run(
        ["make", "-o", "dev", "-o", "azurite", "DEV=dev", "TOOLS=azurite", f"BIN={here}", target],
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.guarantee("One worker at a time", "A stale owner can never move the checkpoint")
def test_an_owner_held_past_its_lease_wakes_up_and_is_refused() -> None:
    find_azurite()  # says what is missing
    printed = _make("race")
    events = [found.groupdict() for line in printed.splitlines() if (found := _EVENT.fullmatch(line))]
    first, second = ([one["event"] for one in events if one["worker"] == who] for who in ("first", "second"))
    assert first[:3] == ["lease_acquired", "batch_started", "ledger_written"], printed
    assert second[second.index("lease_taken_over") :][:3] == ["lease_taken_over", "batch_started", "ledger_written"]
    assert first.index("stale_commit_refused") > first.index("woke_up") > first.index("stopped")
    after_waking = first[first.index("woke_up") :]
    assert "batch_committed" not in after_waking
    assert "ledger_refused" in after_waking
    ends = {one["worker"]: one["facts"].split()[0] for one in events if one["event"] == "finished"}
    assert ends == {"first": "outcome=lease_lost", "second": "outcome=delivered"}
    ledger = [found.groupdict() for line in printed.splitlines() if (found := _ENTRY.fullmatch(line))]
    assert [int(entry["row"]) for entry in ledger] == list(range(1, show.ROWS + 1))
    assert [(entry["token"], entry["worker"]) for entry in ledger] == [("1", "first")] * 5 + [("2", "second")] * 5
    assert printed.rstrip().endswith("10 entries for 10 rows, tokens [1, 2]: as promised")


@pytest.mark.soak
def test_with_the_state_in_a_table_it_is_refused_too(azurite: Azurite, tmp_path: Path) -> None:
    pytest.importorskip("azure.data.tables", reason="needs the extra table")
    race = show.run(azurite, tmp_path, tables=True)
    first = race.names("first")
    assert first.index("stale_commit_refused") > first.index("woke_up")
    assert "batch_committed" not in first[first.index("woke_up") :]
    assert race.ledger == [(row, 1 + (row > 5), "second" if row > 5 else "first") for row in range(1, show.ROWS + 1)]
