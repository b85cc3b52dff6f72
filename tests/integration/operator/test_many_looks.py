"""`status` and `check` of many pollers of one database and one container: what is asked once, and what of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from poller import App, load_app
from tests.support.azurite import Azurite

NAMES = [f"t{number}" for number in range(8)]
CATALOG = 9
"""Statements about one table and its rows: those of a look, without what is true of the whole server."""


@pytest.fixture
def app(tmp_path: Path, azurite: Azurite, container: str, postgres_db: str) -> Iterator[App]:
    url = make_url(postgres_db)
    with psycopg.connect(host=url.host, port=url.port, user=url.username, dbname=url.database) as connection:
        for name in NAMES:
            columns = "id bigint PRIMARY KEY, updated_at timestamptz NOT NULL DEFAULT now()"
            connection.execute(f"CREATE TABLE {name} ({columns})".encode())
            connection.execute(f"INSERT INTO {name} SELECT generate_series(1, 3)".encode())
            connection.execute(f"CREATE INDEX ON {name} (updated_at, id)".encode())
    source = {"url": postgres_db, "cursor_column": "updated_at", "pk_columns": ["id"]}
    lines = ['app_name = "many"', "[state]", f'container = "{container}"', 'connection = "STORE"']
    lines += ["[templates.all.source]", *(f"{key} = {value!r}" for key, value in source.items())]
    for name in NAMES:
        lines += [f"[pollers.{name}]", 'template = "all"', f'source.table = "{name}"']
    path = tmp_path / "poller.toml"
    path.write_text("\n".join(lines))
    with load_app(path, {"STORE": azurite.connection_string}, observers=()) as made:
        for poller in made.pollers.values():
            poller.tick(lambda batch: None)
            poller.source.close()
        yield made


@pytest.fixture
def asked(app: App) -> Iterator[list[str]]:
    """Every statement that is run from here on."""
    seen: list[str] = []

    def note(*call: Any) -> None:
        seen.append(" ".join(call[2].split()))

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    yield seen
    sa.event.remove(sa.Engine, "before_cursor_execute", note)


def requests(azurite: Azurite, container: str, work: Callable[[], object]) -> list[str]:
    before = len(azurite.requests())
    work()
    return [f"{one.method} {one.path}" for one in azurite.requests()[before:]]


@pytest.mark.guarantee(
    "Who may see and do what",
    "`status` and `check` of many pollers ask what is true of a server or a container once, and one database that "
    "hangs holds up no other",
)
def test_a_check_asks_the_container_once(app: App, azurite: Azurite, container: str) -> None:
    seen = requests(azurite, container, app.check)
    documents = [one for one in seen if one.startswith("GET") and "/state/many/" in one]
    assert sorted(documents) == sorted(f"GET /{container}/state/many/{name}.json" for name in NAMES)
    assert len(seen) - len(documents) == 9, seen


def test_a_container_that_may_not_be_listed_is_said_of_each(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    from poller.errors import StoreDenied

    def refuse(name: str) -> Any:
        raise StoreDenied(f"{name} may not be listed.")

    monkeypatch.setattr(app.store._container, "list", refuse)  # type: ignore[attr-defined]  # a real one permits it
    for one in app.check():
        (found,) = [finding for finding in one.findings if finding.check == "listing"]
        assert f"/{one.name}." in found.message


def test_a_status_asks_the_server_once(app: App, asked: list[str]) -> None:
    assert [one.error for one in app.status().pollers] == [None] * len(NAMES)
    assert (
        len(asked) <= len(NAMES) * CATALOG + 40
    )  # the sessions' own, and samples, which are shared while they are new


def test_a_check_asks_the_server_once_and_each_table_once(app: App, asked: list[str]) -> None:
    app.check()
    for of_server in ("version()", "max_connections", "rolsuper FROM pg_roles", "SELECT gid, owner"):
        assert len([sql for sql in asked if of_server in sql.partition(" from ")[0]]) == 1, of_server
    clocks = [sql for sql in asked if sql.startswith("SELECT to_char(statement_timestamp()")]
    assert len(clocks) == 1
    for of_table in (
        "with recursive behind",
        "n.nspname as schema",
        "bool_or(m.firm) as firm",
    ):
        assert len([sql for sql in asked if of_table in sql]) == len(NAMES), of_table


def test_a_second_command_asks_anew(app: App, postgres_db: str) -> None:
    assert {finding.check for finding in app.check()[0].findings if finding.severity == "error"} == set()
    url = make_url(postgres_db)
    with psycopg.connect(host=url.host, port=url.port, user=url.username, dbname=url.database) as connection:
        connection.execute("ALTER TABLE t0 DROP CONSTRAINT t0_pkey")
    assert {finding.check for finding in app.check()[0].findings if finding.severity == "error"} >= {"key"}


def test_one_pollers_trouble_hides_no_other(app: App, postgres_db: str) -> None:
    url = make_url(postgres_db)
    with psycopg.connect(host=url.host, port=url.port, user=url.username, dbname=url.database) as connection:
        connection.execute("DROP TABLE t3")
    looked = app.status().pollers
    assert [one.name for one in looked] == NAMES
    assert [one.name for one in looked if one.error] == ["t3"]
    assert [one.name for one in app.check() if any(f.severity == "error" for f in one.findings)] == ["t3"]
