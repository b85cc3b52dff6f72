"""The tests keep to the house: what they share stands in support modules, and a name can be read at a glance."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.repo.packaging.repository import imported, sources

LONGEST = 62


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
