"""A short torture of every bound: nothing lost, nothing twice, nothing out of order; and controls that must lose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.torture.bench import torture
from benchmarks.torture.plan import ALL, DEFEAT_OBSERVED, Plan

PLAN = Plan(url="", seconds=5.0, longest=0.6, poll=0.1, margin="0s")
GENTLE = tuple(name for name in ALL if name not in DEFEAT_OBSERVED)


def spared(plan: Plan, *, least: int = 50) -> None:
    found = torture(plan)
    assert found.rows > least, "there was something to lose"
    assert (found.lost, found.duplicates, found.disorder) == (0, 0, 0), found


@pytest.mark.parametrize("bound", ["exact", "observed-strict"])
def test_postgresql_loses_nothing_of_anything(postgres_db: str, bound: str) -> None:
    spared(replace(PLAN, url=postgres_db, bound=bound))


def test_postgresql_observed_loses_nothing_but_of_what_it_says_defeats_it(postgres_db: str) -> None:
    spared(replace(PLAN, url=postgres_db, bound="observed", features=GENTLE))


@pytest.mark.parametrize("kind", ["xid8+pk", "integer+pk"])
def test_postgresql_numbers_lose_nothing(postgres_db: str, kind: str) -> None:
    spared(replace(PLAN, url=postgres_db, kind=kind))


@pytest.mark.parametrize("kind", ["timestamp+pk", "integer+pk"])
def test_mariadb_loses_nothing(mariadb_db: str, kind: str) -> None:
    spared(replace(PLAN, url=mariadb_db, kind=kind))


@pytest.mark.parametrize("kind", ["timestamp+pk", "integer+pk"])
def test_mysql_loses_nothing(mysql_db: str, kind: str) -> None:
    spared(replace(PLAN, url=mysql_db, kind=kind))


def test_sqlite_loses_nothing(sqlite_url: str) -> None:
    """Its writers take turns: rows are few, and the fewer, the longer each keeps its transaction open."""
    features = tuple(name for name in GENTLE if name not in {"locks", "prepared"})
    spared(replace(PLAN, url=sqlite_url, longest=0.3, features=features), least=10)


@pytest.mark.parametrize("database", ["postgres_db", "mariadb_db", "mysql_db"])
def test_without_a_bound_rows_are_lost(database: str, request: pytest.FixtureRequest) -> None:
    """Else the torture would prove nothing."""
    url = request.getfixturevalue(database)
    found = torture(replace(PLAN, url=url, bound="none", seconds=4.0), settles=1.0)
    assert found.lost > 0
