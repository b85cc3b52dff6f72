"""A page costs the same wherever it begins. The database counts: buffers, rows asked of the engine, instructions."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from benchmarks.pages.table import Size, cursor_of, fill, source
from benchmarks.pages.work import COUNTED, Work, work_of
from benchmarks.torture.tables import family

AT_MOST = 3
"""times what the page at the start costs."""
SMALL = Size(rows=200_000, tie=40_000)
LARGE = Size(rows=5_000_000, tie=200_000)


def _work(url: str, size: Size) -> dict[str, Work]:
    """Of each place, once it is sure that the right page was looked at."""
    fill(url, size)
    reader = source(url)
    try:
        found = {name: work_of(reader, url, cursor_of(url, at), size.limit) for name, at in size.places.items()}
    finally:
        reader.close()
    assert {name: work.first for name, work in found.items()} == {name: at + 1 for name, at in size.places.items()}
    return found


def _even(found: dict[str, Work], *, at_least: int, at_most: int) -> None:
    units = {name: work.units for name, work in found.items()}
    assert units["start"] >= at_least, f"nothing was counted: {units}"
    assert max(units.values()) <= AT_MOST * units["start"], units
    assert max(units.values()) <= at_most, units


def _postgresql(url: str, size: Size) -> None:
    found = _work(url, size)
    _even(found, at_least=2, at_most=size.limit // 10)
    for name, work in found.items():
        (plan,) = work.plans
        assert "pages_cursor" in plan, name
        assert '"Sort"' not in plan
        assert '"Seq Scan"' not in plan
        assert ("ROW(updated_at, id) > ROW(" in plan) == (name != "start"), plan


def _mysql(url: str, size: Size) -> None:
    found = _work(url, size)
    _even(found, at_least=size.limit, at_most=size.limit + 10)
    for work in found.values():
        for plan in work.plans:
            assert "pages_cursor" in plan
            assert "filesort" not in plan


def _sqlite(url: str, size: Size) -> None:
    found = _work(url, size)
    _even(found, at_least=size.limit, at_most=100 * size.limit)
    for work in found.values():
        for plan in work.plans:
            assert plan.startswith("SEARCH pages USING INDEX pages_cursor (updated_at")
            assert "TEMP B-TREE" not in plan


@pytest.mark.guarantee("Rows that commit late", "A page costs the same at the start and at the end of the table")
def test_postgresql_touches_as_few_buffers_at_the_end(postgres_db: str) -> None:
    _postgresql(postgres_db, SMALL)


def test_mysql_and_mariadb_read_as_few_rows_at_the_end(family_db: str) -> None:
    _mysql(family_db, SMALL)


def test_sqlite_takes_as_few_instructions_at_the_end(sqlite_url: str) -> None:
    _sqlite(sqlite_url, SMALL)


_FORMS = {
    "postgresql": "updated_at > :at or (updated_at = :at and id > :id)",
    "mysql": "(updated_at, id) > (:at, :id)",
    "sqlite": "updated_at >= :at and (updated_at, id) > (:at, :id)",
}
"""What comes to mind first, and reads the index from its start, or the tie from its start."""


def test_the_count_shows_a_page_that_reads_more_than_it_delivers(any_db: str) -> None:
    fill(any_db, SMALL)
    reader = source(any_db)
    try:
        start = work_of(reader, any_db, None, SMALL.limit).units
    finally:
        reader.close()
    where = _FORMS[family(any_db)]
    query = sa.select(sa.text("*")).select_from(sa.text("pages")).where(sa.text(where))
    query = query.order_by(sa.text("updated_at, id")).limit(SMALL.limit)
    at = SMALL.places["tie"]
    engine = sa.create_engine(any_db, poolclass=sa.NullPool)
    with engine.connect() as connection:
        stamp = connection.execute(sa.text(f"select updated_at from pages where id = {at}")).scalar_one()
        found, units, _ = COUNTED[family(any_db)](connection, query, {"at": stamp, "id": at})
    assert found == SMALL.limit
    assert units > AT_MOST * start


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_postgresql_does_so_over_five_million_rows(postgres_db: str) -> None:
    _postgresql(postgres_db, LARGE)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_mysql_and_mariadb_do_so_over_five_million_rows(family_db: str) -> None:
    _mysql(family_db, LARGE)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_sqlite_does_so_over_five_million_rows(sqlite_url: str) -> None:
    _sqlite(sqlite_url, LARGE)
