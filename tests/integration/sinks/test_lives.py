"""Effectively once with real ticks that set rows aside: the target is the source, nothing twice, nothing older."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from tests.integration.sinks.conftest import emptied
from tests.integration.sinks.controls import without_ledger
from tests.integration.sinks.lives import Life, Mode
from tests.integration.sinks.target import engine_of

SERVERS = ["sqlite", "postgres", "mariadb"]
MODES = {"each": Mode(), "grouped": Mode(grouped=True), "2 lanes": Mode(lanes=2), "8 lanes": Mode(lanes=8)}


class Site:
    """A target, and the engines of three processes that write to it."""

    def __init__(self, shop: Engine, folder: Path) -> None:
        self.shop, self.folder = shop, folder
        url = shop.url.render_as_string(hide_password=False)
        self.engines = [engine_of(url) for _ in range(3)]

    def life(self, seed: int, mode: str) -> tuple[Life, list[str]]:
        """A life on an empty target, and what it broke."""
        emptied(self.shop)
        with self.shop.begin() as connection:
            connection.execute(text("DROP TABLE IF EXISTS latest"))  # another test's, in the same database
            connection.execute(text("CREATE TABLE latest (id INTEGER PRIMARY KEY, version INTEGER)"))
        for engine in self.engines:
            engine.dispose()
        life = Life(seed, self.folder, self.engines, MODES[mode])
        life.live()
        return life, life.laws(self.shop)


SOAKED = {("sqlite", "2 lanes"), ("postgres", "8 lanes"), ("mariadb", "grouped")}
LONGER = [
    pytest.param(server, mode, marks=pytest.mark.soak if (server, mode) in SOAKED else pytest.mark.prove)
    for server in SERVERS
    for mode in MODES
]
"""Each server in one mode for `make soak`, in the others for `make prove`."""


@pytest.fixture
def site(request: pytest.FixtureRequest, databases: dict[str, Engine], tmp_path: Path) -> Iterator[Site]:
    made = Site(databases[request.param], tmp_path)
    yield made
    for engine in made.engines:
        engine.dispose()


def _hold(site: Site, seeds: range, mode: str) -> None:
    seen: Counter[str] = Counter()
    grown = most = 0
    for seed in seeds:
        life, broken = site.life(seed, mode)
        assert broken == [], f"seed {seed}"
        if life.mode.lanes == 1:
            assert life.grown <= life.mode.uncommitted + 2, f"seed {seed}: the ledger has grown"
        seen, grown, most = seen + life.seen, max(grown, life.grown), max(most, life.most)
    print(f"{len(seeds)} lives, {mode}: {dict(seen)}, {most} calls at once, {grown} entries of the ledger at most")
    assert min(seen[what] for what in ("retried", "killed", "named", "dies after", "outlived after", "rejects")) > 0
    assert most == MODES[mode].lanes


@pytest.mark.guarantee(
    "Delivery",
    "With a fenced sink rows that were set aside, tried again or outlived reach the target once",
)
@pytest.mark.parametrize(("site", "mode"), LONGER, indirect=["site"])
def test_rows_aside_come_back_to_the_target_once(site: Site, mode: str) -> None:
    _hold(site, range(3, 7 if MODES[mode].lanes == 1 else 11), mode)


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("site", SERVERS, indirect=True)
@pytest.mark.parametrize("mode", MODES)
def test_rows_aside_come_back_once_in_many_lives(site: Site, mode: str) -> None:
    _hold(site, range(100, 150), mode)


@pytest.mark.parametrize(("site", "mode"), LONGER, indirect=["site"])
def test_without_the_ledger_rows_are_doubled(site: Site, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_ledger(monkeypatch)
    assert any(site.life(seed, mode)[1] for seed in range(8))
