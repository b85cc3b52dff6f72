"""What one family of databases needs stands in its folder, or in the table of kinds."""

from __future__ import annotations

import ast
from pathlib import Path

from poller.databases import KINDS
from tests.support.services import REPOSITORY

SOURCES = REPOSITORY / "poller" / "sources"
NAMES = {*KINDS, *(alias for kind in KINDS.values() for alias in kind.aliases)}


def named(file: Path) -> list[int]:
    """The lines of a file that compare something with a family's name, or look it up by one."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in NAMES]


def test_no_rule_of_one_family_stands_outside_its_folder() -> None:
    files = [file for file in SOURCES.rglob("*.py") if file.relative_to(SOURCES).parts[0] not in KINDS]
    assert len(files) > 20
    assert {str(file.relative_to(SOURCES)): lines for file in files if (lines := named(file))} == {}
