"""`poller init`: what it writes runs, holds no password, and overwrites nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pexpect
import pytest
import sqlalchemy as sa

from tests.cli.project import COMMAND, Project
from tests.integration.sources.tables import execute, make_orders
from tests.support.schemas import validator

STAMPS = [f"2026-01-01 00:00:0{i}" for i in range(5)]


def followed(project: Project, name: str = "orders") -> None:
    """The two commands that init names do what they say."""
    checked = project.run("check", name, "--json")
    assert checked.code == 0, checked.out
    ran = project.run("run", name, "--once", "--json")
    assert ran.code == 0, ran.err
    assert ran.events[-1]["rows"] == len(STAMPS)


def test_one_line_makes_a_poller_that_runs_on_each_database(project: Project, any_db: str) -> None:
    make_orders(any_db, STAMPS)
    ended = project.run("init", "--url", any_db, "--table", "orders", "--app", "shop", "--yes", "--json")
    assert ended.code == 0, ended.err
    validator("init").validate(ended.json)
    assert (ended.json["cursor_column"], ended.json["pk_columns"]) == ("updated_at", ["id"])
    assert ended.json["next"] == ["poller check orders", "poller run orders --once"]
    if ended.json["setting"] is not None:
        assert ended.json["setting"] == f"{sa.make_url(any_db).database}_DB_URL".upper(), "after the database"
        project.environ[ended.json["setting"]] = any_db
    followed(project)


def test_the_password_reaches_no_file_and_no_output(project: Project, postgres_db: str) -> None:
    make_orders(postgres_db, STAMPS)
    url = sa.make_url(postgres_db).set(password="geheim-7").render_as_string(hide_password=False)
    ended = project.run("init", "--url", url, "--yes", "--name", "sales")
    assert ended.code == 0, ended.err
    written = "".join(path.read_text() for path in project.folder.iterdir() if path.suffix in {".toml", ".py"})
    assert "geheim-7" not in written + ended.out + ended.err
    setting = f"{sa.make_url(url).database}_DB_URL".upper()
    assert f'url = "%{setting}%"' in written
    assert f"First set {setting} to the database's URL: it holds a secret" in ended.out
    assert "poller check sales" in ended.out
    project.environ[setting] = url
    followed(project, "sales")


def test_the_missing_index_is_proposed_with_its_statement(project: Project, postgres_db: str) -> None:
    execute(
        postgres_db,
        "create table events (a int not null, b int not null, created timestamptz not null, modified timestamptz"
        " not null, primary key (a, b))",
    )
    ended = project.run("init", "--url", postgres_db, "--yes", "--json")
    assert (ended.json["cursor_column"], ended.json["pk_columns"]) == ("modified", ["a", "b"])
    (statement,) = [f["fix"] for f in ended.json["findings"] if f["check"] == "index"]
    assert statement == "CREATE INDEX events_modified_a_b ON events (modified, a, b);"


@pytest.fixture
def in_new_york(postgres_db: str) -> str:
    """A database whose sessions are in another zone than UTC, and a table that they stamp."""
    execute(
        postgres_db,
        "create table orders (id int primary key, updated_at timestamp not null default now())",
        "create index on orders (updated_at, id)",
        "insert into orders values (1, '2026-01-01')",
        f"alter database {sa.make_url(postgres_db).database} set timezone = 'America/New_York'",
    )
    return postgres_db


def test_the_zone_in_which_the_database_stamps_is_written(project: Project, in_new_york: str) -> None:
    ended = project.run("init", "--url", in_new_york, "--yes", "--json")
    assert (ended.code, ended.json["cursor_time_zone"]) == (0, "America/New_York")
    project.environ[ended.json["setting"]] = in_new_york
    assert project.run("run", "orders", "--once", "--json").events[-1]["rows"] == 1
    wrong = project.run("init", "--url", in_new_york, "--time-zone", "UTC", "--yes", "--force", "--json")
    assert wrong.code == 1
    assert [f["check"] for f in wrong.json["findings"] if f["severity"] == "error"] == ["time_zone"]
    refused = project.run("run", "orders", "--once")
    assert "America/New_York" in refused.err
    assert "stamped_by" in refused.err


def test_on_a_terminal_the_databases_zone_is_proposed(project: Project, in_new_york: str) -> None:
    asked = pexpect.spawn(
        sys.executable,
        [*COMMAND[1:], "init", "--url", in_new_york, "--cursor", "updated_at", "--pk", "id"],
        cwd=str(project.folder),
        env=os.environ | {"NO_COLOR": "1", "COLUMNS": "200"},
        encoding="utf-8",
        timeout=60,
    )
    for question in ("Table", r"Time zone .*America/New_York\]", "Application", "Poller", "sql, blob"):
        asked.expect(question)
        asked.sendline("")
    asked.expect(pexpect.EOF)
    asked.close()
    assert 'cursor_time_zone = "America/New_York"' in (project.folder / "poller.toml").read_text()


def test_a_table_without_timestamps_is_followed_by_its_number(project: Project, postgres_db: str) -> None:
    execute(
        postgres_db, "create table log (id bigserial primary key, line text)", "insert into log (line) values ('x')"
    )
    ended = project.run("init", "--url", postgres_db, "--yes", "--json")
    assert (ended.json["cursor_column"], ended.json["cursor_kind"]) == ("id", "integer+pk")


def test_nothing_is_overwritten_unless_forced(project: Project, sqlite_url: str) -> None:
    make_orders(sqlite_url, STAMPS)
    (project.folder / "handlers.py").write_text("mine = True\n")
    ended = project.run("init", "--url", sqlite_url, "--yes")
    assert ended.code == 3
    assert "handlers.py" in ended.error
    assert (project.folder / "handlers.py").read_text() == "mine = True\n"
    assert not (project.folder / "poller.toml").exists()
    assert project.run("init", "--url", sqlite_url, "--yes", "--force").code == 0
    followed(project)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--url is missing"),
        (["--url", "nonsense"], "no SQLAlchemy URL"),
        (["--url", "%NOT_SET_ANYWHERE%"], "NOT_SET_ANYWHERE"),
        (["--url", "URL"], "--table is missing"),
        (["--url", "URL", "--table", "ordres"], "Did you mean 'orders'?"),
        (["--url", "URL", "--table", "orders", "--cursor", "update_at"], "Did you mean 'updated_at'?"),
        (["--url", "URL", "--table", "orders", "--pk", "idd"], "Did you mean 'id'?"),
        (["--url", "URL", "--table", "orders", "--name", "Orders!"], "is an invalid name"),
        (["--url", "URL", "--table", "orders", "--state", "floppy"], "--state"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    project: Project, sqlite_url: str, arguments: list[str], told: str
) -> None:
    make_orders(sqlite_url, STAMPS)
    execute(sqlite_url, "create table customers (id integer not null primary key)")
    ended = project.run("init", "--yes", *[sqlite_url if part == "URL" else part for part in arguments])
    assert ended.code in (1, 2)
    assert told in ended.error
    assert list(project.folder.glob("*.toml")) == []


def test_on_a_terminal_it_asks_and_proposes(project: Project, sqlite_url: str) -> None:
    make_orders(sqlite_url, STAMPS)
    execute(sqlite_url, "create table customers (id integer not null primary key)")
    environ = {k: v for k, v in os.environ.items() if k != "AzureWebJobsStorage"} | {"NO_COLOR": "1", "COLUMNS": "200"}
    asked = pexpect.spawn(
        sys.executable, [*COMMAND[1:], "init"], cwd=str(project.folder), env=environ, encoding="utf-8", timeout=60
    )
    asked.expect("Database URL")
    asked.sendline(sqlite_url)
    for question, answer in (
        ("Table:", "orders"),
        (r"every change \[updated_at\]:", ""),
        (r"never NULL\) \[id\]:", ""),
        (r"Application", "shop"),
        (r"Poller \[orders\]:", "sales"),
        (r"sql, blob\) \[sql\]:", ""),
    ):
        asked.expect(question)
        asked.sendline(answer)
    asked.expect("poller run sales --once")
    asked.expect(pexpect.EOF)
    asked.close()
    assert asked.exitstatus == 0
    assert "[pollers.sales]" in Path(project.folder / "poller.toml").read_text()
    followed(project, "sales")
