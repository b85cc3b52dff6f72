"""`make release-check` finds what must not be released; the long form installs with every Python of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.release import archives, installs, licences, texts
from scripts.release.__main__ import Report, check
from tests.repo.packaging.repository import project
from tests.support.services import REPOSITORY

NEWS = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- More.\n"
NONE = "# Changelog\n\n## [Unreleased]\n\n"
FIRST = "## [0.1.0] - 2026-12-01\n\n- All.\n"


@pytest.mark.parametrize(
    ("changelog", "tag"),
    [(NEWS, ""), (f"{NONE}{FIRST}", ""), (f"{NONE}{FIRST}", "v0.1.0"), (NEWS + FIRST.replace("1.0", "0.9"), "")],
    ids=["unreleased", "dated", "tagged", "next"],
)
def test_a_change_log_that_agrees_with_the_version(changelog: str, tag: str) -> None:
    assert texts.version_problems("0.1.0", changelog, tag) == []


@pytest.mark.parametrize(
    ("changelog", "tag", "said"),
    [
        (NONE, "", "says nothing of version 0.1.0"),
        (NEWS + FIRST, "", "has news since [0.1.0]"),
        (NEWS, "v0.1.0", "newest section is not [0.1.0]"),
        (NEWS + FIRST, "v0.1.0", "belongs under the version"),
        (f"{NONE}{FIRST}", "v0.2.0", "not that of the version 0.1.0"),
        (f"{NONE}## [0.1.0]\n\n- All.\n", "", "has no day"),
        (FIRST, "", "no section [Unreleased]"),
        (NEWS.replace("Added", "News"), "", "'News' is no heading"),
    ],
    ids=["silent", "same-version", "not-moved", "left-over", "other-tag", "no-day", "no-unreleased", "heading"],
)
def test_what_disagrees_with_the_version_is_named(changelog: str, tag: str, said: str) -> None:
    assert any(said in problem for problem in texts.version_problems("0.1.0", changelog, tag))


def test_the_change_log_agrees_with_the_version() -> None:
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    assert texts.version_problems(project()["version"], changelog) == []


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only AND MIT", False),
        ("MPL-2.0 AND (Apache-2.0 OR GPL-2.0-only)", True),
        ("MPL-2.0 AND (GPL-2.0-only)", False),
        ("(MIT", False),
        ("", False),
    ],
    ids=["listed", "other", "choice", "both", "nested", "nested-other", "broken", "empty"],
)
def test_a_licence_is_allowed_if_a_choice_of_it_is(expression: str, allowed: bool) -> None:
    assert licences.allowed(expression) is allowed


@pytest.mark.parametrize(
    ("expression", "text", "classifiers", "known"),
    [
        ("MIT", "something", [], "MIT"),
        (None, "Apache 2.0", [], "Apache-2.0"),
        (None, "Copyright (c) 2021 ... a whole text", ["BSD License"], "BSD-3-Clause"),
        (None, "Proprietary", [], None),
        (None, None, [], None),
    ],
    ids=["expression", "name", "classifier", "other", "nothing"],
)
def test_a_licence_that_says_nothing_known_is_unknown(
    expression: str | None, text: str | None, classifiers: list[str], known: str | None
) -> None:
    assert licences.licence(expression, text, classifiers) == known


def test_every_dependency_has_a_licence_that_is_allowed() -> None:
    assert {"sqlalchemy", "psycopg", "certifi"} <= licences.closure("poller")
    assert licences.problems() == []


@pytest.mark.parametrize(
    ("name", "wheel", "stray"),
    [
        ("poller/app.py", True, False),
        ("poller-0.1.0.data/data/share/man/man1/poller.1", True, False),
        ("tests/test_app.py", True, True),
        ("poller/tests/test_app.py", True, True),
        ("scripts/docs.py", True, True),
        ("poller-0.1.0/docs/cli.md", False, False),
        ("poller-0.1.0/examples/functions/.funcignore", False, False),
        ("poller-0.1.0/poller/__pycache__/app.cpython-311.pyc", False, True),
        ("poller-0.1.0/examples/quickstart/state.db", False, True),
        ("poller-0.1.0/.venv/pyvenv.cfg", False, True),
    ],
    ids=["code", "manual", "tests", "inner-tests", "scripts", "page", "template", "compiled", "state", "environment"],
)
def test_a_file_with_no_business_in_an_archive_is_seen(name: str, wheel: bool, stray: bool) -> None:
    assert bool(archives.strays([name], wheel=wheel)) is stray


def test_a_dead_link_in_the_long_description_is_named() -> None:
    metadata = "Metadata-Version: 2.4\nName: poller\n\n# poller\n\n[a](docs/a.md) [b](https://b.example) [c](#c)\n"
    assert texts.description_problems(metadata) == ["The long description has a dead link: docs/a.md"]


def test_a_python_that_is_too_old_or_broken_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, answer in (("python3.11", "echo 3.9"), ("python3.12", "exit 1"), ("python3.13", "echo 3.13")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert installs.pythons() == {"3.13": str(tmp_path / "python3.13")}


def test_the_example_that_is_run_is_the_readmes() -> None:
    assert "from poller import" in installs.readme_example((REPOSITORY / "README.md").read_text())


@pytest.mark.soak
def test_wheel_and_source_archive_may_be_released(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report()
    check(REPOSITORY, tmp_path, report, quick=True)
    printed = capsys.readouterr().out
    assert not report.failed, printed
    assert f"poller-{project()['version']}.tar.gz" in printed
