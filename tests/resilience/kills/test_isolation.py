"""`isolation = "process"`: the handler in a child that can be cut, and that does not outlive its parent."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from poller import Handler, Poller, TickResult
from poller.errors import PollerError
from poller.model.document import State, decode
from poller.ports import Found, StateStore
from poller.runtime import SystemRuntime
from poller.stores import BlobStore, MemoryStore
from tests.resilience.faults import fault
from tests.resilience.faults.bench import NAME
from tests.resilience.faults.plan import NoFaults
from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.faults.shop import Shop
from tests.resilience.kills import children, slow_to_import
from tests.resilience.kills.children import gone
from tests.resilience.kills.fleet import Fleet
from tests.support.services import wait_until

ROWS = 5


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv(children.FOLDER, str(tmp_path))
    made = Shop(tmp_path, ROWS)
    yield made
    made.close()


@pytest.fixture
def store(proxy: FaultProxy, container: str) -> BlobStore:
    return BlobStore.from_connection_string(proxy.connection_string, container)


def _state(store: StateStore) -> State:
    found = store.read(NAME)
    assert isinstance(found, Found)
    return decode(found.body, location=NAME)


def _tick(poller: Poller, handler: Handler) -> TickResult:
    """On a thread of its own, so that one that hangs fails its test and no other."""
    ended: list[TickResult] = []
    threading.Thread(target=lambda: ended.append(poller.tick(handler)), daemon=True).start()
    wait_until(lambda: bool(ended), "the tick ends", seconds=90)
    return ended[0]


BRIEF: Any = {"handler_timeout": "1500ms", "max_attempts": 100}
"""Enough for what a handler here does."""


def _warm(poller: Poller, folder: Path) -> int:
    """Deliver what is there; the id of the child, which has started then."""
    wait_until(lambda: poller.tick(children.fine).outcome == "delivered", "a child has delivered")
    return int((folder / "pid").read_text())


def _insert(shop: Shop, rows: int) -> None:
    engine = sa.create_engine(shop.url)
    with engine.begin() as connection:
        connection.execute(
            sa.text("INSERT INTO orders VALUES (:id, '2026-05-01 00:00:00.000')"),
            [{"id": ROWS + n} for n in range(1, rows + 1)],
        )
    engine.dispose()


def test_a_handler_in_a_child_sees_the_lease_and_its_keys(shop: Shop, store: BlobStore, tmp_path: Path) -> None:
    poller = shop.poller(store, isolation="process", batch_size=2)
    result = poller.tick(children.fine)
    assert (result.outcome, result.rows, result.batches) == ("delivered", 5, 3)
    assert 0 < float((tmp_path / "remaining").read_text()) <= 3
    assert "orders" in (tmp_path / "key").read_text()
    pid = int((tmp_path / "pid").read_text())
    assert pid != os.getpid()
    poller.close()
    assert gone(pid)


def test_a_copy_of_the_handler_that_forked_answers_for_nobody(shop: Shop, tmp_path: Path) -> None:
    """The handler waits for the end of its copy, which has returned: only then is the batch done."""
    poller = shop.poller(MemoryStore(), isolation="process", batch_size=3)
    result = _tick(poller, children.forks)
    assert (result.outcome, result.rows, result.batches) == ("delivered", 5, 2)
    assert (tmp_path / "done").read_text().split() == [(tmp_path / "pid").read_text()] * 2
    poller.close()


def test_a_child_is_killed_at_the_deadline_and_its_work_discarded(
    shop: Shop, store: BlobStore, proxy: FaultProxy, tmp_path: Path
) -> None:
    """Nothing renews the lease any more; the handler is notified, then refused, then ended."""
    poller = shop.poller(store, isolation="process", lease_ttl="2s", heartbeat_interval="500ms")

    def cut_off(request: object) -> fault.Fault | None:
        return fault.black_hole() if (tmp_path / "pid").exists() else None

    proxy.plan = cut_off
    result = poller.tick(children.hangs)
    assert result.outcome == "lease_lost"
    assert (tmp_path / "lost").read_text() == "True"
    assert not (tmp_path / "survived").exists()
    assert gone(int((tmp_path / "pid").read_text()))
    proxy.plan = NoFaults()
    state = _state(store)
    assert state.checkpoint.cursor is None
    assert state.lease.owner_id is not None, "it was not released: it expires"


def test_a_child_is_killed_at_the_handler_timeout(shop: Shop, store: BlobStore, tmp_path: Path) -> None:
    poller = shop.poller(store, isolation="process", **BRIEF)
    child = _warm(poller, tmp_path)
    _insert(shop, 1)
    result = poller.tick(children.hangs_without_a_look)
    assert result.outcome == "handler_failed"
    assert "HandlerTimeout" in (result.error or "")
    assert gone(child)
    state = _state(store)
    assert state.delivery.last_error is not None
    assert state.delivery.last_error.type == "HandlerTimeout"
    assert state.lease.owner_id is None, "it is known to be dead, so the lease is given back"
    _warm(poller, tmp_path)


class Importing(SystemRuntime):
    """A clock that stands still, and goes on once: half a minute while the child imports its handler."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.passed = 0.0

    def monotonic(self) -> float:
        if self.passed == 0.0 and (self.folder / slow_to_import.BEGUN).exists():
            self.passed = 30.0
            (self.folder / slow_to_import.LONG_ENOUGH).touch()
        return self.passed


@pytest.mark.guarantee(
    "One worker at a time",
    "A handler's process that starts slowly is not a failure of its rows; one that hangs is ended, and the tick goes"
    " on",
)
def test_the_start_of_a_child_is_no_time_of_its_handler(shop: Shop, tmp_path: Path) -> None:
    runtime = Importing(tmp_path)
    options = {"lease_ttl": "10m", "heartbeat_interval": "3m", "handler_timeout": "5s"}
    poller = shop.poller(MemoryStore(), runtime=runtime, isolation="process", **options)
    assert poller.tick(slow_to_import.fine).outcome == "delivered"
    assert runtime.passed > poller.options.handler_limit.total_seconds()


def test_a_tick_goes_on_once_a_hung_handler_was_ended(shop: Shop, store: BlobStore) -> None:
    """The row is found and set aside, and those behind it are handed over, under one lease."""
    options: Any = {"handler_timeout": "1s", "on_poison": "quarantine", "max_attempts": 1}
    poller = shop.poller(store, isolation="process", batch_size=4, **options)
    assert _tick(poller, children.hangs_at_the_third).rows == 0
    assert _tick(poller, children.hangs_at_the_third).rows == 4
    state = _state(store)
    assert len(state.aside) + len(state.quarantine) == 1


def test_a_child_that_ends_itself_is_a_failure_of_its_handler(shop: Shop, store: BlobStore) -> None:
    poller = shop.poller(store, isolation="process")
    result = poller.tick(children.dies)
    assert result.outcome == "handler_failed"
    assert "HandlerDied" in (result.error or "")
    assert "7" in (result.error or "")
    assert _state(store).delivery.attempts == 1
    assert poller.tick(children.fine).outcome == "delivered"


def test_an_error_in_a_child_arrives_with_its_type_and_text(shop: Shop, store: BlobStore) -> None:
    result = shop.poller(store, isolation="process").tick(children.fails)
    assert result.outcome == "handler_failed"
    assert result.error == "ValueError: 5 rows are too many"


def test_a_child_does_not_outlive_a_parent_that_was_killed(fleets: Callable[..., Fleet]) -> None:
    fleet = fleets(options='isolation = "process"')
    fleet.insert(1, 10)
    fleet.hold("only")
    parent = fleet.start(name="only")
    fleet.await_inside("only")
    child = int((fleet.folder / "inside-only").read_text())
    assert child != parent.process.pid
    assert not gone(child)
    parent.signal(signal.SIGKILL)
    parent.end()
    wait_until(lambda: gone(child), "the orphan ends")
    assert not (fleet.folder / "outside-only").exists()


# --- a parent that is interrupted, a child that hangs, answers out of turn


class Alarm(Exception):
    """Raised by a signal handler, as services that limit a job's time do."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, Alarm])
def test_an_interrupted_parent_ends_its_child_before_the_release(
    shop: Shop, tmp_path: Path, error: type[BaseException]
) -> None:
    """And what the child was doing is taken for no other batch's end."""
    store = MemoryStore()
    poller = shop.poller(store, isolation="process", batch_size=1, lease_ttl="60s", heartbeat_interval="15s")

    def ring(*_: object) -> None:
        raise error

    def interrupt() -> None:
        wait_until((tmp_path / "pid").exists, "the handler began")
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, ring)
    ringing = threading.Thread(target=interrupt)
    try:
        ringing.start()
        try:
            assert poller.tick(children.waits).outcome == "handler_failed"
        except KeyboardInterrupt:
            assert error is KeyboardInterrupt
        assert gone(int((tmp_path / "pid").read_text()))
    finally:
        ringing.join()
        signal.signal(signal.SIGUSR1, before)
    assert _state(store).lease.owner_id is None
    assert (poller.tick(children.fails).error or "").endswith("ValueError: 1 rows are too many")
    assert _state(store).checkpoint.cursor is None


def test_a_stopped_child_that_reads_no_more_is_killed_in_time(shop: Shop, tmp_path: Path) -> None:
    """The batch is larger than what a socket takes in."""
    poller = shop.poller(MemoryStore(), isolation="process", batch_size=10_000, **BRIEF)
    child = _warm(poller, tmp_path)
    os.kill(child, signal.SIGSTOP)
    _insert(shop, 10_000)
    assert "HandlerTimeout" in (_tick(poller, children.fine).error or "")
    assert gone(child)


def test_a_child_stopped_at_a_look_at_the_lease_is_killed_too(shop: Shop, tmp_path: Path) -> None:
    poller = shop.poller(MemoryStore(), isolation="process", **BRIEF)
    child = _warm(poller, tmp_path)
    _insert(shop, 1)
    assert "HandlerTimeout" in (_tick(poller, children.is_stopped_at_a_look).error or "")
    assert gone(child)


def test_a_child_that_died_is_noticed_though_its_line_stays_open(shop: Shop, tmp_path: Path) -> None:
    poller = shop.poller(MemoryStore(), isolation="process")
    try:
        result = _tick(poller, children.dies_and_leaves_a_process)
    finally:
        os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
    assert result.error == "HandlerDied: its process ended with exit code 7"


def test_an_answer_to_an_earlier_batch_is_not_taken_for_this_ones(shop: Shop, tmp_path: Path) -> None:
    store = MemoryStore()
    poller = shop.poller(store, isolation="process", batch_size=3, max_batches_per_tick=1)
    assert _tick(poller, children.leaves_a_copy).rows == 3
    passed = _state(store).checkpoint.cursor
    assert _tick(poller, children.fails_a_little_later).outcome == "handler_failed"
    assert _state(store).checkpoint.cursor == passed


@pytest.mark.parametrize(
    ("made", "error"),
    [
        ("multiprocessing.context.SpawnProcess", BlockingIOError(11, "Resource temporarily unavailable")),
        ("poller.handler.subprocess._Exchange", RuntimeError("can't start new thread")),
    ],
)
def test_a_machine_without_room_for_a_child_is_no_handler_failure(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, made: str, error: Exception
) -> None:
    """Nothing ran, so nothing counts towards a halt."""
    store = MemoryStore()
    poller = shop.poller(store, isolation="process", max_attempts=1)

    def fail(self: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(f"{made}.start", fail)
        with pytest.raises(PollerError, match=r"room for one more process"):
            poller.tick(children.fine)
    assert (_state(store).delivery.attempts, _state(store).lease.owner_id) == (0, None)
    assert poller.tick(children.fine).rows == ROWS
