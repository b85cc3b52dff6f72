"""Fixtures of the console's tests: a project, where its commands run, and servers behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import psycopg
import pytest
from sqlalchemy import make_url

from tests.cli.built import built
from tests.cli.console import Console
from tests.cli.databases import configure
from tests.cli.forge import Forge
from tests.cli.fuzzing import crowded
from tests.cli.project import NOTING, Project
from tests.support.azurite import Azurite


@pytest.fixture(scope="session", autouse=True)
def _made_once() -> Iterator[None]:
    with patch("poller_cli.main.build", built):
        yield


@pytest.fixture
def project(tmp_path: Path, forge: Forge) -> Iterator[Project]:
    made = Project(tmp_path, forge)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.close()


@pytest.fixture
def servers(project: Project, azurite: Azurite, container: str, postgres_db: str) -> Iterator[psycopg.Connection]:
    url = make_url(postgres_db)
    configure(project, postgres_db, 'cursor_time_zone = "UTC"\nquery_timeout = "5s"')
    text = (project.folder / "poller.toml").read_text()
    text = text.replace('store = "sql"', f'store = "blob"\ncontainer = "{container}"')
    project.write(text.replace('handler = "', 'lease_ttl = "60s"\nheartbeat_interval = "500ms"\nhandler = "'), NOTING)
    project.environ["AzureWebJobsStorage"] = azurite.connection_string
    with psycopg.connect(
        host=url.host, port=url.port, user=url.username, password=url.password, dbname=url.database, autocommit=True
    ) as db:
        db.execute("CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz NOT NULL)")
        db.execute(
            "INSERT INTO orders SELECT n, timestamptz '2026-01-01Z' + n * interval '1 min' FROM generate_series(1, 9) n"
        )
        yield db


@pytest.fixture(scope="module")
def crowded_console(tmp_path_factory: pytest.TempPathFactory) -> Console:
    return crowded(tmp_path_factory.mktemp("fuzzed"))
