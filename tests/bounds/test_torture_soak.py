"""A longer torture of every bound, with the processor saturated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.torture.plan import Plan
from tests.bounds.test_torture import GENTLE, spared

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]
PLAN = Plan(url="", seconds=20.0, burners=2, margin="0s", seed=7)


@pytest.mark.parametrize("bound", ["exact", "observed-strict"])
def test_postgresql(postgres_db: str, bound: str) -> None:
    spared(replace(PLAN, url=postgres_db, bound=bound))


def test_postgresql_observed(postgres_db: str) -> None:
    spared(replace(PLAN, url=postgres_db, bound="observed", features=GENTLE))


@pytest.mark.parametrize("kind", ["xid8+pk", "integer+pk"])
def test_postgresql_numbers(postgres_db: str, kind: str) -> None:
    spared(replace(PLAN, url=postgres_db, kind=kind))


@pytest.mark.parametrize("kind", ["timestamp+pk", "integer+pk"])
def test_mariadb(mariadb_db: str, kind: str) -> None:
    spared(replace(PLAN, url=mariadb_db, kind=kind))


@pytest.mark.parametrize("kind", ["timestamp+pk", "integer+pk"])
def test_mysql(mysql_db: str, kind: str) -> None:
    spared(replace(PLAN, url=mysql_db, kind=kind))


def test_sqlite(sqlite_url: str) -> None:
    features = tuple(name for name in GENTLE if name not in {"locks", "prepared"})
    spared(replace(PLAN, url=sqlite_url, longest=0.5, features=features), least=10)
