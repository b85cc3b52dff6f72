"""The Bicep of deploy/, read: no compiler and no subscription is at hand (docs/containers.md says so)."""

from __future__ import annotations

import ast
import json
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Literal

import pytest
from pathspec import GitIgnoreSpec

from poller.config import PollerConfig
from poller.entra import Identity
from poller.stores.azure import account
from tests.repo.deploy.bicep import Template
from tests.repo.deploy.files import DEPLOY, documents
from tests.support.services import REPOSITORY

TEMPLATES = [Template(path) for path in sorted(DEPLOY.rglob("*.bicep"))]
INFRA = DEPLOY / "azure" / "infra"
ROLES = {  # https://learn.microsoft.com/azure/role-based-access-control/built-in-roles
    "Storage Blob Data Owner": "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
    "Storage Blob Data Contributor": "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    "Storage Blob Data Reader": "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1",
    "Storage Queue Data Contributor": "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
    "Storage Table Data Contributor": "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3",
    "Monitoring Metrics Publisher": "3913510d-42f4-4e42-8a64-420c390055eb",
    "Key Vault Secrets User": "4633458b-17de-408a-b874-0445c86b69e6",
}
GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

each = pytest.mark.parametrize("template", TEMPLATES, ids=lambda one: f"{one.path.parent.parent.name}-{one.path.stem}")


@each
def test_brackets_close_and_nothing_is_declared_for_nothing(template: Template) -> None:
    assert template.unbalanced() is None
    used = re.findall(r"\b\w+\b", template.code)
    assert [name for name in {*template.params, *template.variables} if used.count(name) < 2] == []


def test_a_bracket_too_few_is_noticed(tmp_path: Path) -> None:
    broken = tmp_path / "broken.bicep"
    broken.write_text("var a = {\n  b: '}'  // }\n")

    assert Template(broken).unbalanced() == "never closed: ['}']"


@each
def test_modules_are_files_here_and_get_what_they_need(template: Template) -> None:
    for name, (path, given) in template.modules.items():
        assert path.resolve().is_relative_to(DEPLOY), name
        params = Template(path).params
        assert given <= params.keys(), name
        assert {one for one, needed in params.items() if needed} <= given, name
        read = set(re.findall(rf"\b{name}!?\.outputs\.(\w+)", template.text))
        assert read <= Template(path).outputs.keys(), name


@each
def test_interfaces_are_named_by_their_day(template: Template) -> None:
    for _, kind, version in template.resources:
        found = re.fullmatch(r"(\d{4}-\d\d-\d\d)(-preview)?", version)
        assert found is not None, kind
        assert date(2019, 1, 1) < date.fromisoformat(found[1]), kind


@each
def test_no_template_reads_or_gives_away_a_key(template: Template) -> None:
    assert (
        re.findall(r"(?i)\blist(?:Account)?(?:Keys|Sas|Secrets)?\(|accountKey=|sharedKey\b|password\s*:", template.text)
        == []
    )
    for name, value in template.outputs.items():
        assert re.search(r"(?i)secret|password|token|connectionstring|instrumentation|key\b", f"{name} {value}") is None
        assert not template.secure & set(re.findall(r"\w+", value))


def test_the_account_takes_no_key_and_shows_nothing_to_all() -> None:
    accounts = [
        text for one in TEMPLATES for text in re.findall(r"storageAccounts@.*?^\}", one.text, re.MULTILINE | re.DOTALL)
    ]

    (text,) = accounts
    assert "allowSharedKeyAccess: false\n" in text
    assert "allowBlobPublicAccess: false\n" in text
    assert "minimumTlsVersion: 'TLS1_2'\n" in text
    assert "supportsHttpsTrafficOnly: true\n" in text
    assert set(re.findall(r"publicAccess: '(\w+)'", (INFRA / "state.bicep").read_text())) == {"None"}


@each
def test_each_role_is_the_one_that_its_line_names(template: Template) -> None:
    lines = [line for line in template.text.splitlines() if GUID.search(line)]
    named = [re.search(r"'([0-9a-f-]{36})' // (.*)$", line) for line in lines]

    assert all(named), lines
    assert all(ROLES.get(found[2]) == found[1] for found in named if found)


def test_the_roles_given_are_those_that_the_page_lists() -> None:
    page = (REPOSITORY / "docs/containers.md").read_text()
    given = {name for one in TEMPLATES for name in ROLES if f"// {name}" in one.text}

    assert given == ROLES.keys()
    assert [name for name in given if f"*{name}*" not in page] == []


def settings(template: Path, given: dict[str, str]) -> dict[str, str]:
    """The settings of the name `AzureWebJobsStorage` in a template, with these values for its expressions."""
    found = re.findall(r"^\s+(AzureWebJobsStorage__\w+): (.*)$", template.read_text(), re.MULTILINE)
    return {
        name: ast.literal_eval(value) if value.startswith("'") else given[value.split(".")[-1]] for name, value in found
    }


@pytest.mark.parametrize(
    ("template", "services"),
    [("azure/infra/functions.bicep", ["blob", "queue", "table"]), ("container-apps/main.bicep", ["blob", "table"])],
    ids=["functions", "container-apps"],
)
@pytest.mark.parametrize("service", ["blob", "table"])
def test_the_settings_are_those_that_poller_reads(
    template: str, services: list[str], service: Literal["blob", "table"]
) -> None:
    urls = {one: f"https://shop.{one}.core.windows.net/" for one in ("blob", "queue", "table")}
    given = {f"{one}Endpoint": url for one, url in urls.items()} | {"identityClientId": "an-id"}

    found = account.from_environment("AzureWebJobsStorage", settings(DEPLOY / template, given), service=service)

    assert isinstance(found, account.AccountIdentity)
    assert found.who == Identity("an-id", "managedidentity")
    assert dict(found.urls) == {one: urls[one] for one in services}


@pytest.mark.parametrize("template", ["azure/infra/functions.bicep", "container-apps/main.bicep"])
def test_databases_are_signed_into_by_the_same_identity(template: str) -> None:
    """With `identity = true`: an app that has a user-assigned identity alone must say which."""
    found = dict(re.findall(r"^ +(\w+): (\S+)", (DEPLOY / template).read_text(), re.MULTILINE))

    assert found["AZURE_CLIENT_ID"] == found["AzureWebJobsStorage__clientId"]


@pytest.mark.parametrize("service", ["Queues", "Tables"])
def test_operators_may_check_what_the_app_uses(service: str) -> None:
    """`poller check` after a deployment looks at the queue too, and an error that it finds ends `azd up`."""
    text = (INFRA / "state.bicep").read_text()
    given = {
        who: (condition, re.findall(r"roles\.\w+", body))
        for who, condition, body in re.findall(
            rf"^resource (\w+)Writes?{service} [^\n]* = if \(([^\n]*)\) \{{\n(.*?)^\}}", text, re.MULTILINE | re.DOTALL
        )
    }

    (condition, roles) = given["app"]
    assert given["operators"] == (f"{condition} && !empty(operatorsGroupId)", roles)


def test_what_is_deleted_by_age_is_never_state_or_history() -> None:
    state = (INFRA / "state.bicep").read_text()

    prefixes = re.findall(r"\{ prefix: '(\w+)', days: (\w+) \}", state)

    assert prefixes == [("backups", "backupDays"), ("quarantine", "quarantineDays"), ("seen", "seenDays")]
    assert "prefixMatch: ['${stateContainer}/${one.prefix}/']" in state
    assert "param quarantineDays int = 0" in state, (
        "a row that waits for a person is not deleted unless somebody says so"
    )


def test_who_looks_does_not_see_rows_that_failed() -> None:
    state = (INFRA / "state.bicep").read_text()
    (condition,) = re.findall(r"^var notQuarantine = '(.*)'$", state, re.MULTILINE)
    (assignment,) = re.findall(r"^resource lookersReadState .*?^\}", state, re.MULTILINE | re.DOTALL)

    assert "blobs:path] StringNotLike \\'quarantine/*\\'" in condition
    assert condition.count("(") == condition.count(")")
    assert "condition: notQuarantine" in assignment
    assert "conditionVersion: '2.0'" in assignment


def test_the_parameters_file_gives_what_the_template_takes() -> None:
    template = Template(INFRA / "main.bicep")
    given = json.loads((INFRA / "main.parameters.json").read_text())["parameters"]

    assert given.keys() <= template.params.keys()
    assert {name for name, needed in template.params.items() if needed} <= given.keys()
    assert given["mode"]["value"] == "${POLLER_MODE=timer}"
    example = (REPOSITORY / "examples/functions/poller.toml").read_text()
    assert set(given["appSettings"]["value"]) == set(re.findall(r"%([A-Z_]+)%", example))
    assert "://" not in str(given), "no address of a database, which would hold its password"


def test_the_project_of_azd_names_files_that_are_there() -> None:
    (project,) = documents((DEPLOY / "azure/azure.yaml").read_text())
    hooks = project["hooks"]["postdeploy"]
    (service,) = project["services"]

    assert (DEPLOY / "azure" / project["infra"]["path"] / f"{project['infra']['module']}.bicep").is_file()
    assert all((DEPLOY / "azure" / one["run"]).is_file() for one in hooks.values())
    assert f"'azd-service-name': '{service}'" in (INFRA / "functions.bicep").read_text()
    assert project["services"][service] == {"project": ".", "language": "python", "host": "function"}


@pytest.mark.parametrize("folder", ["", "examples/functions/"], ids=["root", "example"])
@pytest.mark.parametrize("path", ["azure.yaml", "infra/main.bicep", "hooks/check.sh", ".azure/dev/.env"])
def test_what_azd_adds_to_an_app_is_not_deployed(folder: str, path: str) -> None:
    assert GitIgnoreSpec.from_lines((REPOSITORY / folder / ".funcignore").read_text().splitlines()).match_file(path)


def test_a_container_has_the_time_to_finish_its_batch() -> None:
    (seconds,) = re.findall(r"terminationGracePeriodSeconds: (\d+)", (DEPLOY / "container-apps/main.bicep").read_text())

    assert timedelta(seconds=int(seconds)) >= PollerConfig.model_fields["tick_timeout"].get_default() + timedelta(
        seconds=15
    )
