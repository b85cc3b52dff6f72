"""Nobody is sent to a package index for what is not there: one place says what is published (scripts/published.py)."""

from __future__ import annotations

import re

import pytest

from poller import extras
from scripts import published
from tests.repo.packaging.repository import committed_files, normal, project
from tests.support.services import REPOSITORY

BARE = re.compile(r"pip install ((?:-\S+ )*)(?P<quote>[\"']?)poller(?P<extra>\[[\w,-]+\])?(?![\w/.*-])")
"""`pip install` of the bare name, which asks a package index."""
SHOWN = re.compile(r"pip install (?:-\S+ )*[\"'`]?(?:\./)?(?:\.|poller)(?:\[(?P<extra>[\w,-]+)\])?[\"'`\n ]")
WHEEL = re.compile(r"poller-([\d.]+)-py3-none-any\.whl")


def texts() -> dict[str, str]:
    """Of everything that a user reads: pages, examples, messages; what is said of installing to developers too."""
    found = {}
    for path in committed_files():
        name = path.relative_to(REPOSITORY).as_posix()
        text = path.read_bytes()
        if not name.startswith(("tests/", "scripts/")) and b"\0" not in text:
            found[name] = text.decode()
    return found


def test_the_bare_name_is_installed_only_after_a_release() -> None:
    found = [f"{name}: {hit[0]}" for name, text in texts().items() for hit in BARE.finditer(text)]
    if not published.RELEASED:
        assert found == []


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("pip install poller", True),
        ("pip install --upgrade 'poller[postgres]'", True),
        ('pip install "poller[otlp]".', True),
        ("pip install poller-0.1.0-py3-none-any.whl", False),
        ('pip install ".[postgres]"', False),
        ("pip install pollers", False),
    ],
    ids=["bare", "extra", "quoted", "wheel", "clone", "another"],
)
def test_such_a_line_is_seen_in_every_form(line: str, seen: bool) -> None:
    assert (BARE.search(line) is not None) is seen


def test_each_line_shown_is_the_one_of_today() -> None:
    lines = {published.install(extra, quote) for extra in ["", *extras.PACKAGES] for quote in "\"'"}
    shown = [(name, hit[0].strip("` \n")) for name, text in texts().items() for hit in SHOWN.finditer(text + "\n")]
    assert {"README.md", "docs/getting-started.md", "docs/containers.md"} <= {name for name, _ in shown}
    assert [one for one in shown if one[1] not in lines and "--no-build-isolation" not in one[1]] == []


def test_each_wheel_shown_has_the_version_of_today() -> None:
    found = {name: set(WHEEL.findall(text)) for name, text in texts().items() if WHEEL.search(text)}
    assert "examples/functions/requirements.txt" in found
    assert {name: versions for name, versions in found.items() if versions != {project()["version"]}} == {}


def test_errors_name_what_the_extras_bring() -> None:
    declared = {
        extra: sorted(normal(one) for one in requirements)
        for extra, requirements in project()["optional-dependencies"].items()
    }
    assert {extra: sorted(map(normal, packages)) for extra, packages in extras.PACKAGES.items()} == declared
    assert extras.step("postgres") == 'Install poller\'s extra postgres: pip install "psycopg[binary]"'
