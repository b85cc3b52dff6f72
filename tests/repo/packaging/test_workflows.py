"""The workflows of .github/: what they start exists, and nothing that may change under them is trusted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.services import REPOSITORY

FOLDER = REPOSITORY / ".github"
WORKFLOWS = sorted((FOLDER / "workflows").glob("*.yml"))


def loaded(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_its_commit(path: Path) -> None:
    used = re.findall(r"uses: (.+)", path.read_text())
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


def test_an_action_has_one_pin() -> None:
    pins = {pin for path in WORKFLOWS for pin in re.findall(r"uses: (\S+@\S+)", path.read_text())}
    assert len({pin.partition("@")[0] for pin in pins}) == len(pins)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_has_only_the_rights_that_it_names(path: Path) -> None:
    workflow = loaded(path)
    assert workflow["permissions"] == {}
    assert all(job["permissions"] and job["timeout-minutes"] for job in workflow["jobs"].values())


def test_only_what_publishes_may_write() -> None:
    rights = {
        name: {right for right, level in job["permissions"].items() if level == "write"}
        for path in WORKFLOWS
        for name, job in loaded(path)["jobs"].items()
    }
    assert {name: found for name, found in rights.items() if found} == {
        "pypi": {"id-token", "attestations"},
        "image": {"id-token", "attestations", "packages"},
    }


def test_a_release_is_checked_before_it_is_published() -> None:
    jobs = loaded(FOLDER / "workflows" / "release.yml")["jobs"]
    assert (jobs["pypi"]["needs"], jobs["image"]["needs"]) == ("build", "pypi")
    assert jobs["pypi"]["environment"] == "pypi"
    commands = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert "make check" in commands
    assert any(one.startswith("make release-check ") and "--tag" in one for one in commands)


def test_what_workflows_start_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(path.read_text() for path in WORKFLOWS)
    named = set(re.findall(r"run: make ([a-z-]+)", text))
    assert named
    assert named <= targets
    assert "run: bash .ci/run" in text
    (base,) = re.findall(r"sed -n '(.+?)' Dockerfile", text)
    printed = subprocess.run(["sed", "-n", base, "Dockerfile"], cwd=REPOSITORY, capture_output=True, text=True)
    assert re.fullmatch(r"python:[\w.-]+\n", printed.stdout)


def test_a_right_that_is_given_away_is_seen_by_the_linter(tmp_path: Path) -> None:
    zizmor = Path(sys.executable).with_name("zizmor")
    file = tmp_path / "ci.yml"
    text = (FOLDER / "workflows" / "ci.yml").read_text()
    for content, code in ((text, 0), (text.replace("persist-credentials: false", "lfs: true"), 1)):
        file.write_text(content)
        done = subprocess.run([zizmor, "--offline", "--quiet", file], capture_output=True, text=True)
        assert (done.returncode != 0) is bool(code), done.stdout


@pytest.mark.parametrize("path", sorted((FOLDER / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem)
def test_a_form_for_issues_has_what_the_host_wants(path: Path) -> None:
    form = loaded(path)
    assert {"name", "description", "body"} <= form.keys()
    fields = [one for one in form["body"] if one["type"] != "markdown"]
    assert len({one["id"] for one in fields}) == len(fields)
    assert all(one["attributes"]["label"] for one in fields)
    assert {one["type"] for one in form["body"]} <= {"markdown", "input", "textarea"}
