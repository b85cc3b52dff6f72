"""The tests keep to the house: what they share stands in support modules, and a name can be read at a glance."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.repo.packaging.repository import import_graph, imported, sources

LONGEST = 62
DOORS = {
    "poller",
    "poller.errors",
    "poller.ports",
    "poller.runtime",
    "poller.sinks.sql",
    "poller_cli",
    "poller_cli.main",
}
"""Beside each package of the library itself, and all of `poller.model` (pure rules) and `poller.contract`."""


def is_test(module: str) -> bool:
    return module.startswith("tests.") and any(part.startswith("test_") for part in module.split("."))


def names(tree: ast.Module) -> Iterator[str]:
    """Of the test functions, also those of a class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def test_no_module_imports_from_a_test_module() -> None:
    found = {path: sorted(filter(is_test, imported(tree))) for path, tree in sources("tests")}
    assert {path: modules for path, modules in found.items() if modules} == {}


@pytest.mark.parametrize(
    "text",
    ["import tests.cli.test_run", "from tests.cli.test_run import run", "def f():\n    from tests.cli import test_run"],
)
def test_such_an_import_is_seen_wherever_it_stands(text: str) -> None:
    assert any(map(is_test, imported(ast.parse(text))))


def test_no_name_of_a_test_is_longer_than_62_characters() -> None:
    long = {f"{path}::{name}" for path, tree in sources("tests") for name in names(tree) if len(name) > LONGEST}
    assert long == set()


def test_one_file_in_five_at_most_looks_behind_a_door() -> None:
    packages = {path.split("/")[1] for path, _ in sources("poller") if path.count("/") > 1}
    doors = DOORS | {f"poller.{package}" for package in packages}

    def is_private(module: str) -> bool:
        is_ours = module.split(".", maxsplit=1)[0] in ("poller", "poller_cli")
        return is_ours and module not in doors and not module.startswith(("poller.model", "poller.contract"))

    console = ((path.removeprefix("cli/"), tree) for path, tree in sources("cli"))
    graph = import_graph([*sources("poller", "tests"), *console])
    tests = {module: found for module, found in graph.items() if module.startswith("tests.")}
    private = [module for module, found in tests.items() if any(map(is_private, found))]
    assert len(private) <= len(tests) / 5, f"{len(private)} of {len(tests)} files"
