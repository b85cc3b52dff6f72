"""docs/containers.md names files, parameters and settings that are there; to run it would change a cloud."""

from __future__ import annotations

import json
import re

from tests.repo.deploy.bicep import Template
from tests.repo.docs.blocks import ROOT, blocks
from tests.repo.packaging.repository import project

PAGE = "docs/containers.md"
TEXT = (ROOT / PAGE).read_text()
DEPLOY = ROOT / "deploy"
FOLDERS = {"azure", "container-apps", "kubernetes", "systemd"}
"""Of the page; dashboards and alerts are those of docs/health.md."""
_PROBE, AZD, CONTAINER_APPS, KUBERNETES, SYSTEMD, IMAGE = (one.text for one in blocks(PAGE, "sh"))


def test_every_file_has_a_row_that_says_how_it_was_checked() -> None:
    (section,) = re.findall(r"^### What was checked.*", TEXT, re.MULTILINE | re.DOTALL)
    rows = " ".join(re.findall(r"^\| (`.*?|the manifests.*?) \|", section, re.MULTILINE))
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and "__pycache__" not in path.parts]

    def named(path: str, name: str, suffix: str) -> bool:
        folders = [folder for folder in ("kubernetes/base", "systemd") if f"`deploy/{folder}`" in rows]
        return name in rows or f"`*{suffix}`" in rows or path.startswith(tuple(folders))

    missing = [
        path
        for file in files
        if not named(path := str(file.relative_to(DEPLOY)), file.name, file.suffix)
        and not path.startswith(("extras/", "kubernetes/keda/kustomization"))
        and path.split("/", maxsplit=1)[0] in FOLDERS
    ]
    assert missing == []


def test_the_parameters_are_those_of_the_template() -> None:
    template = Template(DEPLOY / "azure/infra/main.bicep")
    defaults = dict(re.findall(r"^param (\w+) \w+ = (.*)$", template.text, re.MULTILINE))
    (table,) = re.findall(r"^\| parameter \|.*?(?=\n\n)", TEXT, re.MULTILINE | re.DOTALL)
    rows = [line.split("|")[1:3] for line in table.splitlines()[2:]]
    shown: dict[str, str] = {}
    for names, values in rows:
        found, given = re.findall(r"`(\w+)`", names), [one.strip(" `") for one in values.split(",")]
        shown |= dict(zip(found, given if len(given) == len(found) else given * len(found), strict=True))

    assert shown == {name: value.strip("'") or "none" for name, value in defaults.items() if name != "appSettings"}


def test_the_session_with_azd_sets_what_the_template_reads() -> None:
    parameters = (DEPLOY / "azure/infra/main.parameters.json").read_text()
    source, target = re.findall(r"^cp -r (\S+) (\S+)", AZD, re.MULTILINE)[0]
    names = re.findall(r"^azd env set (\w+)", AZD, re.MULTILINE)

    assert (ROOT / source / "azure.yaml").is_file()
    assert f"cd {target.rstrip('/')}\n" in AZD
    assert names
    assert [name for name in names if f"${{{name}" not in parameters] == []


def test_the_deployment_of_container_apps_names_its_parameters() -> None:
    (path,) = re.findall(r"--template-file (\S+)", CONTAINER_APPS)
    given = dict(re.findall(r"(\w+)='?(\[.*\]|[^\s']+)", CONTAINER_APPS.partition("--parameters")[2]))
    template = Template(ROOT / path)

    assert {name for name, needed in template.params.items() if needed} <= given.keys() <= template.params.keys()
    (secret,) = json.loads(given["secrets"])
    assert [name for name in secret if f"one.{name}" not in template.text] == []
    (derived,) = blocks(PAGE, "dockerfile")
    assert derived.text.startswith("FROM poller\n"), "the tag of the image that the page builds"
    assert "WORKDIR /app\n" in (ROOT / "Dockerfile").read_text()


def test_the_session_with_kubectl_makes_the_secret_that_pods_read() -> None:
    workload = (DEPLOY / "kubernetes/base/workload.yaml").read_text()
    (name,) = re.findall(r"create secret generic (\S+)", KUBERNETES)

    read = set(re.findall(r"secretKeyRef:\s+name: (\S+)\s+key: (\S+)", workload))

    assert read == {(name, key) for key in re.findall(r"--from-literal=(\w+)=", KUBERNETES)}
    folders = re.findall(r"--kustomize (\S+)", KUBERNETES)
    assert [folder for folder in folders if not (ROOT / folder / "kustomization.yaml").is_file()] == []
    spaces = {
        re.findall(r"^namespace: (\S+)", (ROOT / one / "kustomization.yaml").read_text(), re.MULTILINE)[0]
        for one in folders
    }
    assert spaces == {*re.findall(r"create namespace (\S+)", KUBERNETES)}


def test_the_session_with_systemd_installs_what_the_unit_names() -> None:
    unit = (DEPLOY / "systemd/poller.service").read_text()
    started = re.findall(r"(\S+\.(?:service|timer))", SYSTEMD)

    assert [name for name in started if not (DEPLOY / "systemd" / name).is_file()] == []
    assert "ExecStart=/opt/poller/bin/poller " in unit
    assert "-m venv /opt/poller " in SYSTEMD
    assert "WorkingDirectory=/etc/poller\n" in unit
    assert "EnvironmentFile=-/etc/poller/environment\n" in unit
    assert "-m 0600 environment /etc/poller/environment" in SYSTEMD


def test_the_extras_shown_are_the_packages() -> None:
    (shown,) = re.findall(r"EXTRAS=(\S+)", IMAGE)

    assert set(shown.split(",")) <= project()["optional-dependencies"].keys()
    assert 'ARG EXTRAS=""' in (ROOT / "Dockerfile").read_text()


def test_the_versions_and_the_exposure_are_those_of_the_tests() -> None:
    manifests = (ROOT / "tests/repo/deploy/test_kubernetes.py").read_text()
    scripts = (ROOT / "tests/repo/deploy/test_scripts.py").read_text()
    (versions,) = re.findall(r"^VERSIONS = (\[.*\])$", manifests, re.MULTILINE)
    (threshold,) = re.findall(r"--threshold=(\d+)", scripts)

    first, second, third = json.loads(versions)
    assert f"Kubernetes {first}, {second} and {third}" in TEXT
    assert f"exposure at most {int(threshold) / 10}" in TEXT
