from __future__ import annotations

import re
import sys

import pytest

from tests.repo.packaging.repository import imported, normal, owner, pins, project, requirements, sources
from tests.support.cases import each
from tests.support.services import REPOSITORY

RUNTIME = [normal(requirement) for requirement in project()["dependencies"]]
OPTIONAL = {
    normal(requirement): extra
    for extra, requirements in project()["optional-dependencies"].items()
    for requirement in requirements
}
# Named by nobody's import: data for zoneinfo, drivers that SQLAlchemy imports by the URL, and exporters of telemetry.
BY_NAME_ONLY = {
    *("tzdata", "psycopg", "pymysql", "pyodbc", "opentelemetry-sdk"),
    *("opentelemetry-exporter-otlp-proto-http", "azure-monitor-opentelemetry-exporter"),
    "opentelemetry-exporter-prometheus",
}
DEVELOPMENT = requirements("requirements-dev.in")
PEERS = requirements("benchmarks/requirements.txt")
OURS = {"poller", "poller_cli", "tests", "benchmarks", "scripts", "examples", *sys.stdlib_module_names}
"""What needs no declaration: our own, and Python's."""


def used(*folders: str) -> dict[str, str]:
    """Each foreign distribution that the code in these folders imports, and one file that does."""
    return {
        name: path
        for path, tree in sources(*folders)
        for module in imported(tree)
        if module.partition(".")[0] not in OURS and (name := owner(module)) is not None
    }


@each("name", [*RUNTIME, *OPTIONAL])
def test_the_documentation_says_why_each_dependency_is_there(name: str) -> None:
    page = (REPOSITORY / "docs" / "inside" / "dependencies.md").read_text()
    wanted = f"`{name}" if name in RUNTIME else f"`poller[{OPTIONAL[name]}]` | `{name}"
    rows = [line for line in page.splitlines() if re.match(rf"\| {re.escape(wanted)}[\[`]", line)]
    assert len(rows) == 1, f"docs/inside/dependencies.md must have one row for {name}, it has {len(rows)}"


@pytest.mark.soak
def test_what_is_imported_is_declared_and_the_other_way_round() -> None:
    """What only comes along with another package goes away when that one changes its mind."""
    product, tests, benchmarks = used("poller", "cli"), used("tests", "scripts"), used("benchmarks")
    declared = {*RUNTIME, *OPTIONAL}
    assert {*RUNTIME} - BY_NAME_ONLY - set(product) == set(), "installed for nothing"
    undeclared = {name: path for name, path in product.items() if name not in declared}
    assert undeclared.keys() == {"pytest"}  # of the laws for stores, which only tests import
    assert undeclared["pytest"].startswith("poller/contract/")
    declared |= {*DEVELOPMENT}
    assert {name: path for name, path in tests.items() if name not in declared} == {}
    declared |= {*PEERS}
    assert {name: path for name, path in benchmarks.items() if name not in declared} == {}


def test_packages_that_share_a_name_are_distinguished() -> None:
    assert owner("azure.core.MatchConditions") == "azure-core"
    assert owner("azure.storage.blob") == "azure-storage-blob"
    assert owner("opentelemetry.sdk.metrics.export") == "opentelemetry-sdk"
    assert owner("opentelemetry") is None
    assert owner("azure.not_installed") == "azure"
    assert owner("not_installed.at.all") == "not-installed"


def test_the_documentation_explains_each_development_package() -> None:
    page = (REPOSITORY / "docs" / "inside" / "dependencies.md").read_text()
    (section,) = re.findall(r"^## Only for development\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    listed = [normal(name) for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(listed) == sorted({*DEVELOPMENT, *PEERS} - {*OPTIONAL})


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_each_requirements_file_pins_every_runtime_dependency(name: str) -> None:
    drivers = ["psycopg", "pymysql"]  # the databases that a deployment speaks to without further ado
    assert [missing for missing in [*RUNTIME, *drivers] if missing not in pins(name)] == []


def test_what_the_tests_ran_with_is_what_is_deployed() -> None:
    tested = pins("requirements-dev.txt")
    assert {name: tested.get(name) for name in pins("requirements.txt")} == pins("requirements.txt")
