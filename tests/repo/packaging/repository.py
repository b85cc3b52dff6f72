"""The repository's files and what they declare, as the tests here read them."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.support.services import REPOSITORY, unavailable


def committed_files() -> list[Path]:
    """Every file that git tracks; `unavailable` where this is no clone (an unpacked source archive)."""
    if not (REPOSITORY / ".git").exists():
        unavailable("not a git clone: nothing says which files are committed")
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


def requirements(name: str) -> list[str]:
    """The distributions that a requirements file names."""
    lines = [line.partition("#")[0].strip() for line in (REPOSITORY / name).read_text().splitlines()]
    return [normal(line) for line in lines if line]


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


@functools.cache
def modules() -> dict[str, str]:
    """`{module: distribution}` of every installed file, packages that distributions share (`azure`) left out."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        for file in distribution.files or ():
            if file.suffix in (".py", ".so", ".pyd"):
                module = ".".join((*file.parts[:-1], file.name.partition(".")[0])).removesuffix(".__init__")
                found[module] = normal(distribution.name)
    return found


@functools.cache
def owner(module: str) -> str | None:
    """The distribution that an imported module (or a name in it) comes from; its own name where it is not installed.

    None: a package that distributions share, by itself; what is imported out of it says whose it is.
    """
    parts = module.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    found = next((modules()[prefix] for prefix in prefixes if prefix in modules()), None)
    if found is None and not any(known.startswith(f"{module}.") for known in modules()):
        return normal(parts[0])
    return found


def sources(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """`(path relative to the repository, syntax tree)` of each Python file below these folders."""
    for folder in folders:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            yield path.relative_to(REPOSITORY).as_posix(), _tree(path)


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


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


def import_graph(trees: Iterable[tuple[str, ast.Module]]) -> dict[str, set[str]]:
    """`{module: modules among these that it imports}`, inside functions and for type checkers alike.

    Args:
        trees: as `sources` gives them.
    """
    named = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): tree for path, tree in trees}
    graph: dict[str, set[str]] = {}
    for module, tree in named.items():
        found = graph[module] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                parts = {f"{node.module}.{alias.name}" for alias in node.names}
                found.update(part if part in named else node.module for part in parts)
        graph[module] = (found & named.keys()) - {module}
    return graph
