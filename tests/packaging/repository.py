"""The repository's files and what they declare, as the tests here read them."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.services import REPOSITORY, unavailable


def committed_files() -> list[Path]:
    """Every file that git tracks; skips where this is no clone (an unpacked source archive)."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git clone: nothing tells which files are committed")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        unavailable(f"git cannot list the files: {listed.stderr.strip()}")
    return [path for name in listed.stdout.split("\0") if name and (path := REPOSITORY / name).is_file()]


def project() -> dict[str, Any]:
    """The table `[project]` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return table


def normal(requirement: str) -> str:
    """A distribution's name out of a requirement, in the form in which names are compared."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None, f"no name in requirement {requirement!r}"
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def pins(name: str) -> dict[str, str]:
    """`{distribution: version}` of a requirements file, for the Python that runs."""
    found: dict[str, str] = {}
    for line in (REPOSITORY / name).read_text().splitlines():
        requirement = line.partition("#")[0].strip()
        if requirement:
            pin = re.fullmatch(r"([A-Za-z0-9._-]+)==([\w.]+)(?: *; *python_version (<|>=) \"([\d.]+)\")?", requirement)
            assert pin is not None, f"{name}: {line!r} is not a pin"
            found.setdefault(normal(pin[1]), pin[2])
    return found


def sources(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """`(path relative to the repository, syntax tree)` of each Python file below these folders."""
    for folder in folders:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            yield path.relative_to(REPOSITORY).as_posix(), ast.parse(path.read_bytes())


def imported(tree: ast.Module) -> set[str]:
    """Every module that a file names in an import, also inside functions; `from a.b import c` gives a.b and a.b.c."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names
