"""Effectively once under random schedules: the target is the source, nothing twice, nothing older. The same schedules
without the fence, and without the ledger, break that (failures.md, Prove 5)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Column, Engine, Integer, Table, insert, select, text, update

from poller import Batch
from poller.sinks.sql import fenced
from tests.integration.sinks.conftest import emptied
from tests.integration.sinks.controls import without_fence, without_ledger
from tests.integration.sinks.target import METADATA, apply, arrived, engine_of
from tests.integration.sinks.world import Handler, World

LATEST = Table(
    "latest",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)
SERVERS = {
    "sqlite": ("sqlite", ""),
    "postgres-read_committed": ("postgres", "READ COMMITTED"),
    "postgres-repeatable_read": ("postgres", "REPEATABLE READ"),
    "mariadb-read_committed": ("mariadb", "READ COMMITTED"),
    "mariadb-repeatable_read": ("mariadb", "REPEATABLE READ"),
}
AS_THEY_COME = {"sqlite", "postgres-read_committed", "mariadb-repeatable_read"}
"""How their servers isolate unless they are told otherwise; the others are for the soak."""


ENOUGH = 8
"""In so many schedules everything that can happen has happened."""


def plain(seed: int) -> bool:
    """Whether rows are only added: where they are changed too, a database may see two writers by itself."""
    return seed % 2 == 0


class Site:
    """A target with three processes that write to it."""

    def __init__(self, shop: Engine, isolation: str) -> None:
        self.shop = shop
        url = shop.url.render_as_string(hide_password=False)
        self.engines = [engine_of(url, isolation or None) for _ in range(3)]
        self.most = 0
        self.used: set[str] = set()

    def world(self, seed: int, concurrency: int, *, tenures: int = 8) -> World:
        with self.shop.begin() as connection:
            for table in ("arrived", "latest", "poller_applied", "poller_fence"):
                if table in self.used or table in {"arrived", "latest"}:
                    connection.execute(text(f"DELETE FROM {table}"))
        self.used |= {"poller_applied", "poller_fence"}
        self.most = 0
        for engine in self.engines:
            engine.dispose()
        made: list[World] = []
        world = World(seed, [self.handler(engine, made, seed) for engine in self.engines], concurrency, tenures=tenures)
        made.append(world)
        return world

    def handler(self, engine: Engine, made: list[World], seed: int) -> Handler:
        def handle(batch: Batch) -> None:
            chance = random.Random(f"{seed}/{batch.fencing_token}/{batch.standing.through}")
            with engine.begin() as connection, fenced(connection, batch) as fresh:
                if fresh:
                    self.most = max(self.most, int(connection.scalar(text("SELECT count(*) FROM poller_applied")) or 0))
                apply(connection, fresh)
                made[0].stop(batch.fencing_token, chance)
                for row in [] if plain(seed) else fresh:
                    if not connection.execute(update(LATEST).where(LATEST.c.id == row["id"]).values(row)).rowcount:
                        connection.execute(insert(LATEST).values(row))

        return handle

    def broken(self, world: World) -> list[str]:
        world.live()
        with self.shop.connect() as connection:
            latest = {one.id: one.version for one in connection.execute(select(LATEST))}
        return world.laws(arrived(self.shop), world.table.versions() if plain(world.seed) else latest)


@contextmanager
def _site(shop: Engine, isolation: str) -> Iterator[Site]:
    made = Site(shop, isolation)
    try:
        yield made
    finally:
        for engine in made.engines:
            engine.dispose()


@pytest.fixture(
    params=[pytest.param(one, marks=() if one in AS_THEY_COME else pytest.mark.soak, id=one) for one in SERVERS]
)
def site(request: pytest.FixtureRequest, databases: dict[str, Engine]) -> Iterator[Site]:
    server, isolation = SERVERS[request.param]
    with _site(emptied(databases[server]), isolation) as made:
        yield made


def hold(site: Site, concurrency: int, seeds: range) -> None:
    crashes = failures = 0
    for seed in seeds:
        world = site.world(seed, concurrency)
        assert site.broken(world) == [], f"seed {seed}"
        crashes, failures = crashes + world.crashes, failures + sum(world.failed.values())
        if concurrency == 1:
            assert site.most <= world.max_uncommitted + 2, f"seed {seed}: the ledger has grown"
    if len(seeds) >= ENOUGH:
        assert crashes, "the worst moment was reached"
        assert failures, "somebody was in the way of another"


@pytest.mark.guarantee(
    "Delivery",
    "Into a SQL target with `fenced` each row counts once: none missing, none twice, none older than its source",
)
@pytest.mark.parametrize("concurrency", [1, 3])
def test_the_target_is_the_source(site: Site, concurrency: int) -> None:
    hold(site, concurrency, range(2))


@pytest.mark.soak
@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_the_target_is_the_source_for_longer(site: Site, concurrency: int) -> None:
    hold(site, concurrency, range(2, 2 + ENOUGH))


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_the_target_is_the_source_in_many_schedules(site: Site, concurrency: int) -> None:
    hold(site, concurrency, range(100, 150))


# --- controls: the same schedules must break what is left without its guard ------------------------------------------


CONTROLS: list[Callable[[pytest.MonkeyPatch], None]] = [without_fence, without_ledger]


@pytest.mark.parametrize("control", CONTROLS)
def test_without_one_of_the_two_rows_are_doubled(
    site: Site, control: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if control is without_fence and site.shop.dialect.name == "sqlite":
        pytest.skip("SQLite itself lets one write at a time: what another has read meanwhile is refused")
    control(monkeypatch)
    assert any(site.broken(site.world(seed, 1)) for seed in range(0, 32, 2))
