"""What `poller init` proposes as a key is what a run believes: unique in every row, and enforced."""

from __future__ import annotations

from pathlib import Path

import pytest

from poller.errors import SourceError
from poller.sources.proposal import Catalogue
from tests.integration.sources.tables import execute


def proposed(url: str, table: str = "goods") -> list[str]:
    with Catalogue(url) as catalogue:
        return list(catalogue.propose(table).key)


@pytest.mark.parametrize("database", ["postgres_db", "sqlite_url"])
def test_a_unique_index_over_some_rows_is_no_key(database: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(database)
    execute(
        url,
        "create table goods (code varchar(60) not null, lot int not null)",
        "create unique index partly on goods (code) where lot > 0",
    )
    assert proposed(url) == []
    execute(url, "create unique index whole on goods (code, lot)")
    assert proposed(url) == ["code", "lot"]


def test_an_index_that_failed_while_it_was_made_is_no_key(postgres_db: str) -> None:
    execute(
        postgres_db,
        "create table goods (code varchar(60) not null, lot int not null)",
        "create unique index broken on goods (code)",
        "update pg_index set indisvalid = false where indexrelid = 'broken'::regclass".replace(":", "\\:"),
    )
    assert proposed(postgres_db) == []


def test_a_database_that_cannot_be_looked_at_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    path.write_text("no database" * 1000)
    with pytest.raises(SourceError) as caught:
        Catalogue(f"sqlite:///{path}")
    assert caught.value.table == "the database"
    opened = [entry.resolve() for entry in Path("/proc/self/fd").iterdir() if entry.exists()]
    assert path not in opened
