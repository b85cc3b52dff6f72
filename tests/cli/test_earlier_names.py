"""Commands of `poller checkpoint` by the names that they had before the group."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.azure_functions_db import fixture
from tests.cli.console import Console
from tests.cli.project import Project

THEIRS = ("azure-functions-db", str(fixture("text")), "--name", "orders", "--overwrite", "--allow-skip")
NAMES = [
    (("checkpoint", "export"), ("export-checkpoint",), ("orders",)),
    (("checkpoint", "clone"), ("clone-checkpoint",), ("orders", "orders-v2", "--dry-run")),
    (("checkpoint", "import"), ("import",), (*THEIRS, "--dry-run")),
]


@pytest.fixture
def console(project: Project) -> Console:
    project.configure("orders")
    project.insert(5)
    console = Console(project)
    assert console.run("run", "--once").code == 0
    return console


@pytest.mark.parametrize(("now", "before", "rest"), NAMES)
def test_both_names_do_the_same(
    console: Console, now: tuple[str, ...], before: tuple[str, ...], rest: tuple[str, ...]
) -> None:
    def answer(words: tuple[str, ...]) -> dict[str, Any]:
        ended = console.run(*words, *rest, "--json")
        assert ended.code == 0, ended.err
        output: dict[str, Any] = ended.json
        output.pop("exported_at", None)
        return output

    assert answer(now) == answer(before)


def test_records_keep_the_word_that_they_have(console: Console) -> None:
    output = console.done("checkpoint", "clone", "orders", "orders-v2", "--yes")
    assert output["command"] == "clone-checkpoint"
