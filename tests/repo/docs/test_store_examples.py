"""examples/stores: each store keeps the state, by the commands of its README, on a server of the tests."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import shlex
import uuid
from pathlib import Path

import pytest

from poller_cli.main import execute
from tests.repo.docs.blocks import ROOT, blocks
from tests.repo.docs.sessions import steps
from tests.support.azurite import Azurite
from tests.support.cosmos import CosmosServer
from tests.support.moto import Moto

FOLDER, PAGE = ROOT / "examples" / "stores", "examples/stores/README.md"
FIRST, SQL, MEMORY, AZURE, S3, COSMOS = range(6)
"""The page's blocks."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example, with names of its own on servers that others use too, and its orders."""
    own = uuid.uuid4().hex[:12]
    for file in FOLDER.iterdir():
        if file.is_file():
            text = file.read_text()
            for shown in ("db-state", "dbstate", "shop-poller-state"):
                text = text.replace(f'"{shown}"', f'"{shown.replace("-", "")}{own}"')
            (tmp_path / file.name).write_text(text)
    monkeypatch.chdir(tmp_path)
    _, make = steps(blocks(PAGE)[FIRST].text)
    typed(make.command)
    return tmp_path


def typed(command: str) -> list[str]:
    """What a command prints on stdout."""
    program, *words = shlex.split(command)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as errors:
        if program == "python":
            runpy.run_path(words[0], run_name="__main__")
        else:
            assert execute(words) == 0, errors.getvalue()
    return out.getvalue().splitlines()


def follow(block: int, **instead: str) -> None:
    """Run a session. `instead`: of the addresses that it exports."""
    for step in steps(blocks(PAGE)[block].text):
        if step.command.startswith("export "):
            exported = dict(word.split("=", 1) for word in shlex.split(step.command)[1:])
            assert instead.keys() <= exported.keys()
            os.environ.update({**exported, **instead})
        else:
            assert typed(step.command) == step.shown, step.command


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the sessions export ends with the test."""
    for name in ("STORAGE", "S3_ENDPOINT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "COSMOS"):
        monkeypatch.setenv(name, "")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("block", [SQL, MEMORY], ids=["sql", "memory"])
def test_without_a_server_the_example_runs_as_printed(block: int) -> None:
    follow(block)


@pytest.mark.usefixtures("folder")
def test_on_azurite_the_example_runs_as_printed(azurite: Azurite) -> None:
    follow(AZURE, STORAGE=azurite.connection_string_with_tables)


@pytest.mark.usefixtures("folder")
def test_on_moto_the_example_runs_as_printed(s3_server: Moto) -> None:
    follow(S3, S3_ENDPOINT=s3_server.endpoint)


@pytest.mark.usefixtures("folder")
def test_on_cosmosdb_server_the_example_runs_as_printed(cosmos_server: CosmosServer) -> None:
    follow(COSMOS, COSMOS=cosmos_server.connection_string)
