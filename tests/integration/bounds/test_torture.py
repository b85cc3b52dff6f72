"""A torture of every bound: nothing lost, nothing twice, nothing out of order; and controls that must lose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.torture.bench import Result, torture
from benchmarks.torture.plan import ALL, DEFEAT_OBSERVED, NOT_HAD, Plan
from benchmarks.torture.tables import family
from poller.model.cursor import CursorKind
from tests.support.bounds import ROLE
from tests.support.mariadb import MariaDbServer
from tests.support.pgbouncer import pooled
from tests.support.postgres import PostgresServer
from tests.support.services import Unavailable, unavailable

pytestmark = pytest.mark.timeout(240)

PLAN = Plan(url="", seconds=5.0, longest=0.6, poll=0.1, settle="0s", batch_size=10, page_size=20)
GENTLE = tuple(name for name in ALL if name not in DEFEAT_OBSERVED)
RACING = Plan(url="", control="one-statement", seconds=4.0, longest=0.3, writers=6, rest=0.3, poll=0.0)
"""What is polled without a pause, and writers that rest, so that now and then nobody is open."""
SELDOM = Plan(
    url="", seconds=8.0, longest=0.1, writers=6, rest=0.4, poll=0.0, settle="0s", batch_size=1, page_size=2,
    features=("messages", "chain", "connections", "savepoints", "long-select"),
)  # fmt: skip
"""Writers that rest: most looks find that nothing waits, so that they count, and read no page."""


def spared(plan: Plan, under: str, *, least: int = 50) -> Result:
    """All that the plan asks for was done, the bound was never another than `under`, and nothing came wrong."""
    found = torture(plan)
    print(
        f"{under}: {found.rows} rows in {found.transactions} transactions, the longest open {found.took_longest:.1f} s,"
        f" {found.again} pages below a bound that served before, {found.counted} of {found.polls} looks without a page"
    )
    assert found.rows > least, "there was something to lose"
    assert not found.died, "a thread of the writers ended with an error"
    hard = set(plan.features) - NOT_HAD.get(family(plan.url), frozenset())
    hard |= {"rollbacks"} | (set() if plan.kind == "integer+pk" else {"updates"})
    assert not [name for name in hard if not found.done.get(name)], "what was never done has shown nothing"
    assert found.refused <= found.transactions / 10, found
    assert {name.removesuffix(" held") for name in found.bounds} == {under}
    assert (found.lost, found.duplicates, found.disorder) == (0, 0, 0), found
    return found


def spared_in_full_pages(plan: Plan, under: str, *, least: int = 50) -> Result:
    found = spared(plan, under, least=least)
    assert found.again > 0, "no bound served for another page"
    return found


def spared_where_nothing_waits(plan: Plan, under: str) -> None:
    gone = DEFEAT_OBSERVED if under == "observed" else NOT_HAD.get(family(plan.url), frozenset())
    features = tuple(name for name in plan.features if name not in gone)
    found = spared(replace(plan, features=features), under, least=10)
    assert found.counted > found.polls / 10, "many looks were to be a sample and a count, on a busy machine too"
    assert found.counted < found.polls, "and then rows came"


@pytest.mark.guarantee("Rows that commit late", "The bound skips no row, and delivers none twice")
@pytest.mark.parametrize(
    ("bound", "beside"), [("exact", 2), pytest.param("observed-strict", 0, marks=pytest.mark.soak)]
)
def test_postgresql_loses_nothing_of_anything(postgres_db: str, bound: str, beside: int) -> None:
    """`beside`: other pollers whose samples are shared; without any, the restart in the middle begins cold."""
    spared_in_full_pages(replace(PLAN, url=postgres_db, bound=bound, beside=beside), bound)


@pytest.mark.soak
def test_postgresql_observed_loses_nothing_but_the_documented(postgres_db: str) -> None:
    spared_in_full_pages(replace(PLAN, url=postgres_db, bound="observed", features=GENTLE), "observed")


@pytest.mark.parametrize(
    ("bound", "kind"),
    [
        pytest.param("observed", "timestamp+pk", marks=pytest.mark.soak),
        *(
            pytest.param(bound, kind, marks=pytest.mark.prove)
            for bound, kind in [
                ("observed", "integer+pk"),
                ("observed", "xid8+pk"),
                ("exact", "timestamp+pk"),
                ("exact", "integer+pk"),
                ("exact", "xid8+pk"),
            ]
        ),
    ],
)
def test_postgresql_through_a_pooler_loses_nothing(
    postgres_server: PostgresServer, postgres_db: str, bound: str, kind: CursorKind
) -> None:
    """Each statement may run in another session of the server; no bound serves twice, and no sample is shared."""
    features = ALL if bound == "exact" else GENTLE
    plan = replace(PLAN, url=postgres_db, bound=bound, kind=kind, beside=2, features=features, seconds=8.0)
    try:
        with pooled(postgres_server.port, ("postgres", ROLE)) as port:
            spared(replace(plan, pooler=port), "exact" if kind == "xid8+pk" else bound)
    except Unavailable as missing:
        unavailable(missing)


@pytest.mark.parametrize("kind", [pytest.param("xid8+pk", marks=pytest.mark.soak), "integer+pk"])
def test_postgresql_numbers_lose_nothing(postgres_db: str, kind: CursorKind) -> None:
    spared_in_full_pages(replace(PLAN, url=postgres_db, kind=kind), "exact")


@pytest.mark.parametrize(
    ("kind", "beside"), [("timestamp+pk", 2), pytest.param("integer+pk", 0, marks=pytest.mark.soak)]
)
def test_mariadb_loses_nothing(mariadb_db: str, kind: CursorKind, beside: int) -> None:
    spared_in_full_pages(replace(PLAN, url=mariadb_db, kind=kind, beside=beside), "observed")


@pytest.mark.parametrize("kind", ["timestamp+pk", "integer+pk"])
def test_mysql_loses_nothing(mysql_db: str, kind: CursorKind) -> None:
    spared_in_full_pages(replace(PLAN, url=mysql_db, kind=kind), "observed")


def test_sqlite_loses_nothing(sqlite_url: str) -> None:
    """Its writers take turns: rows are few, and the fewer, the longer each keeps its transaction open."""
    features = tuple(name for name in GENTLE if name not in NOT_HAD["sqlite"])
    few = replace(PLAN, batch_size=2, page_size=4)
    spared_in_full_pages(replace(few, url=sqlite_url, longest=0.1, features=features), "exact", least=10)


@pytest.mark.soak
def test_a_guess_loses_nothing_where_no_transaction_outlasts_it(postgres_db: str) -> None:
    plan = replace(PLAN, url=postgres_db, bound="delay", settle="5s", seconds=2.5, longest=0.2)
    assert spared_in_full_pages(plan, "heuristic").took_longest < 5


@pytest.mark.parametrize(
    "database", ["postgres_db", *(pytest.param(name, marks=pytest.mark.soak) for name in ("mariadb_db", "mysql_db"))]
)
def test_without_a_bound_rows_are_lost(database: str, request: pytest.FixtureRequest) -> None:
    """Else the torture would prove nothing."""
    url = request.getfixturevalue(database)
    found = torture(replace(PLAN, url=url, bound="none", seconds=4.0, batch_size=1000, page_size=1000), settles=1.0)
    assert found.lost > 0
    assert set(found.bounds) == {"none"}


@pytest.mark.soak
def test_a_sample_in_one_statement_with_the_page_loses_rows(postgres_db: str) -> None:
    """The page's snapshot is older than what the sample sees."""
    assert torture(replace(RACING, url=postgres_db), settles=1.0).lost > 0


BURNING = Plan(url="", burners=2, settle="0s", seed=7, batch_size=10, page_size=20)
"""With the processor saturated."""
LONGER = pytest.mark.parametrize(
    "seconds", [pytest.param(8.0, marks=pytest.mark.soak), pytest.param(60.0, marks=pytest.mark.prove)]
)


@LONGER
@pytest.mark.parametrize("bound", ["exact", "observed-strict"])
def test_postgresql(postgres_db: str, bound: str, seconds: float) -> None:
    spared_in_full_pages(replace(BURNING, seconds=seconds, url=postgres_db, bound=bound), bound)


@LONGER
def test_postgresql_observed(postgres_db: str, seconds: float) -> None:
    spared_in_full_pages(
        replace(BURNING, seconds=seconds, url=postgres_db, bound="observed", features=GENTLE), "observed"
    )


@LONGER
@pytest.mark.parametrize("kind", ["xid8+pk", "integer+pk"])
def test_postgresql_numbers(postgres_db: str, kind: CursorKind, seconds: float) -> None:
    spared_in_full_pages(replace(BURNING, seconds=seconds, url=postgres_db, kind=kind), "exact")


@LONGER
@pytest.mark.parametrize("kind", ["timestamp+pk", "integer+pk"])
def test_mariadb(mariadb_db: str, kind: CursorKind, seconds: float) -> None:
    spared_in_full_pages(replace(BURNING, seconds=seconds, url=mariadb_db, kind=kind), "observed")


@LONGER
@pytest.mark.parametrize("kind", ["timestamp+pk", "integer+pk"])
def test_mysql(mysql_db: str, kind: CursorKind, seconds: float) -> None:
    spared_in_full_pages(replace(BURNING, seconds=seconds, url=mysql_db, kind=kind), "observed")


@LONGER
def test_sqlite(sqlite_url: str, seconds: float) -> None:
    features = tuple(name for name in GENTLE if name not in NOT_HAD["sqlite"])
    few = replace(BURNING, batch_size=2, page_size=4)
    spared_in_full_pages(
        replace(few, seconds=seconds, url=sqlite_url, longest=0.5, features=features), "exact", least=10
    )


@pytest.mark.parametrize(
    "seconds", [pytest.param(8.0, marks=pytest.mark.soak), pytest.param(60.0, marks=pytest.mark.prove)]
)
def test_postgresql_where_nothing_waits(postgres_db: str, seconds: float) -> None:
    spared_where_nothing_waits(replace(SELDOM, url=postgres_db, seconds=seconds, bound="exact"), "exact")


@pytest.mark.soak
@pytest.mark.parametrize("bound", ["observed", "observed-strict"])
def test_postgresql_observed_where_nothing_waits(postgres_db: str, bound: str) -> None:
    spared_where_nothing_waits(replace(SELDOM, url=postgres_db, bound=bound), bound)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["xid8+pk", "integer+pk"])
def test_postgresql_numbers_where_nothing_waits(postgres_db: str, kind: CursorKind) -> None:
    spared_where_nothing_waits(replace(SELDOM, url=postgres_db, kind=kind), "exact")


@pytest.mark.parametrize(
    "seconds", [pytest.param(8.0, marks=pytest.mark.soak), pytest.param(60.0, marks=pytest.mark.prove)]
)
def test_mariadb_where_nothing_waits(mariadb_db: str, seconds: float) -> None:
    spared_where_nothing_waits(replace(SELDOM, url=mariadb_db, seconds=seconds), "observed")


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["timestamp+pk", "integer+pk"])
def test_mysql_where_nothing_waits(mysql_db: str, kind: CursorKind) -> None:
    spared_where_nothing_waits(replace(SELDOM, url=mysql_db, kind=kind), "observed")


@pytest.mark.soak
def test_mariadb_numbers_where_nothing_waits(mariadb_db: str) -> None:
    spared_where_nothing_waits(replace(SELDOM, url=mariadb_db, kind="integer+pk"), "observed")


@pytest.mark.parametrize(
    "seconds", [pytest.param(8.0, marks=pytest.mark.soak), pytest.param(60.0, marks=pytest.mark.prove)]
)
def test_sqlite_where_nothing_waits(sqlite_url: str, seconds: float) -> None:
    spared_where_nothing_waits(replace(SELDOM, url=sqlite_url, seconds=seconds, longest=0.05), "exact")


@pytest.mark.soak
def test_mariadb_by_a_guess_that_is_longer_than_every_transaction(mariadb_db: str) -> None:
    plan = replace(BURNING, url=mariadb_db, bound="delay", settle="9s", seconds=10.0, longest=0.5)
    assert spared_in_full_pages(plan, "heuristic").took_longest < 9


def loses(new_database: Callable[[], str], plan: Plan) -> bool:
    """Whether rows are lost in one of three runs."""
    return any(torture(replace(plan, url=new_database(), seed=seed), settles=2.0).lost for seed in (1, 2, 3))


@pytest.mark.prove
def test_a_clock_in_the_select_list_loses_rows(postgres_server: PostgresServer) -> None:
    """It is read after the scan. That shows only where nobody was open at the scan."""
    short = replace(RACING, control="select-list", seconds=8.0, longest=0.05, writers=12, features=())
    assert loses(postgres_server.new_database, short)
    found = torture(replace(short, url=postgres_server.new_database(), control="", bound="exact", settle="0s"))
    assert found.lost == 0, "else the writers would be to blame"


@pytest.mark.prove
def test_the_least_trx_started_less_two_seconds_loses_rows(mariadb_server: MariaDbServer) -> None:
    """It is later than the statement's NOW() by as long as the statement waited for its table."""
    waiting = Plan(url="", control="trx-started", seconds=15.0, writers=12, features=("locks", "long-select"))
    assert loses(mariadb_server.new_database, waiting)


@pytest.mark.soak
def test_observed_loses_rows_of_what_it_says_defeats_it(postgres_server: PostgresServer) -> None:
    plan = replace(
        BURNING,
        bound="observed",
        seconds=5.0,
        longest=0.6,
        burners=0,
        features=("messages", "chain", "burst"),
        batch_size=1000,
        page_size=1000,
    )
    assert loses(postgres_server.new_database, plan)
