"""`poller check` compares the pool with what the server takes, and knows who only reads."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa

from poller import Poller
from poller.config import load_config
from poller.model.finding import Finding
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.bounds.tables import make
from tests.integration.sources.tables import closing, execute, family, orders

LOGINS = {"postgresql": "create user {} password 'x'", "mysql": "create user '{}' identified by 'x'"}
READS = {
    "postgresql": ["grant select on stamped to {}", "grant pg_read_all_stats to {}"],
    "mysql": ["grant select on stamped to '{}'", "grant process on *.* to '{}'"],
}
WRITES = {"postgresql": "grant insert on stamped to {}", "mysql": "grant insert on stamped to '{}'"}
LIMITS = {"postgresql": "alter user {} connection limit 2", "mysql": "alter user '{}' with max_user_connections 2"}
ENDS = {"postgresql": ["drop owned by {}", "drop user {}"], "mysql": ["drop user '{}'"]}


class Reader:
    """A user that may read one table, and that table's database."""

    def __init__(self, url: str) -> None:
        self.family, self._url = family(url), url
        self.name = "reader_" + str(sa.make_url(url).database)[-12:]
        make(url)
        self.do(LOGINS[self.family], *READS[self.family])

    def do(self, *statements: str) -> None:
        execute(self._url, *(one.format(self.name) for one in statements))

    @property
    def url(self) -> sa.URL:
        return sa.make_url(self._url).set(username=self.name, password="x")

    def check(self, **options: Any) -> dict[str, Finding]:
        with closing(orders(self.url, table="stamped", bound="auto", **options)) as source:
            return {one.check: one for one in source.checkup(None, lambda: datetime.now(UTC)).findings}


def configure(folder: Path, reader: Reader, top: str) -> Path:
    """A `poller.toml` with these lines at its top, and one poller."""
    file = folder / "poller.toml"
    file.write_text(f"""
app_name = "shop"
{top}
[pollers.orders.source]
url = "{reader.url.render_as_string(hide_password=False)}"
table = "stamped"
cursor_column = "updated_at"
pk_columns = ["id"]
""")
    return file


@pytest.fixture(params=["postgres_db", "mariadb_db"])
def reader(request: pytest.FixtureRequest) -> Iterator[Reader]:
    made = Reader(request.getfixturevalue(request.param))
    yield made
    made.do(*ENDS[made.family])


def test_what_fits_is_said_with_the_number_of_processes(reader: Reader, tmp_path: Path) -> None:
    """In a process of its own: one counts all databases of the server that it has pools to."""
    configure(tmp_path, reader, 'connections = 3\nstate.store = "sql"')
    command = [sys.executable, "-m", "poller_cli.main", "check", "--json"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    findings = json.loads(ended.stdout)["pollers"][0]["findings"]
    (found,) = [one for one in findings if one["check"] == "connections"]
    assert found["severity"] == "ok"
    said = re.fullmatch(
        r"a process has at most 3 to this database, and the server takes (\d+) of this user, \d+ are in use by all:"
        r" (\d+) processes fit",
        found["message"],
    )
    assert said is not None, found["message"]
    assert int(said[2]) == int(said[1]) // 3


def test_a_pool_that_does_not_fit_is_warned_of(reader: Reader) -> None:
    reader.do(LIMITS[reader.family])
    found = reader.check(connections=3)["connections"]
    assert (found.severity, found.fix) == ("warn", "connections = 2")
    assert "takes 2 of this user: they do not fit" in found.message


def test_the_dispatchers_connection_counts(reader: Reader, tmp_path: Path) -> None:
    reader.do(LIMITS[reader.family])
    for mode, severity, fix in (("timer", "ok", ""), ("queue", "warn", "connections = 1")):
        file = configure(tmp_path, reader, f'connections = 2\nfunctions.mode = "{mode}"\nstate.store = "blob"')
        poller = Poller.of(load_config(file), "orders", path=file, store=MemoryStore())
        findings = cast(SqlSource, poller.source).checkup(None, lambda: datetime.now(UTC)).findings
        found = next(one for one in findings if one.check == "connections")
        assert (found.severity, found.fix) == (severity, fix)
        assert ("1 of them for the dispatcher" in found.message) == (mode == "queue")
        poller.close()


def test_arrow_on_postgresql_needs_twice_as_many(postgres_db: str) -> None:
    made = Reader(postgres_db)
    try:
        made.do(LIMITS["postgresql"])
        assert made.check(connections=2, format="arrow")["connections"].fix == "connections = 1"
    finally:
        made.do(*ENDS["postgresql"])


def test_a_user_that_only_reads_is_proposed_for_being_ignored(reader: Reader) -> None:
    assert f'bound_ignore_users = ["{reader.name}"]' in reader.check()["readers"].message
    assert "do not hold" in reader.check(bound_ignore_users=[reader.name])["readers"].message


def test_a_user_that_may_write_must_not_be_ignored(reader: Reader) -> None:
    reader.do(WRITES[reader.family])
    proposed = reader.check()["readers"]
    assert "CREATE USER poller_reader" in proposed.message
    assert 'bound_ignore_users = ["poller_reader"]' in proposed.message
    assert reader.check(bound_ignore_users=[reader.name])["readers"].severity == "warn"
