"""Effectively once with real ticks that set rows aside: the target is the source, nothing twice, nothing older."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from tests.integration.sinks.conftest import emptied
from tests.integration.sinks.controls import without_ledger
from tests.integration.sinks.lives import MAX_UNCOMMITTED, Life
from tests.integration.sinks.target import engine_of

SERVERS = ["sqlite", "postgres", "mariadb"]


class Site:
    """A target, and the engines of three processes that write to it."""

    def __init__(self, shop: Engine, folder: Path) -> None:
        self.shop, self.folder = shop, folder
        url = shop.url.render_as_string(hide_password=False)
        self.engines = [engine_of(url) for _ in range(3)]

    def life(self, seed: int) -> tuple[Life, list[str]]:
        """A life on an empty target, and what it broke."""
        emptied(self.shop)
        with self.shop.begin() as connection:
            connection.execute(text("DROP TABLE IF EXISTS latest"))  # another test's, in the same database
            connection.execute(text("CREATE TABLE latest (id INTEGER PRIMARY KEY, version INTEGER)"))
        for engine in self.engines:
            engine.dispose()
        life = Life(seed, self.folder, self.engines)
        life.live()
        return life, life.laws(self.shop)


@pytest.fixture(params=SERVERS)
def site(request: pytest.FixtureRequest, databases: dict[str, Engine], tmp_path: Path) -> Iterator[Site]:
    made = Site(databases[request.param], tmp_path)
    yield made
    for engine in made.engines:
        engine.dispose()


def _hold(site: Site, seeds: range) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        life, broken = site.life(seed)
        assert broken == [], f"seed {seed}"
        assert life.grown <= MAX_UNCOMMITTED + 2, f"seed {seed}: the ledger has grown"
        seen += life.seen
    print(f"{len(seeds)} lives, {dict(seen)}")
    assert min(seen[what] for what in ("retried", "killed", "named", "dies after", "outlived after", "rejects")) > 0


@pytest.mark.soak
def test_rows_aside_come_back_to_the_target_once(site: Site) -> None:
    _hold(site, range(3, 7))


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_rows_aside_come_back_once_in_many_lives(site: Site) -> None:
    _hold(site, range(100, 150))


@pytest.mark.soak
def test_without_the_ledger_rows_are_doubled(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    without_ledger(monkeypatch)
    assert any(site.life(seed)[1] for seed in range(8))
