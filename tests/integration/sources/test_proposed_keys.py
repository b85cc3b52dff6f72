"""What `poller init` proposes as a key is what a run believes: unique in every row, and enforced."""

from __future__ import annotations

import pytest

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
