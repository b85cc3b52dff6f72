"""What a handler in a child process starts ends with it; it may start programs and processes, and terminate them; and
it ends at the lease's deadline though its parent is stopped."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from poller import Handler, TickResult
from poller.stores import MemoryStore
from tests.resilience.faults.shop import Shop
from tests.resilience.kills import children
from tests.resilience.kills.children import gone
from tests.resilience.kills.fleet import Fleet
from tests.support.services import wait_until


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv(children.FOLDER, str(tmp_path))
    made = Shop(tmp_path, 5)
    yield made
    made.close()


def _tick(shop: Shop, handler: Handler, **options: Any) -> TickResult:
    ended: list[TickResult] = []
    poller = shop.poller(MemoryStore(), isolation="process", lease_ttl="90s", **options)
    threading.Thread(target=lambda: ended.append(poller.tick(handler)), daemon=True).start()
    wait_until(lambda: bool(ended), "the tick ends", seconds=80)
    return ended[0]


def _noted(folder: Path, name: str) -> int:
    return int((folder / name).read_text())


@pytest.mark.parametrize("handler", [children.waits_for_a_program, children.dies_beside_a_program])
def test_a_program_that_the_handler_started_ends_with_it(shop: Shop, tmp_path: Path, handler: Handler) -> None:
    """At the handler's timeout, and where the child ended itself."""
    result = _tick(shop, handler, handler_timeout="2s")
    assert result.outcome == "handler_failed"
    program = _noted(tmp_path, "program")
    wait_until(lambda: gone(program), "the program ends")


def test_a_program_of_the_handler_can_be_terminated(shop: Shop, tmp_path: Path) -> None:
    """It does not inherit that the child ignores SIGTERM."""
    assert _tick(shop, children.terminates_a_program).outcome == "delivered"
    assert _noted(tmp_path, "ended") == -signal.SIGTERM


def test_a_handler_in_a_child_may_use_multiprocessing(shop: Shop, tmp_path: Path) -> None:
    """Also its pools, which terminate their processes at the end."""
    result = _tick(shop, children.uses_a_pool, handler_timeout="30s")
    assert (result.outcome, result.error) == ("delivered", None)
    assert (tmp_path / "made").read_text() == "[1, 2]"


def test_a_program_ends_with_a_parent_that_was_killed(
    fleets: Callable[..., Fleet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(children.FOLDER, str(tmp_path))
    fleet = fleets(options='isolation = "process"', handler="tests.resilience.kills.children:waits_for_a_program")
    fleet.insert(1, 10)
    parent = fleet.start(name="only")
    wait_until((tmp_path / "pid").exists, "the handler works", seconds=60)
    started = _noted(tmp_path, "pid"), _noted(tmp_path, "program")
    parent.signal(signal.SIGKILL)
    parent.end()
    wait_until(lambda: all(gone(one) for one in started), "the child and its program end")


@pytest.mark.skipif(sys.platform != "linux", reason="no other system signals a child at its parent's end")
def test_a_stopped_child_ends_with_a_parent_that_was_killed(
    fleets: Callable[..., Fleet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the program that it started."""
    monkeypatch.setenv(children.FOLDER, str(tmp_path))
    fleet = fleets(options='isolation = "process"', handler="tests.resilience.kills.children:waits_for_a_program")
    fleet.insert(1, 10)
    parent = fleet.start(name="only")
    wait_until((tmp_path / "pid").exists, "the handler works", seconds=60)
    child, program = _noted(tmp_path, "pid"), _noted(tmp_path, "program")
    os.kill(child, signal.SIGSTOP)
    try:
        parent.signal(signal.SIGKILL)
        parent.end()
        wait_until(lambda: gone(child) and gone(program), "the child and its program end")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


def test_a_child_ends_at_the_deadline_though_its_parent_is_stopped(fleets: Callable[..., Fleet]) -> None:
    """Its parent can end nothing; and it must not go on beside the next owner."""
    fleet = fleets(options='isolation = "process"\nlease_ttl = "3s"\nheartbeat_interval = "750ms"')
    fleet.insert(1, 10)
    fleet.hold("stopped")
    parent = fleet.start(name="stopped")
    fleet.await_inside("stopped")
    child = _noted(fleet.folder, "inside-stopped")
    try:
        parent.signal(signal.SIGSTOP)
        wait_until(lambda: gone(child), "the child ends")
        assert not (fleet.folder / "outside-stopped").exists()
    finally:
        fleet.let_go("stopped")
        parent.signal(signal.SIGCONT)
    wait_until(lambda: fleet.count_handled() == 10, "another child goes on", seconds=60)


def test_a_child_ends_with_its_parent_though_that_left_a_copy(shop: Shop, tmp_path: Path) -> None:
    """The copy keeps what the parent had open."""
    parent = os.fork()
    if parent == 0:
        ticking = threading.Thread(
            target=lambda: shop.poller(MemoryStore(), isolation="process", lease_ttl="90s").tick(children.waits)
        )
        ticking.start()
        wait_until((tmp_path / "pid").exists, "the handler works", seconds=60)
        copy = os.fork()
        if copy == 0:
            signal.pause()
        children.note("copy", copy)
        signal.pause()
    try:
        wait_until((tmp_path / "copy").exists, "it left a copy", seconds=90)
    finally:
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
    try:
        child = _noted(tmp_path, "pid")
        wait_until(lambda: gone(child), "the child ends")
    finally:
        os.kill(_noted(tmp_path, "copy"), signal.SIGKILL)
