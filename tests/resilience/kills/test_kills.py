"""SIGKILL at random instants of a drain: nothing is lost, and what comes twice is what docs/performance.md says of the
mode: by default the batch in a dead worker's hand. The rows of a customer stay in order."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from poller.model.timing import Timing
from tests.resilience.kills.fleet import Fleet, Worker
from tests.support.azurite import Azurite
from tests.support.cosmos import CosmosServer
from tests.support.moto import REGION, Moto
from tests.support.services import wait_until


@dataclass(frozen=True)
class Mode:
    """How batches are committed.

    Attributes:
        options: of the poller. uncommitted: batches that a crash repeats at most; 1: the last one, of its only lane.
        batch: rows of a batch. pace: seconds that it takes; shorter than a write, where batches are to share one.
    """

    options: str
    uncommitted: int
    batch: int = 100
    pace: float = 0.05


MODES = {
    "each": Mode("", 1),
    "grouped": Mode("max_uncommitted = 4", 4, batch=20, pace=0.005),
    "lanes": Mode('concurrency = 5\nordering_key = ["customer"]', 20, pace=0.25),
}


def _options(timing: Timing, mode: Mode) -> str:
    return (
        f'lease_ttl = "{timing.ttl * 1000:.0f}ms"\nheartbeat_interval = "{timing.heartbeat * 1000:.0f}ms"\n'
        f"batch_size = {mode.batch}\n{mode.options}"
    )


def _owner(fleet: Fleet) -> Worker | None:
    """Whoever works now and has begun a batch under its lease."""
    for worker in fleet.workers:
        token = worker.tenure
        if worker.process.poll() is None and token is not None:
            started = [event for event in worker.emitted("batch_started") if event["fencing_token"] == token]
            if started:
                return worker
    return None


def _find_owner(fleet: Fleet) -> Worker:
    wait_until(lambda: _owner(fleet) is not None, "somebody works", seconds=60)
    owner = _owner(fleet)
    assert owner is not None
    return owner


def _drain_under_kills(
    fleet: Fleet, timing: Timing, *, rows: int, rounds: int, chance: random.Random, mode: Mode
) -> list[float]:
    """Kill whoever works, `rounds` times; the seconds until another had taken over."""
    fleet.insert(1, rows)
    fleet.start()
    fleet.start()
    takeovers: list[float] = []
    killed: dict[int, Worker] = {}
    for _ in range(rounds):
        _find_owner(fleet)
        time.sleep(chance.uniform(0.0, 1.0))
        victim = _find_owner(fleet)
        victim.process.kill()
        victim.end()
        at, moment = time.monotonic(), time.time()
        token = victim.tenure
        assert token is not None, "it drains in one tick: it cannot have released"
        killed[token] = victim
        fleet.start()
        taken = _taken_over(fleet, token)
        takeovers.append(taken["arrived"] - at)
        last = victim.emitted("lease_acquired", "lease_taken_over", "lease_renewed", "batch_committed")[-1]
        # A taker waits for the margin too; but whole seconds may hasten it by one, and an event follows its write. The
        # owner's own deadline is past by then.
        assert _moment(taken) - _moment(last) >= timing.ttl, "the dead worker's lease was respected"
        _nobody_waits_longer(fleet, token, since=moment + timing.ttl + timing.margin + 1.0)
    (fleet.folder / "fast").touch()
    _await_all(fleet, rows)
    assert all(code == 0 for code in fleet.stop())
    assert not any(worker.emitted("halted", "lease_lost", "commit_unknown") for worker in fleet.workers)
    _ledger_is_good(fleet, rows, killed, mode)
    return takeovers


def _await_all(fleet: Fleet, rows: int) -> None:
    """Wait for all rows, for as long as there are more and more; with what is missing where there are not."""
    handled = -1

    def goes_on() -> bool:
        return fleet.count_handled() > handled

    while handled < rows:
        try:
            wait_until(goes_on, "another row is handled", seconds=60)
        except TimeoutError:
            missing = sorted({*range(1, rows + 1)} - {*fleet.handled()})
            last = [worker.events[-2:] for worker in fleet.workers if worker.process.poll() is None]
            raise AssertionError(f"{len(missing)} rows are missing, {missing[:3]} first; {last}") from None
        handled = fleet.count_handled()
        time.sleep(0.5)


def _nobody_waits_longer(fleet: Fleet, token: int, *, since: float) -> None:
    """Whoever looks ttl, margin and the second that the server's times may be cut by after the kill, finds it free.

    So the takeover comes with the first tick of any worker after that moment: how long that takes on a busy machine is
    another matter, and printed.
    """
    for worker in fleet.workers:
        for tick in worker.emitted("tick"):
            if tick["outcome"] == "held_elsewhere" and tick["fencing_token"] == token:
                assert _moment(tick) - tick["duration_seconds"] <= since, f"{worker} still found it held"


def _moment(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()


def _taken_over(fleet: Fleet, token: int) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        events = (event for worker in fleet.workers for event in worker.emitted("lease_taken_over"))
        return [event for event in events if event["previous_fencing_token"] == token]

    wait_until(lambda: bool(found()), f"the lease under token {token} is taken over", seconds=60)
    [taken] = found()
    return taken


def _ledger_is_good(fleet: Fleet, rows: int, killed: dict[int, Worker], mode: Mode) -> None:
    assert fleet.handled() == list(range(1, rows + 1)), "no row is lost"
    assert not fleet.interleaved(), "no older token wrote after a newer one"
    assert fleet.out_of_order() == 0
    last = fleet.last_batches()
    again: dict[int, set[str]] = {}
    for id_, token, batch in fleet.repeated():
        assert token in killed, f"row {id_} came again although the worker under token {token} was not killed"
        again.setdefault(token, set()).add(batch)
        if mode.uncommitted == 1:
            assert batch == last[token], f"row {id_} came again, and was not in the hand of the killed worker"
    assert max(map(len, again.values()), default=0) <= mode.uncommitted
    tokens = [
        event["fencing_token"]
        for event in sorted(
            (event for worker in fleet.workers for event in worker.emitted("lease_acquired", "lease_taken_over")),
            key=lambda event: event["at"],
        )
    ]
    assert all(before < after for before, after in pairwise(tokens)), tokens


def _summary(name: str, fleet: Fleet, takeovers: list[float]) -> str:
    """The figures of a drain, for whoever reads the test's output."""
    batches: dict[int, set[str]] = {}
    repeated = fleet.repeated()
    for _, token, batch in repeated:
        batches.setdefault(token, set()).add(batch)
    return (
        f"{name}: {len(takeovers)} kills, {len(fleet.handled())} rows handled, {len(repeated)} repeated in "
        f"{sum(map(len, batches.values()))} batches, {max(map(len, batches.values()), default=0)} after one kill at "
        f"most, takeover after {min(takeovers):.1f} to "
        f"{max(takeovers):.1f} s (mean {sum(takeovers) / len(takeovers):.1f}); the longest: "
        f"{[round(one, 1) for one in sorted(takeovers)[-5:]]}"
    )


def _chance() -> random.Random:
    """The instants of the kills: by the seed in POLLER_TEST_SEED, or one of its own; printed either way."""
    seed = int(os.environ.get("POLLER_TEST_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"\nthe instants of the kills: POLLER_TEST_SEED={seed}")
    return random.Random(seed)


TIMING = Timing(ttl=3, heartbeat=0.75)


@pytest.mark.guarantee("Delivery", "A crash at any instant loses nothing")
def test_killed_workers_lose_no_row_and_repeat_only_their_batch(fleets: Callable[..., Fleet]) -> None:
    mode = MODES["each"]
    fleet = fleets(options=_options(TIMING, mode), pace=mode.pace)
    assert len(_drain_under_kills(fleet, TIMING, rows=10_000, rounds=2, chance=_chance(), mode=mode)) == 2


def _state(store: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What a fleet is given for a state that is not in blobs."""
    if store == "table":
        pytest.importorskip("azure.data.tables", reason="needs the extra table")
        azurite: Azurite = request.getfixturevalue("azurite")
        return {"connection": azurite.connection_string_with_tables, "table": azurite.table_name()}
    if store == "s3":
        s3: Moto = request.getfixturevalue("s3")
        lines = f'bucket = "{s3.new_bucket()}"\nregion = "{REGION}"\nendpoint = "{s3.endpoint}"'
        return {"state": f'store = "s3"\n{lines}'}
    if store == "cosmos":
        cosmos: CosmosServer = request.getfixturevalue("cosmos_server")
        lines = f'connection = "STORAGE"\ncontainer = "{cosmos.new_container()}"'
        return {"state": f'store = "cosmos"\n{lines}', "connection": cosmos.connection_string}
    return {"state": f'store = "sql"\nurl = "{request.getfixturevalue("mariadb_db")}"'}


@pytest.mark.soak
@pytest.mark.parametrize("store", ["table", "s3", "cosmos", "sql"])
def test_elsewhere_too_kills_lose_no_row(
    fleets: Callable[..., Fleet], store: str, request: pytest.FixtureRequest
) -> None:
    mode = MODES["each"]
    fleet = fleets(options=_options(TIMING, mode), pace=mode.pace, **_state(store, request))
    takeovers = _drain_under_kills(fleet, TIMING, rows=6_000, rounds=2, chance=_chance(), mode=mode)
    assert len(takeovers) == 2
    print(_summary(store, fleet, takeovers))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("rounds", "rows"),
    [
        pytest.param(3, 8_000, marks=pytest.mark.soak),
        pytest.param(50, 100_000, marks=[pytest.mark.prove, pytest.mark.timeout(900)]),
    ],
)
def test_many_rounds_of_sigkill_lose_no_row(fleets: Callable[..., Fleet], rounds: int, rows: int, mode: str) -> None:
    chosen = MODES[mode]
    fleet = fleets(options=_options(TIMING, chosen), pace=chosen.pace)
    takeovers = _drain_under_kills(fleet, TIMING, rows=rows, rounds=rounds, chance=_chance(), mode=chosen)
    print(_summary(mode, fleet, takeovers))
