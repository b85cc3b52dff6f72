"""Nine bad rows among many, and workers that are killed every few seconds: those nine wait for a person, and all others
arrive once in a fenced target."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.resilience.poison.site import Bad, Site
from tests.support.azurite import Azurite

ATTEMPTS = 2
OPTIONS = """on_poison = "quarantine"
max_attempts = {attempts}
retry_backoff = "100ms"
retry_backoff_max = "1s"
lease_ttl = "{ttl}"
batch_size = {batch}
handler_timeout = "{timeout}"
isolation = "{isolation}"
"""


@pytest.fixture
def sites(azurite: Azurite, container: str, postgres_db: str, tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Makes a site on a fresh database and container."""
    made: list[Site] = []

    def make(bad: Bad, *, options: str, workers: int = 2) -> Site:
        site = Site(
            tmp_path,
            postgres_db,
            bad=bad,
            workers=workers,
            options=options,
            connection=azurite.connection_string,
            container=container,
        )
        made.append(site)
        return site

    yield make
    for site in made:
        site.close()
        site.store.close()


def _chance() -> random.Random:
    """The instants of the kills: by the seed in POLLER_TEST_SEED, or one of its own; printed either way."""
    seed = int(os.environ.get("POLLER_TEST_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"\nthe instants of the kills: POLLER_TEST_SEED={seed}")
    return random.Random(seed)


def _bad(rows: int, **how: Any) -> Bad:
    """Nine rows, far from each other: no two in one batch."""
    nine = [rows * (2 * number + 1) // 20 + 7 * number for number in range(9)]
    return Bad(fails=(*nine[:3], *nine[4:6], *nine[7:]), exits=(nine[3],), hangs=(nine[6],), **how)


def _drained(site: Site, *, rows: int, batch: int, kills: int, every: tuple[float, float], seconds: float) -> None:
    """All rows but the bad ones arrive once, those wait for a person, and each was found in few calls. With figures."""
    site.grow(rows)
    site.drain(kills=kills, every=every, chance=_chance(), seconds=seconds)
    assert set(site.stop()) <= {0}
    good = set(range(1, site.rows + 1)) - site.bad.ids
    assert site.arrived() == Counter(dict.fromkeys(good, 1))
    assert set(site.pending()) == site.bad.ids
    twice = site.handed_over_twice()
    bound = 2 * math.log2(batch) + 4
    found = {id_: site.calls_to_find(id_, attempts=ATTEMPTS) for id_ in sorted(site.bad.ids)}
    print(
        f"{site.rows} rows, {site.kills} kills, {len(site.calls())} calls, each bad row found in "
        f"{list(found.values())} (at most {bound:.0f}); good rows handed over twice: "
        f"{ {why: len(ids) for why, ids in twice.items()} }"
    )
    assert not twice["done"], f"reported done, and nobody was killed: {twice['done']}, {site.folder}/calls.txt"
    assert not twice["unexplained"], f"failed without a bad row: {twice['unexplained']}, {site.folder}/calls.txt"
    counted = [calls for calls in found.values() if calls is not None]
    assert counted, "each search was cut short by a kill"
    assert max(counted) <= bound, found


def _replayed(site: Site) -> None:
    """Once the handler is mended, a person has them delivered. On a busy machine a call may take longer than
    `handler_timeout`, and ends the replay: the same command goes on."""
    (site.folder / "mended").touch()
    said = []
    for _ in site.bad.ids:
        ended = site.command("quarantine", "replay", "orders", "--all", "--yes", "--reason", "mended")
        said.append(f"{ended.stdout}{ended.stderr}")
        if ended.returncode == 0:
            break
    assert len(said) < len(site.bad.ids), said
    assert site.arrived() == Counter(dict.fromkeys(range(1, site.rows + 1), 1))
    assert not site.state.quarantine


@pytest.mark.prove
@pytest.mark.timeout(700)
@pytest.mark.parametrize("reports", [False, True], ids=["raises", "reports"])
def test_bad_rows_wait_and_the_others_arrive_once(sites: Callable[..., Site], reports: bool) -> None:
    options = OPTIONS.format(attempts=ATTEMPTS, ttl="2s", batch=8, timeout="2s", isolation="process")
    site = sites(_bad(800, reports=reports), options=options)
    _drained(site, rows=800, batch=8, kills=2, every=(0.0, 1.0), seconds=600)
    _replayed(site)


@pytest.mark.prove
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("isolation", ["process", "thread"])
@pytest.mark.parametrize("reports", [False, True], ids=["raises", "reports"])
def test_nine_bad_rows_of_100_000_wait(sites: Callable[..., Site], reports: bool, isolation: str) -> None:
    bad = _bad(100_000, reports=reports, hangs_in_thread=isolation == "thread")
    options = OPTIONS.format(attempts=ATTEMPTS, ttl="3s", batch=500, timeout="2s", isolation=isolation)
    site = sites(bad, options=options, workers=3)
    _drained(site, rows=100_000, batch=500, kills=20, every=(0.0, 1.0), seconds=2400)
    _replayed(site)
