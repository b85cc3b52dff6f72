"""Several lanes with real threads, event loops and processes, on SQLite."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from poller import Batch, Poller
from poller.backfill import Range
from poller.backfill.ranges import RangeSource
from poller.handler.portable import NoRoom
from poller.model import transitions
from poller.model.document import decode, encode
from poller.ports import Found
from poller.sources import SqlSource
from poller.stores import MemoryStore

ROWS, LANES = 60, 4


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = f"sqlite:///{tmp_path}/orders.db"
    engine = sa.create_engine(made)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id int PRIMARY KEY, updated_at text NOT NULL)"))
        for number in range(1, ROWS + 1):
            at = f"2026-04-01 00:00:{number // 3:02d}"
            connection.execute(sa.text("INSERT INTO orders VALUES (:id, :at)"), {"id": number, "at": at})
    engine.dispose()
    return made


def poller(url: str, **options: Any) -> Poller:
    source = SqlSource(
        url, table="orders", cursor_column="updated_at", pk_columns=["id"], cursor_time_zone="UTC", bound="none"
    )
    return Poller(
        "orders",
        source=source,
        store=MemoryStore(),
        app_name="shop",
        **{"concurrency": LANES, "batch_size": 3, "retry_backoff": "1ms", "retry_backoff_max": "1ms", **options},
    )


def drained(poller: Poller, handler: Any, ticks: int = 20) -> list[str]:
    return [poller.tick(handler).outcome for _ in range(ticks)]


@pytest.mark.guarantee(
    "Rows that commit late",
    "With `concurrency` handlers run side by side: plain ones on a thread each, async ones on one event loop, with "
    '`isolation = "process"` in a process each that is ended alone',
)
def test_handlers_run_side_by_side(url: str) -> None:
    together, threads = threading.Barrier(LANES), set[int]()

    def handle(batch: Batch) -> None:
        first = threading.get_ident() not in threads
        threads.add(threading.get_ident())
        if first:
            together.wait(30)

    with closing(poller(url, batch_size=1)) as one:
        assert one.tick(handle).rows == ROWS
    assert len(threads) == LANES
    assert threading.get_ident() not in threads


def test_async_handlers_of_all_lanes_share_one_loop(url: str) -> None:
    loops, at_once = set[int](), 0
    together = asyncio.Event()

    async def handle(batch: Batch) -> None:
        nonlocal at_once
        loops.add(id(asyncio.get_running_loop()))
        at_once += 1
        if at_once >= LANES:
            together.set()
        await asyncio.wait_for(together.wait(), 30)

    with closing(poller(url)) as one:
        assert one.tick(handle).rows == ROWS
        assert one.tick(handle).outcome == "idle"
    assert len(loops) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_what_ends_one_async_handler_hangs_no_other(url: str, error: type[BaseException]) -> None:
    done, thrown = Counter[int](), False

    async def handle(batch: Batch) -> None:
        nonlocal thrown
        await asyncio.sleep(0)
        if not thrown and batch.rows[-1]["id"] > 20:
            thrown = True
            raise error
        await asyncio.sleep(0)
        done.update(row["id"] for row in batch)

    with closing(poller(url)) as one:
        try:
            assert one.tick(handle).outcome == "handler_failed"
        except (KeyboardInterrupt, GeneratorExit) as raised:
            assert isinstance(raised, error)  # noqa: PT017
        drained(one, handle)
    assert (thrown, done) == (True, Counter(range(1, ROWS + 1)))


def test_a_handler_that_stops_the_loop_of_all_lanes_holds_up_none(url: str) -> None:
    """As the shutdown code of a program does that was made for a loop of its own."""
    left, done, loops = Left(), Counter[int](), set[int]()
    client = list[asyncio.Task[None]]()

    async def handle(batch: Batch) -> None:
        if not client:
            client.append(asyncio.create_task(left.task()))
        loops.add(id(asyncio.get_running_loop()))
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.001)
        done.update(row["id"] for row in batch)

    with closing(poller(url)) as one:
        assert one.tick(handle).rows == ROWS
        assert one.tick(handle).outcome == "idle"
        assert not client[0].done()
    assert done == Counter(range(1, ROWS + 1))
    assert (len(loops), left.ended) == (1, ["task"])


def test_a_loop_whose_thread_cannot_start_is_tried_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done, start = Counter[int](), threading.Thread.start

    def refuses(self: threading.Thread) -> None:
        if self.name == "poller-handlers":
            raise RuntimeError("can't start new thread")
        start(self)

    async def handle(batch: Batch) -> None:
        await asyncio.sleep(0)
        done.update(row["id"] for row in batch)

    with closing(poller(url)) as one:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuses)
            with pytest.raises(NoRoom, match="event loop of the handlers"):
                one.tick(handle)
        drained(one, handle, 3)
    assert done == Counter(range(1, ROWS + 1))


def test_a_lost_lease_cancels_the_async_handlers_of_all_lanes(url: str) -> None:
    begun, cancelled = Counter[int](), Counter[int]()
    one = poller(url, lease_ttl="3s", heartbeat_interval="200ms")

    async def handle(batch: Batch) -> None:
        begun[batch.standing.lane] += 1
        if len(begun) == LANES:
            taken_over(one)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled[batch.standing.lane] += 1
            raise

    with closing(one):
        assert one.tick(handle).outcome == "lease_lost"
    assert begun == cancelled == Counter(range(LANES))


class Left:
    """What a call may leave behind: a task, and a thread. Neither ends at once when it is cancelled."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def task(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)
            self.ended.append("task")

    async def thread(self) -> None:
        def work() -> None:
            threading.Event().wait(0.3)
            self.ended.append("thread")

        await asyncio.to_thread(work)


def test_an_async_handler_that_failed_leaves_nothing_running(url: str) -> None:
    """`asyncio.gather` lets the others go on when one fails: they would write beside the next try of their rows."""
    left = Left()

    async def fails() -> None:
        await asyncio.sleep(0.05)
        raise ValueError("no")

    async def handle(batch: Batch) -> None:
        if batch.rows[0]["id"] == 1:
            await asyncio.gather(left.task(), left.thread(), fails())

    with closing(poller(url)) as one:
        assert one.tick(handle).error == "ValueError: no"
        assert sorted(left.ended) == ["task", "thread"]


def test_a_lost_lease_leaves_nothing_running(url: str) -> None:
    """`asyncio.wait` does not cancel what it waits for."""
    left = Left()
    one = poller(url, lease_ttl="3s", heartbeat_interval="200ms")

    async def handle(batch: Batch) -> None:
        if batch.rows[0]["id"] == 1:
            work = [asyncio.create_task(left.task()), asyncio.create_task(left.thread())]
            taken_over(one)
            await asyncio.wait(work)

    with closing(one):
        assert one.tick(handle).outcome == "lease_lost"
        assert sorted(left.ended) == ["task", "thread"]


def test_a_client_of_all_lanes_lives_until_the_poller_is_closed(url: str) -> None:
    left, reader = Left(), list[asyncio.Task[None]]()

    async def handle(batch: Batch) -> None:
        if not reader:
            reader.append(asyncio.create_task(left.task()))
        await asyncio.sleep(0)

    with closing(poller(url)) as one:
        assert one.tick(handle).rows == ROWS
        assert not reader[0].done()
    assert left.ended == ["task"]


def taken_over(one: Poller) -> None:
    """Another owner has its lease now."""
    name = "state/shop/orders.json"
    found = one.store.read(name)
    assert isinstance(found, Found)
    state = decode(found.body, location=name)
    taken = transitions.acquire(state, owner_id="other/1", ttl=60.0, now=datetime.now(UTC))
    one.store.write(name, encode(taken), if_tag=found.tag)


def hang_once(batch: Batch) -> None:
    """In a child process: the call with row 1 hangs the first time; each notes its process."""
    folder = Path(os.environ["LANES_FOLDER"])
    ids = [row["id"] for row in batch]
    (folder / f"pid-{batch.standing.lane}-{os.getpid()}").touch()
    if 1 in ids and not (folder / "hung").exists():
        (folder / "hung").touch()
        threading.Event().wait()
    for number in ids:
        with (folder / "done").open("a") as file:
            file.write(f"{number}\n")


def test_a_range_is_delivered_once_whatever_ends_its_ticks(url: str) -> None:
    """A backfill: the first lane is behind the others wherever a tick ends."""
    done = Counter[int]()
    whole = SqlSource(
        url, table="orders", cursor_column="updated_at", pk_columns=["id"], cursor_time_zone="UTC", bound="none"
    )
    low, high = (whole.parse_cursor(f"2026-04-01 00:00:{second}", None) for second in ("02", "18"))
    source = RangeSource(whole, Range(low, high))
    others = threading.Semaphore(0)

    def handle(batch: Batch) -> None:
        if batch.standing.lane or batch.standing.lanes == 1:
            others.release()
        else:
            for _ in range(8):
                others.acquire(timeout=0.03)
        done.update(row["id"] for row in batch)

    options: dict[str, Any] = {"concurrency": LANES, "batch_size": 1, "max_batches_per_tick": 9, "max_uncommitted": 20}
    with closing(Poller("orders", source=source, store=MemoryStore(), app_name="shop", **options)) as one:
        drained(one, handle, 12)
    assert done == Counter(range(6, 54))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANES_FOLDER", str(tmp_path))
    return tmp_path


def test_each_lane_has_a_process_that_is_ended_alone(url: str, folder: Path) -> None:
    options = {"concurrency": 2, "isolation": "process", "handler_timeout": "2s", "tick_timeout": "60s"}
    with closing(poller(url, **options)) as one:
        first = one.tick(hang_once)
        assert first.outcome == "handler_failed"
        assert "HandlerTimeout" in (first.error or "")
        pids = {path.name.split("-")[1]: path.name.split("-")[2] for path in folder.glob("pid-*")}
        assert len(set(pids.values())) == len(pids) == 2
        drained(one, hang_once, 3)
    done = Counter(int(line) for line in (folder / "done").read_text().split())
    assert done == Counter(range(1, ROWS + 1))
