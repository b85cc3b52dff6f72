"""Flights through `poller.relays:sql` into another database, the worker killed every few seconds: none missing, none
twice. A trigger of the target counts what is written, since an upsert alone would hide a double."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from tests.resilience.relays.killed import RelayUnderKills
from tests.support import flights
from tests.support.postgres import PostgresServer

MODES = {
    "each": "batch_size = 500",
    "grouped": "batch_size = 500\nmax_uncommitted = 4",
    "lanes": 'batch_size = 500\nconcurrency = 4\nordering_key = ["carrier"]',
}
COUNTING = """
CREATE TABLE written (row text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO written VALUES (NEW::text);
    RETURN NULL;
END $$;
CREATE TRIGGER noted AFTER INSERT OR UPDATE ON flights FOR EACH ROW EXECUTE FUNCTION note();
"""


class Warehouse:
    """The target: a table like the source's, in a database of its own, that notes each write."""

    def __init__(self, url: str) -> None:
        self.url = url
        engine = create_engine(url)
        flights.create_table(engine)
        engine.dispose()
        self.ask(COUNTING)

    def ask(self, statement: str, url: str | None = None) -> list[tuple[object, ...]]:
        address = make_url(url or self.url).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def is_like(self, source: str) -> bool:
        """Whether exactly the source's rows are here."""
        whole = "SELECT count(*), sum(hashtextextended(flights::text, 0)::numeric) FROM flights"
        return self.ask(whole) == self.ask(whole, source)

    def writes(self) -> tuple[object, ...]:
        """How many rows were written, and how many times in all."""
        return self.ask("SELECT count(DISTINCT row), count(*) FROM written")[0]


@pytest.fixture
def warehouse(postgres_server: PostgresServer) -> Iterator[Warehouse]:
    url = postgres_server.new_database()
    yield Warehouse(url)
    postgres_server.drop_database(url)


def bring(
    folder: Path,
    source: str,
    warehouse: Warehouse,
    rows: Sequence[flights.Row],
    *,
    mode: str,
    lives: tuple[float, float],
    most_kills: int = 1000,
) -> int:
    """All rows under kills; how many kills there were."""
    settings = f'url_env = "WAREHOUSE"\ntable = "flights"\nkey_columns = {list(flights.KEY)!r}\ntimeout = "5s"'
    killed = RelayUnderKills(
        folder,
        source,
        handler="poller.relays:sql",
        settings=settings,
        options=MODES[mode],
        environ={"WAREHOUSE": warehouse.url},
    )
    killed.load(rows)
    try:
        killed.drain(seed=len(rows), lives=lives, most_kills=most_kills)
    finally:
        killed.close()
    assert warehouse.is_like(source)
    assert warehouse.writes() == (len(rows), len(rows)), "each row was written once"
    assert not any("handler_failed" in life.events for life in killed.lives)
    committed = sum(life.rows for life in killed.lives)
    print(f"{mode}: {len(rows)} rows, {killed.kills} kills, {len(rows) - committed} rows not said to be committed")
    return killed.kills


@pytest.mark.guarantee(
    "Delivery",
    "Through the relay `sql` every row arrives once, whatever is killed; a row that the database refuses is named "
    "and holds up no other, and none is replaced by an earlier one of its key",
)
@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["each", "lanes"])
def test_some_of_the_flights_arrive_once_under_kills(
    tmp_path: Path, postgres_db: str, warehouse: Warehouse, mode: str
) -> None:
    rows = flights.year()[::30]
    assert bring(tmp_path, postgres_db, warehouse, rows, mode=mode, lives=(0.0, 0.5), most_kills=3) == 3


@pytest.mark.prove
@pytest.mark.parametrize("mode", MODES)
def test_every_flight_arrives_once_under_kills(
    tmp_path: Path, postgres_db: str, warehouse: Warehouse, mode: str
) -> None:
    assert bring(tmp_path, postgres_db, warehouse, flights.year(), mode=mode, lives=(0.5, 2.5)) > 9
