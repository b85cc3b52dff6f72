"""docs/cli.md is what the commands say, and what the commands say is true."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

from poller_cli import exits
from poller_cli.main import build
from scripts import docs_cli
from tests.repo.docs.blocks import ROOT
from tests.support.cases import each

COMMANDS = dict(docs_cli.commands(build()))


@pytest.mark.soak
def test_the_page_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, "-m", "scripts.docs", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_command_of_the_designs_table_is_there() -> None:
    designed = (
        "run status check peek reset-to-beginning reset-to-cursor reset-to-checkpoint clone-checkpoint "
        "export-checkpoint pause cancel resume rebind history recheck watch backfill init demo"
    )
    assert {*designed.split(), "schema export", "sink ddl", "import azure-functions-db"} <= COMMANDS.keys()


@each("name", COMMANDS)
def test_each_commands_example_is_one_that_it_takes(name: str) -> None:
    (example,) = re.findall(r"Example: (.+)", COMMANDS[name].help)
    program, *words = shlex.split(example)
    assert program == "poller"
    assert words[: len(name.split())] == name.split()
    given: Any = COMMANDS[name].make_context(name, words[len(name.split()) :])
    assert all(given.params[one.name] is not None for one in COMMANDS[name].params if one.required)


@each("name", COMMANDS)
def test_each_option_is_explained(name: str) -> None:
    shown = [one for one in COMMANDS[name].params if not getattr(one, "hidden", False)]
    silent = [one.opts for one in shown if not getattr(one, "help", None)]
    assert silent == []


def test_every_exit_code_is_explained() -> None:
    assert set(docs_cli.CODES) == set(exits.PRECEDENCE)


def test_the_schemas_that_it_names_are_there() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    named = set(re.findall(r"\(\.\./schemas/([\w.-]+)\)", page))
    assert named
    assert [name for name in named if not (ROOT / "schemas" / name).is_file()] == []
