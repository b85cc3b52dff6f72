"""The change table is the table's history, whatever several writers do at once."""

from __future__ import annotations

import pytest

from poller.model.change_chain import Chain
from tests.integration.capture.captured import Captured
from tests.integration.capture.torture import BEGINS, MARIADB, POSTGRESQL, SQLITE, tortured

LONG = [
    pytest.param(5.0, marks=pytest.mark.soak),
    pytest.param(60.0, marks=[pytest.mark.prove, pytest.mark.soak]),
]
TABLE = "CREATE TABLE orders (id int PRIMARY KEY NOT NULL, note varchar(40))"


def holds(chain: Chain, least: int) -> None:
    print(f"{chain.changes:,} changes, {chain.rows} rows, {chain.compared} compared, {chain.count} breaks")
    assert (chain.count, chain.breaks, chain.gaps) == (0, [], 0)
    assert chain.changes > least
    assert chain.compared == chain.rows


def breaks(made: Captured, order: str, cast: str) -> int:
    """How often the chain breaks if changes are taken in another order than that of their ids."""
    chain = Chain(("id",))
    for row in made.run(f"SELECT id, op{cast}, old{cast}, new{cast} FROM poller_orders_changes ORDER BY {order}, id"):
        chain.take(*row)
    print(f"{chain.count} breaks of {chain.changes:,} in the order of {order}")
    return chain.count


@pytest.mark.timeout(150)
@pytest.mark.parametrize("seconds", LONG)
def test_in_postgresql(postgres_db: str, seconds: float) -> None:
    made = Captured(postgres_db)
    made.run(TABLE)
    holds(tortured(made, seconds, POSTGRESQL, writers=8, begins=BEGINS), 50)
    assert breaks(made, "xid", "::text") > 0
    made.close()


@pytest.mark.timeout(150)
@pytest.mark.parametrize("seconds", LONG)
def test_in_mariadb(mariadb_db: str, seconds: float) -> None:
    made = Captured(mariadb_db)
    made.run(TABLE)
    holds(tortured(made, seconds, MARIADB, writers=8), 50)
    assert breaks(made, "at", "") > 0
    made.close()


@pytest.mark.timeout(150)
@pytest.mark.parametrize("seconds", LONG)
def test_in_sqlite(sqlite_url: str, seconds: float) -> None:
    made = Captured(sqlite_url)
    made.run("PRAGMA journal_mode = WAL", TABLE.replace("int PRIMARY", "INTEGER PRIMARY"))
    holds(tortured(made, seconds, SQLITE, writers=3, begins=("BEGIN IMMEDIATE", "BEGIN")), 50)
    made.close()
