"""The Dockerfile: what it installs for which extra, and how its health check looks. No engine is needed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.repo.deploy.files import DEPLOY, PROBE, call, documents, tool
from tests.repo.packaging.repository import pins, project
from tests.support.services import REPOSITORY, unavailable

DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()
ALWAYS = ["postgres", "mysql"]
HASHED = re.compile(r"([\w.-]+)==([\w.]+)((?: --hash=sha256:[0-9a-f]{64})+)\n")


def instructions(name: str) -> list[str]:
    """The arguments of each instruction of that name, lines joined."""
    return [
        line.removeprefix(f"{name} ").strip()
        for line in re.sub(r"\\\n", "", DOCKERFILE).splitlines()
        if line.startswith(f"{name} ")
    ]


def install(folder: Path, extras: str) -> list[str] | None:
    """The packages that the image's first `pip install` is given; None where that step fails."""
    (command,) = (one for one in instructions("RUN") if "requirements-hashes.txt" in one)
    shutil.copy(REPOSITORY / "requirements-hashes.txt", folder)
    shutil.copytree(DEPLOY / "extras", folder / "extras")
    (folder / "pip").write_text('#!/bin/sh\nfor last; do :; done\ncp "$last" given.txt\necho "$@" > arguments.txt\n')
    (folder / "pip").chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "EXTRAS": extras}
    if call(["sh", "-c", command], cwd=folder, env=environment).returncode != 0:
        return None
    assert "--require-hashes" in (folder / "arguments.txt").read_text().split()
    return re.findall(r"^([\w.-]+)==", (folder / "given.txt").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("extras", "added"),
    [
        ("", set()),
        ("speed", {"orjson"}),
        ("mssql,postgres,mysql,speed", {"pyodbc", "orjson"}),
        ("otel,prometheus", {"opentelemetry-sdk", "opentelemetry-exporter-prometheus"}),
    ],
    ids=["none", "one", "several", "overlapping"],
)
def test_an_image_has_the_drivers_that_its_argument_names(extras: str, added: set[str], tmp_path: Path) -> None:
    base = re.findall(r"^([\w.-]+)==", (REPOSITORY / "requirements-hashes.txt").read_text(), re.MULTILINE)

    given = install(tmp_path, extras)

    assert given is not None
    assert {"psycopg", "pymysql"} <= set(base)
    assert len(given) == len(set(given)), "pip refuses a package that is named twice"
    assert {*base, *added} <= set(given)
    assert (set(given) == {*base}) is (extras == "")


def test_an_unknown_extra_ends_the_build(tmp_path: Path) -> None:
    assert install(tmp_path, "oracel") is None


def test_each_extra_has_its_pins_and_hashes() -> None:
    """Those that every image has, and those of a file each, in the versions that the tests run with."""
    extras = project()["optional-dependencies"]
    files = {path.stem: path.read_text() for path in (DEPLOY / "extras").iterdir()}

    assert {*files, *ALWAYS} == {*extras}
    for name, text in files.items():
        found = HASHED.findall(text)
        assert "".join(HASHED.sub("", text)) == "", name
        assert {package: pins("requirements-dev.txt").get(package) for package, _, _ in found} == {
            package: version for package, version, _ in found
        }, "after `make pins`: python scripts/pins_extras.py"
        named = {re.split(r"[\[>=]", requirement)[0] for requirement in extras[name]}
        assert named <= {package for package, _, _ in found}


def test_what_is_copied_into_the_image_is_sent_to_the_engine() -> None:
    sent = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source for line in instructions("COPY") for source in line.split()[:-1]}

    assert copied == sent
    assert [name for name in copied if not (REPOSITORY / name).exists()] == []


def test_the_health_check_looks_at_the_file_that_is_touched() -> None:
    (check,), (command,) = instructions("HEALTHCHECK"), instructions("CMD")

    assert json.loads(check.partition("CMD ")[2]) == ["sh", "-c", PROBE]
    assert json.loads(command) == ["run", "--alive-file", "/tmp/poller-alive"]


def test_the_compose_file_leaves_command_and_check_to_the_image() -> None:
    (compose,) = documents((REPOSITORY / "docker-compose.yml").read_text())
    poller = compose["services"]["poller"]

    assert not {"command", "healthcheck", "entrypoint"} & poller.keys()
    assert poller["build"] == "."


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    hadolint = tool("hadolint")
    if hadolint is None:
        unavailable("hadolint is not installed: make venv")

    assert call([hadolint, "--no-color", str(REPOSITORY / "Dockerfile")]).stdout == ""
