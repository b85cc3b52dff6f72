"""MariaDB and MySQL: only InnoDB's transactions can be seen, whatever stands before the table that keeps the rows."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from poller.errors import SourceError
from tests.integration.bounds.tables import add, make, source
from tests.integration.sources.tables import execute
from tests.support.cases import each

QUERIES: list[dict[str, Any]] = [
    {},
    {"table": None, "query": "select * from stamped"},
    {"table": None, "query": "with recent as (select * from `stamped`) select * from recent"},
    {"table": "around"},
    {"table": None, "query": "select a.* from around as a left join beside as b on b.id = a.id"},
]


def views(url: str) -> None:
    execute(
        url,
        "create view over_it as select id, updated_at from stamped",
        "create view around as select * from over_it union all select * from over_it where false",
        "create table beside (id int primary key)",
    )


@each("keys", QUERIES)
def test_a_table_of_another_engine_is_seen_behind_views(family_db: str, keys: dict[str, Any]) -> None:
    make(family_db, suffix=" engine = myisam")
    views(family_db)
    add(family_db, 1)
    with source(family_db, **keys) as reader:
        bound = reader.page(None, 10).bound
    assert bound.kind == "heuristic"
    assert ("the engine of stamped is MyISAM" if keys else "the table's engine is MyISAM") in str(bound.reason)


@each("keys", QUERIES)
def test_over_innodb_they_are_observed(family_db: str, keys: dict[str, Any]) -> None:
    make(family_db)
    views(family_db)
    add(family_db, 1)
    with source(family_db, **keys) as reader:
        bound = reader.page(None, 10).bound
    assert bound.kind == "observed"
    assert "not known" not in str(bound.reason)


def test_what_may_not_be_looked_into_is_said(family_db: str) -> None:
    make(family_db)
    views(family_db)
    add(family_db, 1)
    name = "blind_" + str(sa.make_url(family_db).database)[-12:]
    execute(
        family_db,
        f"create user '{name}'@'%'",
        f"grant process on *.* to '{name}'@'%'",
        f"grant select on around to '{name}'@'%'",
    )
    try:
        url = sa.make_url(family_db).set(username=name).render_as_string(False)
        with source(url, table=None, query="select * from around") as reader:
            reason = str(reader.page(None, 10).bound.reason)
        with source(url, table="around") as reader, pytest.raises(SourceError) as refused:
            reader.page(None, 10)
    finally:
        execute(family_db, f"drop user '{name}'@'%'")
    assert "the engines behind around are not known" in reason or "lacks XA_RECOVER_ADMIN" in reason
    assert refused.value.next_step == "Grant the poller's database user SHOW VIEW on it."
