"""`max_uncommitted = 4`: the handler goes on while a commit is on its way; what landed counts, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from poller import Batch
from poller.errors import SourceUnavailable, StoreDenied, StoreUnavailable
from poller.observability import BatchCommitted, HandlerFailed
from tests.integration.runner.fakes import World, Worlds, add, settled
from tests.integration.runner.wire import denied


def grouped(worlds: Worlds, rows: int, seconds: float = 1.0, **options: Any) -> World:
    """A world of so many rows, whose store takes so many seconds for each write of a document under a lease."""
    world = settled(worlds(**{"max_uncommitted": 4, "batch_size": 1} | options))
    add(world, 1, rows)
    write = world.wire.write

    def slow(name: str, body: bytes, **how: Any) -> Any:
        if name.startswith("state/") and world.seen:
            world.runtime.sleep(seconds)
        return write(name, body, **how)

    world.wire.write = slow  # type: ignore[method-assign]
    return world


def checkpoint(world: World) -> int:
    cursor = world.state.checkpoint.cursor
    return 0 if cursor is None or cursor.tiebreaker is None else int(cursor.tiebreaker["id"])


def watching(world: World, seconds: float = 0.1) -> tuple[Callable[[Batch], None], list[tuple[int, int]]]:
    """A handler that notes the row it begins, and where the checkpoint stood then."""
    seen: list[tuple[int, int]] = []

    def handle(batch: Batch) -> None:
        seen.append((batch.rows[0]["id"], checkpoint(world)))
        world.take(batch)
        world.runtime.sleep(seconds)

    return handle, seen


def test_the_handler_goes_on_and_commits_share_a_write(worlds: Worlds) -> None:
    world = grouped(worlds, 20)
    handle, _ = watching(world)
    world.wire.forget()
    result = world.tick(handle)
    assert (result.outcome, result.rows, result.batches, world.delivered) == ("delivered", 20, 20, list(range(1, 21)))
    assert checkpoint(world) == 20
    assert len(world.wire.writes) <= 12, "with each by itself they are 21"
    assert world.state.lease.owner_id is None
    cursors = [event.cursor for event in world.emitted(BatchCommitted)]
    assert [int(cursor.rpartition("=")[2]) for cursor in cursors] == list(range(1, 21))


def test_a_quick_handler_fills_each_write(worlds: Worlds) -> None:
    world = grouped(worlds, 40)
    handle, seen = watching(world, 0.01)
    world.wire.forget()
    world.tick(handle)
    assert (checkpoint(world), max(begun - landed for begun, landed in seen)) == (40, 4)
    assert len(world.wire.writes) == 12, "the acquire, the first batch, nine times four, and the rest with the release"


def test_what_is_done_does_not_wait_for_a_call_that_takes_long(worlds: Worlds) -> None:
    world = grouped(worlds, 20)
    stood: list[int] = []

    def handle(batch: Batch) -> None:
        world.take(batch)
        if batch.rows[0]["id"] % 7 == 0:
            world.runtime.sleep(3)
            stood.append(checkpoint(world))

    world.tick(handle)
    assert stood == [6, 13]


@pytest.mark.guarantee(
    "Rows that commit late",
    "With `max_uncommitted = 4` nothing counts that was not written, and a crash repeats at most `max_uncommitted` "
    "batches",
)
def test_no_more_is_begun_than_may_be_repeated(worlds: Worlds) -> None:
    world = grouped(worlds, 20, max_uncommitted=3)
    handle, seen = watching(world)
    world.tick(handle)
    assert max(begun - landed for begun, landed in seen) == 3


def test_each_has_landed_before_the_next_begins(worlds: Worlds) -> None:
    world = settled(worlds(batch_size=1))
    add(world, 1, 10)
    handle, seen = watching(world)
    world.tick(handle)
    assert [begun - landed for begun, landed in seen] == [1] * 10


def test_a_failure_is_written_after_what_was_done_before_it(worlds: Worlds) -> None:
    world = grouped(worlds, 6)

    def handle(batch: Batch) -> None:
        world.take(batch)
        if batch.rows[0]["id"] == 4:
            raise ValueError("no such customer")

    result = world.tick(handle)
    assert (result.outcome, result.rows, checkpoint(world)) == ("handler_failed", 3, 3)
    (failed,) = world.emitted(HandlerFailed)
    assert failed.attempt == 1
    assert world.state.lease.owner_id is None
    assert world.tick_when_due().rows == 3
    assert world.delivered == [1, 2, 3, 4, 4, 5, 6]


def test_what_a_batch_may_forget_is_what_has_landed(worlds: Worlds) -> None:
    """A fenced sink prunes what cannot come again."""
    world = grouped(worlds, 10)
    seen: list[tuple[int, int, int]] = []

    def handle(batch: Batch) -> None:
        world.take(batch)
        seen.append((batch.rows[0]["id"], batch.standing.settled, batch.standing.through))
        assert batch.standing.settled <= checkpoint(world)
        world.runtime.sleep(0.3)

    world.tick(handle)
    assert [through for _, _, through in seen] == [begun for begun, _, _ in seen]
    assert seen[-1][1] < 9, "something was on its way"


def test_a_lost_lease_counts_nothing_that_has_not_landed(worlds: Worlds) -> None:
    world = grouped(worlds, 10)

    def handle(batch: Batch) -> None:
        world.take(batch)
        if len(world.seen) == 3:
            world.take_over()
        world.runtime.sleep(0.1)

    result = world.tick(handle)
    landed = checkpoint(world)
    assert result.outcome == "lease_lost"
    assert (result.rows, len(world.emitted(BatchCommitted))) == (landed, landed)
    assert len(world.delivered) <= 3 + 4


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=lambda error: type(error).__name__)
def test_who_ends_the_process_loses_nothing_that_was_done(worlds: Worlds, error: BaseException) -> None:
    world = grouped(worlds, 10)

    def handle(batch: Batch) -> None:
        if len(world.seen) == 3:
            raise error
        world.take(batch)

    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            world.tick(handle)
    else:
        assert world.tick(handle).outcome == "handler_failed"
    assert checkpoint(world) == 3
    assert world.state.lease.owner_id is None


def test_what_was_done_is_committed_before_an_outage_is_raised(worlds: Worlds) -> None:
    world = grouped(worlds, 30, read_ahead=0)
    world.table.faults.extend([None, None, None, SourceUnavailable("The database does not answer.", table="orders")])
    with pytest.raises(SourceUnavailable):
        world.tick()
    assert checkpoint(world) == len(world.delivered) == 3
    assert world.state.lease.owner_id is None


def test_a_commit_that_got_no_answer_is_sent_again_meanwhile(worlds: Worlds) -> None:
    world = grouped(worlds, 10)

    def refuses(_: Callable[[], Any]) -> Any:
        raise StoreUnavailable("The store does not answer.")

    def handle(batch: Batch) -> None:
        world.take(batch)
        if len(world.seen) == 1:
            world.wire.write_faults.extend([refuses, refuses])
        world.runtime.sleep(0.1)

    assert world.tick(handle).rows == 10
    assert (world.delivered, checkpoint(world)) == (list(range(1, 11)), 10)
    assert not world.wire.write_faults, "both were met"


# --- a call or a commit fails while other commits are on their way

ROWS = 12
MODES: dict[str, dict[str, Any]] = {
    "block": {"on_poison": "block"},
    "searched": {"on_poison": "block", "max_attempts": 1},
    "halt": {"on_poison": "halt", "max_attempts": 50},
    "quarantine": {"on_poison": "quarantine"},
}


@pytest.mark.guarantee(
    "Rows that commit late",
    "A call that fails while commits are on their way takes none of them back, and no commit follows one that the "
    "store refused",
)
@pytest.mark.parametrize("names", [False, True], ids=["raises", "names it"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bad", [2, 4, 5, 6])
def test_what_is_done_before_a_row_that_fails_comes_once(worlds: Worlds, bad: int, mode: str, names: bool) -> None:
    """The call fails while the commits of those before it are on their way, or wait for others that share their write:
    the first is on its way when the fifth row is called, and four wait then."""
    world = grouped(worlds, ROWS, 3.0, **MODES[mode])
    done: list[int] = []
    works = False

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.runtime.sleep(0.1)
        for one in batch:
            if one["id"] != bad or works:
                done.append(one["id"])
            elif names:
                batch.fail(one, "not now")
            else:
                raise ValueError("not now")

    assert world.tick(handle).outcome == "handler_failed"
    assert checkpoint(world) >= bad - 1, "what was done has landed with the failure"
    works = True
    for _ in range(4):
        world.tick_when_due(handle)
    assert Counter(done) == Counter(range(1, ROWS + 1))
    assert (checkpoint(world), world.state.aside) == (ROWS, ())


def test_no_commit_follows_one_that_failed(worlds: Worlds) -> None:
    """The store refuses a commit, and would take the next: then the checkpoint would pass rows that nothing reported,
    and that `poller recheck` would take for late."""
    world = grouped(worlds, ROWS, 3.0)
    refuses = 2

    def handle(batch: Batch) -> None:
        world.take(batch)
        if len(world.seen) == refuses:
            world.wire.write_faults.append(denied)

    with pytest.raises(StoreDenied):
        world.tick(handle)
    reported = sum(event.rows for event in world.emitted(BatchCommitted))
    assert checkpoint(world) == reported < len(world.delivered)
    for _ in range(2):
        world.tick_when_due()
    assert checkpoint(world) == ROWS
