"""`poller prune` of change tables: below every reader, no row that waits, and every reader can know of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest

from poller.admin import Refused
from poller.databases.mysql import capture as mysql_capture
from poller.model.document import State, decode, encode
from poller.ports import Found
from tests.integration.prune.world import World

FAMILIES = ["postgres_db", "mariadb_db", "sqlite_url"]


class Pauses(threading.Event):
    """Is never set, and counts how often it is waited for."""

    pauses = 0

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses += 1
        return False


@pytest.fixture
def lite(sqlite_url: str, tmp_path: Path) -> Iterator[World]:
    """For what is the same on all databases."""
    made = World(sqlite_url, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=FAMILIES)
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(mysql_capture, "PRUNING", replace(mysql_capture.PRUNING, spared=0))
    made = World(request.getfixturevalue(request.param), tmp_path)
    yield made
    made.close()


def copy(world: World, of: str, **source: str) -> None:
    """A poller of another application with the state of one of ours, of a source that differs in this."""
    found = world.app.store.read(f"state/shop/{of}.json")
    assert isinstance(found, Found)
    state: State = decode(found.body, location="here")
    theirs = state.model_copy(update={"poller_name": "copy", "source": {**(state.source or {}), **source}})
    world.app.store.write("state/other/copy.json", encode(theirs), if_tag=None)


def test_what_the_slowest_reader_needs_stays(world: World) -> None:
    world.insert(5)
    world.deliver("slow")
    world.insert(5)
    world.deliver("fast")
    world.age(2)
    plan = world.prune().plan()
    assert [(one.name, one.done) for one in plan.readers] == [("shop/slow", 5), ("shop/fast", 10)]
    assert (plan.rows, plan.captured, world.left()) == (5, True, list(range(1, 11)))
    done = world.prune().run()
    assert (done.rows, done.through) == (5, 5)
    assert (world.left(), world.pruned_through()) == ([6, 7, 8, 9, 10], 5)
    world.deliver("slow")
    assert world.prune().run().rows == 5
    assert (world.left(), world.pruned_through()) == ([], 10)
    assert world.prune().run().rows == 0
    assert world.pruned_through() == 10


def test_rows_that_wait_stay_and_hold_up_no_other(world: World) -> None:
    world.insert(6)
    world.deliver("fast", rejected=[2])
    world.deliver("slow", rejected=[4])
    world.age(2)
    assert world.prune().run().rows == 4
    assert (world.left(), world.pruned_through()) == ([2, 4], 6)


def test_changes_that_are_too_young_stay(world: World) -> None:
    world.insert(6)
    world.deliver("fast", "slow")
    world.age(3, through=4)
    assert world.prune(age=timedelta(hours=4)).run().rows == 0
    assert world.prune(age=timedelta(hours=2)).run().rows == 4
    assert (world.left(), world.pruned_through()) == ([5, 6], 4)


def test_seven_days_is_the_age_if_nothing_is_said(lite: World) -> None:
    lite.insert(2)
    lite.deliver("fast", "slow")
    lite.age(24 * 7 + 1, through=1)
    assert lite.prune(age=None).run().rows == 1


def test_without_a_checkpoint_nothing_is_deleted(lite: World) -> None:
    lite.insert(3)
    lite.age(2)
    with pytest.raises(Refused, match="no poller that reads it has a checkpoint"):
        lite.prune().plan()
    lite.deliver("fast")
    with pytest.raises(Refused, match="slow reads it too, and never ran"):
        lite.prune().run()
    assert lite.left() == [1, 2, 3]


def test_a_document_that_cannot_be_read_refuses(lite: World) -> None:
    lite.insert(3)
    lite.deliver("fast", "slow")
    lite.age(2)
    lite.app.store.write("state/other/unreadable.json", b"{", if_tag=None)
    with pytest.raises(Refused, match="not known whether other/unreadable needs its rows"):
        lite.prune().run()
    assert lite.left() == [1, 2, 3]


def test_a_reader_of_another_application_counts(lite: World) -> None:
    lite.insert(3)
    lite.deliver("fast")
    copy(lite, "fast")
    lite.insert(3)
    lite.deliver("fast", "slow")
    lite.age(2)
    assert lite.prune().run().rows == 3


def test_a_backfill_that_is_finished_does_not_count(lite: World) -> None:
    lite.insert(3)
    lite.deliver("fast")
    found = lite.app.store.read("state/shop/fast.json")
    assert isinstance(found, Found)
    state = decode(found.body, location="here")
    done = state.checkpoint.model_copy(update={"metadata": {"backfill_finished_at": "2026-04-07T00:00:00Z"}})
    ended = state.model_copy(update={"poller_name": "again", "checkpoint": done})
    lite.app.store.write("state/shop/again.json", encode(ended), if_tag=None)
    lite.insert(3)
    lite.deliver("fast", "slow")
    lite.age(2)
    assert lite.prune().run().rows == 6


def test_a_reader_of_another_table_does_not_count(lite: World) -> None:
    lite.insert(3)
    lite.deliver("fast")
    copy(lite, "fast", table="poller_other_changes")
    lite.insert(3)
    lite.deliver("fast", "slow")
    lite.age(2)
    assert lite.prune().run().rows == 6


def test_chunks_are_transactions_of_their_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module(f"poller.databases.{world.family}.capture")
    monkeypatch.setattr(module, "PRUNING", replace(module.PRUNING, chunk=4))
    world.insert(11)
    world.deliver("fast", "slow")
    world.age(2)
    stop = Pauses()
    assert world.prune().run(stop).rows == 11
    assert (stop.pauses, world.left(), world.pruned_through()) == (2, [], 11)


def test_the_newest_rows_stay_in_mariadb(mariadb_db: str, tmp_path: Path) -> None:
    world = World(mariadb_db, tmp_path)
    world.insert(1010)
    world.deliver("fast", "slow")
    world.age(2)
    assert world.prune().plan().rows == world.prune().run().rows == 10
    assert world.left()[0] == 11
    world.close()
