"""What `make demo` runs is what the tests run; `make race` itself is run in tests/resilience/race."""

from __future__ import annotations

import os
import shutil
import subprocess

from poller_cli import main
from tests.cli.project import COMMAND
from tests.repo.packaging.repository import project
from tests.support.services import REPOSITORY, unavailable


def recipe(target: str) -> list[str]:
    """The last command of a target, as words; what stands before it in `make -n` is set-up that is not done yet."""
    if shutil.which("make") is None:
        unavailable("no make on this machine")
    printed = subprocess.run(
        ["make", "--no-print-directory", "-n", target],
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")},
        capture_output=True,
        text=True,
        check=True,
    )
    return printed.stdout.splitlines()[-1].split()


def test_make_demo_runs_the_command_that_the_demos_test_drives() -> None:
    assert recipe("demo") == [".venv/bin/poller", "demo"]
    module, function = project()["scripts"]["poller"].split(":")
    assert (module, function) == (COMMAND[-1], main.main.__name__)
    assert module == main.__name__
