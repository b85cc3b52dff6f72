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


@pytest.mark.parametrize(("now", "before", "rest"), NAMES)
def test_an_earlier_name_leads_to_the_one_of_now(
    console: Console, now: tuple[str, ...], before: tuple[str, ...], rest: tuple[str, ...]
) -> None:
    more = rest[:1] if now[-1] == "import" else ()
    page = console.run(*before, *more, "--help").out
    assert f"The same as poller {' '.join((*now, *more))}, by its earlier name." in page
    assert f"Example: poller {' '.join((*before, *more))} " in page


def test_records_keep_the_word_that_they_have(console: Console) -> None:
    output = console.done("checkpoint", "clone", "orders", "orders-v2", "--yes")
    assert output["command"] == "clone-checkpoint"


def test_the_group_alone_shows_its_page(console: Console) -> None:
    ended = console.run("checkpoint")
    assert ended.code == 0
    assert ended.out == console.run("checkpoint", "--help").out


def test_a_preview_is_headed_by_what_was_typed(console: Console) -> None:
    for words in (("reset", "orders", "--to", "beginning"), ("reset-to-beginning", "orders")):
        ended = console.run(*words, "--dry-run")
        assert ended.out.startswith(f"{words[0]} orders\n")
        assert console.run(*words, "--dry-run", "--json").json["command"] == "reset-to-beginning"


def test_a_quarantine_is_listed_by_its_poller(project: Project) -> None:
    project.configure("orders", "invoices")
    console = Console(project)
    assert console.run("run", "--once").code == 0
    assert console.run("quarantine", "orders").out == console.run("quarantine", "list", "orders").out
    assert console.run("quarantine", "invoices", "--json").json["name"] == "invoices"
    console.refused(2, "quarantine", "lst", says="no command 'lst'. See: poller quarantine --help")
    assert console.run("quarantine", "orders", "--help").out == console.run("quarantine", "list", "--help").out
