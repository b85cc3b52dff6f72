from __future__ import annotations

import importlib.metadata
import re
import sys

import pytest

from tests.packaging.repository import imported, normal, pins, project, sources
from tests.support.services import REPOSITORY

RUNTIME = [normal(requirement) for requirement in project()["dependencies"]]
OPTIONAL = {
    normal(requirement): extra
    for extra, requirements in project()["optional-dependencies"].items()
    for requirement in requirements
}
OWNERS = {
    module: {normal(owner) for owner in names} for module, names in importlib.metadata.packages_distributions().items()
}
# Named by nobody's import: data for zoneinfo, and drivers that SQLAlchemy imports by the URL.
BY_NAME_ONLY = {"tzdata", "psycopg", "pymysql", "pyodbc", "oracledb", "opentelemetry-sdk"}
# Its seat is kept: the first metric that imports it must take it off this list, or the test fails.
AWAITED: set[str] = set()


@pytest.mark.parametrize("name", [*RUNTIME, *OPTIONAL])
def test_the_documentation_says_why_each_dependency_is_there(name: str) -> None:
    page = (REPOSITORY / "docs" / "dependencies.md").read_text()
    wanted = f"`{name}" if name in RUNTIME else f"`poller[{OPTIONAL[name]}]` | `{name}"
    rows = [line for line in page.splitlines() if re.match(rf"\| {re.escape(wanted)}[\[`]", line)]
    assert len(rows) == 1, f"docs/dependencies.md must have one row for {name}, it has {len(rows)}"


def is_imported(name: str) -> bool:
    """Whether poller/ or cli/ imports the distribution of that name, at the top or in a function."""
    if name.startswith(("azure-", "opentelemetry-")):  # namespaces that distributions share: the second name tells
        modules = [name.replace("-", ".").removesuffix(".api")]
    else:
        modules = [module for module, owners in OWNERS.items() if name in owners]
    used = {module for _, tree in sources("poller", "cli") for module in imported(tree)}
    return any(found == module or found.startswith(f"{module}.") for module in modules for found in used)


@pytest.mark.parametrize("name", sorted({*RUNTIME} - BY_NAME_ONLY))
def test_no_dependency_is_installed_for_nothing(name: str) -> None:
    assert is_imported(name) is (name not in AWAITED)


def test_everything_imported_is_declared() -> None:
    declared = {*RUNTIME, *OPTIONAL, "pydantic-core"}  # pydantic's other half, of exactly the version that it names
    ours = {"poller", "poller_cli", *sys.stdlib_module_names}
    stray = [
        f"{path}: {module}"
        for path, tree in sources("poller", "cli")
        for module in sorted({name.partition(".")[0] for name in imported(tree)} - ours)
        if not OWNERS.get(module, set()) & declared
    ]
    assert stray == []


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_each_requirements_file_pins_every_runtime_dependency(name: str) -> None:
    drivers = ["psycopg", "pymysql"]  # the databases that a deployment speaks to without further ado
    assert [missing for missing in [*RUNTIME, *drivers] if missing not in pins(name)] == []


def test_what_the_tests_ran_with_is_what_is_deployed() -> None:
    tested = pins("requirements-dev.txt")
    assert {name: tested.get(name) for name in pins("requirements.txt")} == pins("requirements.txt")
