"""The released wheel of azure-functions-db itself, as requirements-dev.txt pins it: the fingerprints that `poller
import` knows a source by, and the blobs that its tests read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from azure_functions_db import SqlAlchemySource

from poller.admin.import_azure_functions_db import key_order
from poller.config import SourceConfig
from tests.cli.azure_functions_db import FIXTURES, ROWS
from tests.support.azurite import Azurite


def options(**changed: Any) -> SourceConfig:
    given = {"url": "sqlite:////data/shop.db", "table": "orders", "cursor_column": "updated_at", "pk_columns": ["id"]}
    return SourceConfig.model_validate(given | changed)


URL = "postgresql+psycopg://reader:s3cret@db.example:5432/shop"
THEIRS = "7efcf499c577cfb7aee7470a44c89aedc1619b50bac3d6d47a408185ad5784b2"
"""What azure-functions-db 0.8.3 says of this source."""


def test_the_same_source_is_known_by_its_fingerprint_and_key_order() -> None:
    ours = {"table": "t", "cursor_column": "at", "pk_columns": ["a", "b"], "filter": "x = 1"}
    rotated = URL.replace("s3cret", "another")
    assert key_order(THEIRS, options(url=rotated, **ours)) == ("b", "a")
    assert key_order(THEIRS, options(url=rotated, **{**ours, "filter": "x = 2"})) is None


def test_the_library_still_makes_that_fingerprint() -> None:
    source = SqlAlchemySource(url=URL, table="t", cursor_column="at", pk_columns=["b", "a"], where="x = 1")
    assert source.source_descriptor.fingerprint == THEIRS


@pytest.mark.soak
def test_the_library_still_writes_what_the_fixtures_hold(azurite: Azurite, postgres_db: str, tmp_path: Path) -> None:
    engine = sa.create_engine(postgres_db)
    with engine.begin() as connection:
        connection.execute(sa.text(f"ALTER DATABASE {engine.url.database} SET timezone TO 'UTC'"))
        connection.execute(sa.text("CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz NOT NULL)"))
        connection.execute(
            sa.text("INSERT INTO orders VALUES (:id, :at)"), [{"id": n, "at": f"{at}+00:00"} for n, at in ROWS]
        )
    engine.dispose()
    script = FIXTURES / "make_azure_functions_db.py"
    subprocess.run([sys.executable, script, azurite.connection_string, tmp_path, postgres_db], check=True, timeout=60)
    made = sorted(tmp_path.glob("*.json"))
    assert [path.name for path in made] == [path.name for path in sorted(FIXTURES.glob("azure-functions-db-*.json"))]
    for path in made:
        fresh, kept = json.loads(path.read_text()), json.loads((FIXTURES / path.name).read_text())
        assert fresh["checkpoint"].get("cursor") == kept["checkpoint"].get("cursor")
        assert {key: sorted(value) if isinstance(value, dict) else None for key, value in fresh.items()} == {
            key: sorted(value) if isinstance(value, dict) else None for key, value in kept.items()
        }
