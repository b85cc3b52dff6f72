"""docs/security.md: the roles that it lists are enough, and its image is what it says."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from poller.config import load_config
from poller.databases.tokens import chosen
from poller.sources import SqlSource
from poller.stores import SqlStore, open_store
from tests.cli.project import Project
from tests.integration.sources.tables import execute, make_orders
from tests.repo.docs.blocks import ROOT, blocks

STAMPS = ["2026-01-01 00:00:00", "2026-01-01 00:00:01"]
PAGE = "docs/security.md"


def configured(project: Project, source: str, state: str) -> None:
    project.environ |= {"SOURCE_URL": source, "STATE_URL": state}
    project.write(
        """app_name = "shop"
[state]
store = "sql"
url = "%STATE_URL%"
[pollers.orders]
handler = "handlers:handle"
[pollers.orders.source]
url = "%SOURCE_URL%"
table = "orders"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
""",
        "def handle(batch): pass\n",
    )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder)


@pytest.fixture
def users(any_server_db: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The database, and the page's roles under names of this test's own."""
    own = {name: f"{name}_{uuid.uuid4().hex[:8]}" for name in ("poller_source", "poller_state")}
    yield any_server_db, own
    postgres = any_server_db.startswith("postgresql")
    for name in own.values():
        execute(any_server_db, *([f"drop owned by {name}", f"drop role {name}"] if postgres else [f"drop user {name}"]))


@pytest.fixture(params=["postgres_db", "mariadb_db"])
def any_server_db(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.mark.guarantee(
    "Who may see and do what",
    "The roles of [security.md](../security.md) are enough, and the source is only read",
)
def test_the_pages_roles_suffice_and_the_source_is_only_read(
    project: Project, users: tuple[str, dict[str, str]]
) -> None:
    database, names = users
    make_orders(database, STAMPS)
    configured(project, database, database)
    assert project.run("run", "--once").code == 0, "the owner makes the tables of the state"
    sql = blocks(PAGE, "sql")[0 if database.startswith("postgresql") else 1].text
    for name, own in names.items():
        sql = re.sub(rf"\b{name}\b", own, sql)
    name = str(sa.make_url(database).database)
    execute(database, *(line.rstrip(";").replace("shop.", f"{name}.") for line in sql.splitlines()))

    as_user = {
        role: sa.make_url(database).set(username=own, password=None).render_as_string(hide_password=False)
        for role, own in names.items()
    }
    configured(project, as_user["poller_source"], as_user["poller_state"])
    execute(database, "insert into orders values (90, '2026-01-02 00:00:00', 'open', 1)")
    ran = project.run("run", "--once", "--json")
    assert (ran.code, ran.events[-1]["rows"]) == (0, 1), ran.err
    (poller,) = project.run("check", "--json").json["pollers"]
    found = {one["check"]: one for one in poller["findings"] if one["check"] in ("privileges", "bound", "storage")}
    assert {name: one["severity"] for name, one in found.items()} == dict.fromkeys(found, "ok"), found
    assert {"privileges", "storage"} <= found.keys()
    with closing(SqlStore(as_user["poller_state"])) as store:
        record = f"quarantine/shop/orders/{16 * 'a'}.json"
        store.remove(record, if_tag=store.write(record, b"{}", if_tag=None).tag)
    assert project.run("pause", "orders", "--yes").code == 0
    assert project.run("reset-to-beginning", "orders", "--yes").code == 0
    with pytest.raises(sa.exc.DBAPIError, match=r"(?i)denied|read-only"):
        execute(as_user["poller_source"], "delete from orders")


def test_the_identities_as_shown_may_be_sent_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILL_DB__clientId", "11111111-2222-3333-4444-555555555555")
    (tmp_path / "poller.toml").write_text(blocks(PAGE, "toml")[0].text)
    config = load_config(tmp_path / "poller.toml", {})
    with closing(open_store(config.state, {})) as store:
        assert isinstance(store, SqlStore)
        assert "identity" in {one.check for one in store.checkup("x")}
    orders = config.pollers["orders"]
    SqlSource.from_config(orders, "orders").close()
    assert "client id 11111111-2222" in str(chosen(orders.source.identity, os.environ, key="identity"))


def test_the_image_runs_as_a_number_and_installs_by_hash() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    (user,) = [line for line in lines if line.startswith("USER ")]
    number = re.fullmatch(r"USER (\d+):(\d+)", user)
    assert number is not None
    assert int(number[1]) > 0
    assert f"runs as the user {number[1]}" in (ROOT / PAGE).read_text()
    installs = [line for line in lines if "pip install" in line]
    assert ["--require-hashes" in line or "--no-deps --no-build-isolation ." in line for line in installs] == [
        True,
        True,
    ]
    assert "!requirements-hashes.txt" in (ROOT / ".dockerignore").read_text().splitlines()


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_the_image_installs_what_is_deployed_each_by_its_hash() -> None:
    (base,) = re.findall(r"^ARG BASE=python:([\d.]+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    text = (ROOT / "requirements-hashes.txt").read_text()
    pinned = re.findall(
        r"^([\w.-]+)==([\w.]+)[^\\\n]*\\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)*)", text, re.MULTILINE
    )
    hashed = {name: (version, lines.count("--hash=")) for name, version, lines in pinned}
    assert len(hashed) == len(re.findall(r"^[\w.-]+==", text, re.MULTILINE))
    deployed = {}
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        pin = re.match(r'([\w.-]+)==([\w.]+)(?: *; *python_version (<|>=) "(\d+\.\d+)")?', line)
        assert pin is not None
        if pin[3] is None or (pin[3] == ">=") is (number(base) >= number(pin[4])):
            deployed[pin[1]] = pin[2]
    assert {name: hashed[name][0] for name in deployed} == deployed
    assert "hatchling" in hashed
    assert all(count > 0 for _, count in hashed.values())
    assert "://" not in text


def test_a_poller_writes_nothing_beside_its_configuration(project: Project, tmp_path: Path) -> None:
    """With state elsewhere, as the page's read-only container has it; only what Python compiles is left out."""
    project.configure("orders")
    project.insert(3)
    config = project.folder / "poller.toml"
    state = tmp_path / "state"
    state.mkdir()
    config.write_text(config.read_text().replace('store = "sql"', f'store = "sql"\nurl = "sqlite:///{state}/s.db"'))
    project.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    before = {path.name for path in project.folder.iterdir()}
    assert project.run("run", "--once").code == 0
    assert project.run("check", "--json").code in (0, 1)
    assert {path.name for path in project.folder.iterdir()} == before


def test_the_page_and_the_policy_are_found_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "(docs/security.md)" in readme
    assert "(SECURITY.md)" in readme
