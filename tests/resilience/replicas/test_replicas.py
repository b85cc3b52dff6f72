"""Sixteen pollers whose handlers wait, four processes on PostgreSQL and Azurite: they work side by side, and whoever is
killed is followed by others, with nothing lost."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.resilience.replicas.herd import Herd
from tests.support.azurite import Azurite
from tests.support.services import wait_until

POLLERS, PROCESSES = 16, 4
MARGIN = 2.0
"""Seconds, of a lease of 3 s: `Timing.margin`."""


@pytest.fixture
def herds(azurite: Azurite, container: str, postgres_db: str, tmp_path: Path) -> Iterator[Callable[..., Herd]]:
    made: list[Herd] = []

    def make(*, pace: float, rows: int, batch: int = 5) -> Herd:
        herd = Herd(tmp_path, postgres_db, azurite.connection_string, container, POLLERS, pace, batch)
        made.append(herd)
        herd.insert(rows)
        return herd

    yield make
    for herd in made:
        herd.close()


def all_at_work(herd: Herd, since: str | None = None) -> list[float]:
    """Wait until each poller was worked on; after how many seconds each was."""
    since = since or herd.now()

    def all_are() -> bool:
        time.sleep(0.2)
        return len(herd.at_work_after(since)) == POLLERS

    wait_until(all_are, "all are at work", seconds=90)
    return herd.at_work_after(since)


def rate(herd: Herd, seconds: float) -> float:
    """Rows in a second."""
    before, began = herd.handled(), time.monotonic()
    time.sleep(seconds)
    return (herd.handled() - before) / (time.monotonic() - began)


@pytest.mark.prove
def test_four_processes_do_the_work_of_twelve_at_a_time(herds: Callable[..., Herd]) -> None:
    """The handler waits a second for each batch of five. One that works one at a time does at most one a second."""
    herd = herds(pace=1.0, rows=2000)
    alone = herd.start("--max-concurrent", "1")
    wait_until(lambda: herd.handled() >= 15, "it works", seconds=60)
    one = rate(herd, 20)
    alone.terminate()
    alone.wait(30)
    for _ in range(PROCESSES):
        herd.start()
    all_at_work(herd)
    several = rate(herd, 20)
    print(f"\none at a time: {one:.2f} rows/s; {PROCESSES} processes: {several:.2f}; {several / one:.1f} times")
    assert several >= 12 * one


@pytest.mark.guarantee(
    "One worker at a time",
    "Processes that share pollers work side by side, and others follow a killed one: nothing is lost or out of order",
)
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(3, marks=[pytest.mark.soak, pytest.mark.timeout(240)]),
        pytest.param(30, marks=[pytest.mark.prove, pytest.mark.timeout(900)]),
    ],
)
def test_a_kill_every_two_seconds_loses_nothing(herds: Callable[..., Herd], kills: int) -> None:
    seed = int(os.environ.get("POLLER_TEST_SEED") or random.SystemRandom().randrange(1_000_000))
    chance, last = random.Random(seed), ""
    rows = 150 + 40 * kills
    herd = herds(pace=0.25, rows=rows)
    for _ in range(PROCESSES):
        herd.start()
    all_at_work(herd)
    for _ in range(kills):
        time.sleep(2)
        victim = chance.choice([process for process in herd.processes if process.poll() is None])
        victim.kill()
        victim.wait()
        last = herd.now()
        herd.start()
    back = all_at_work(herd, last)
    herd.hurry()
    wait_until(lambda: herd.handled() == POLLERS * rows, "every row is handled", seconds=200)
    assert set(herd.stop()) == {0}
    total = int(herd.execute("SELECT count(*) FROM ledger")[0][0])
    assert (herd.out_of_order(), herd.stale()) == (0, 0)
    again = total - POLLERS * rows
    assert again <= 5 * POLLERS * kills, "no more than the batches in the hands of those that were killed"
    print(
        f"\nPOLLER_TEST_SEED={seed}: {kills} kills, {POLLERS * rows} rows, 0 lost, {again} came twice; all {POLLERS} "
        f"at work again {back[-1]:.1f} s after the last kill, half of them {back[POLLERS // 2]:.1f} s (lease and "
        f"margin: {3 + MARGIN:.0f} s)"
    )
