"""What `make demo` and `make race` run is what the tests run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

from poller_cli import main
from tests.cli.conftest import COMMAND
from tests.packaging.repository import project
from tests.support.services import REPOSITORY, unavailable


def recipe(target: str) -> list[str]:
    """The last command of a target, as words; what stands before it in `make -n` is set-up that is not done yet."""
    if shutil.which("make") is None:
        unavailable("no make on this machine")
    printed = subprocess.run(
        ["make", "--no-print-directory", "-n", target], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return printed.stdout.splitlines()[-1].split()


def test_make_demo_runs_the_command_that_the_demos_test_drives() -> None:
    assert recipe("demo") == [".venv/bin/poller", "demo"]
    module, function = project()["scripts"]["poller"].split(":")
    assert (module, function) == (COMMAND[-1], main.main.__name__)
    assert module == main.__name__


def test_make_race_ends_in_one_ledger_entry_per_row() -> None:
    program, *arguments = recipe("race")
    assert program == ".venv/bin/python"

    done = subprocess.run(
        [sys.executable, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=100
    )

    if "Unavailable" in done.stderr:
        unavailable(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line.split()[2] for line in done.stdout.splitlines() if re.match(r" *[\d.]+s  ", line)]
    assert told.index("lease_taken_over") < told.index("woken") < told.index("stale_commit_refused")
    ledger = re.findall(r"^ +(\d+) +(\d) +(first|second)$", done.stdout, re.MULTILINE)
    assert [int(row) for row, _, _ in ledger] == list(range(1, 11))
    assert [(token, worker) for _, token, worker in ledger] == [("1", "first")] * 5 + [("2", "second")] * 5
