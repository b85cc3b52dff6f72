"""A longer torture of every bound, with the processor saturated; and the controls that take longer to lose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.torture.bench import torture
from benchmarks.torture.plan import NOT_HAD, Plan
from tests.integration.bounds.test_torture import GENTLE, RACING, spared
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.timeout(240)
PLAN = Plan(url="", burners=2, margin="0s", seed=7)
LONGER = pytest.mark.parametrize(
    "seconds", [pytest.param(8.0, marks=pytest.mark.soak), pytest.param(60.0, marks=pytest.mark.prove)]
)


@LONGER
@pytest.mark.parametrize("bound", ["exact", "observed-strict"])
def test_postgresql(postgres_db: str, bound: str, seconds: float) -> None:
    spared(replace(PLAN, seconds=seconds, url=postgres_db, bound=bound), bound)


@LONGER
def test_postgresql_observed(postgres_db: str, seconds: float) -> None:
    spared(replace(PLAN, seconds=seconds, url=postgres_db, bound="observed", features=GENTLE), "observed")


@LONGER
@pytest.mark.parametrize("kind", ["xid8+pk", "integer+pk"])
def test_postgresql_numbers(postgres_db: str, kind: str, seconds: float) -> None:
    spared(replace(PLAN, seconds=seconds, url=postgres_db, kind=kind), "exact")


@LONGER
@pytest.mark.parametrize("kind", ["timestamp+pk", "integer+pk"])
def test_mariadb(mariadb_db: str, kind: str, seconds: float) -> None:
    spared(replace(PLAN, seconds=seconds, url=mariadb_db, kind=kind), "observed")


@LONGER
@pytest.mark.parametrize("kind", ["timestamp+pk", "integer+pk"])
def test_mysql(mysql_db: str, kind: str, seconds: float) -> None:
    spared(replace(PLAN, seconds=seconds, url=mysql_db, kind=kind), "observed")


@LONGER
def test_sqlite(sqlite_url: str, seconds: float) -> None:
    features = tuple(name for name in GENTLE if name not in NOT_HAD["sqlite"])
    spared(replace(PLAN, seconds=seconds, url=sqlite_url, longest=0.5, features=features), "exact", least=10)


@pytest.mark.soak
def test_mariadb_by_a_guess_that_is_longer_than_every_transaction(mariadb_db: str) -> None:
    plan = replace(PLAN, url=mariadb_db, bound="heuristic", commit_delay="9s", seconds=10.0, longest=0.5)
    assert spared(plan, "heuristic").took_longest < 9


def loses(new_database: Callable[[], str], plan: Plan) -> bool:
    """Whether rows are lost in one of three runs."""
    return any(torture(replace(plan, url=new_database(), seed=seed), settles=2.0).lost for seed in (1, 2, 3))


@pytest.mark.soak
def test_a_clock_in_the_select_list_loses_rows(postgres_server: PostgresServer) -> None:
    """It is read after the scan. That shows only where nobody was open at the scan."""
    short = replace(RACING, control="select-list", seconds=8.0, longest=0.05, writers=12, features=())
    assert loses(postgres_server.new_database, short)
    found = torture(replace(short, url=postgres_server.new_database(), control="", bound="exact", margin="0s"))
    assert found.lost == 0, "else the writers would be to blame"


@pytest.mark.soak
def test_the_least_trx_started_less_two_seconds_loses_rows(mariadb_server: MariaDbServer) -> None:
    """It is later than the statement's NOW() by as long as the statement waited for its table."""
    waiting = Plan(url="", control="trx-started", seconds=15.0, writers=12, features=("locks", "long-select"))
    assert loses(mariadb_server.new_database, waiting)


@pytest.mark.soak
def test_observed_loses_rows_of_what_it_says_defeats_it(postgres_server: PostgresServer) -> None:
    plan = replace(PLAN, bound="observed", seconds=5.0, longest=0.6, burners=0, features=("messages", "chain", "burst"))
    assert loses(postgres_server.new_database, plan)
