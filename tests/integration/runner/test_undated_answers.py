"""Answers without the server's times, as some proxies pass them on: a lease must expire all the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from poller.ports import Found, Timeout, Unchanged
from tests.integration.runner.clockwork import MIDNIGHT
from tests.integration.runner.fakes import World, Worlds
from tests.integration.runner.wire import Answer, Wire

TTL, MARGIN = 60.0, 5.0


class Undated(Wire):
    """Takes times from its answers: of a 304 always, of a 200 those named."""

    strips: tuple[str, ...] = ()
    forgets = False

    def read(self, name: str, *, unless: str | None = None, timeout: Timeout | None = None) -> Answer:
        answer = super().read(name, unless=None if self.forgets else unless, timeout=timeout)
        if isinstance(answer, Found):
            undated = answer if "server_time" not in self.strips else replace(answer, server_time=None)
            return undated if "modified_at" not in self.strips else replace(undated, modified_at=None)
        return Unchanged(None) if isinstance(answer, Unchanged) else answer


def held_by_the_dead(worlds: Worlds, *strips: str, forgets: bool = False) -> World:
    """A world whose lease was taken 20 s ago by a process that is gone."""
    world = worlds(rows=5)
    world.tick()
    world.take_over()
    wire = Undated(world.store)
    wire.strips, wire.forgets = strips, forgets
    world.worker = world.another(wire=wire)
    world.table.rows.append({"id": 9, "updated_at": "2026-05-01T00:00:00.000000Z", "total": 1})
    world.runtime.sleep(20)
    return world


def taken_after(world: World) -> float:
    """How many seconds after its acquisition the lease is taken, looked at every half second."""
    while world.tick().outcome == "held_elsewhere":
        world.runtime.sleep(0.5)
        assert world.runtime.monotonic() < 200, "its age never grows"
    return world.runtime.monotonic()


def test_a_304_without_a_date_is_time_that_passed(worlds: Worlds) -> None:
    """The first answer was dated, and the document is as old as that said, plus what passed here since."""
    world = held_by_the_dead(worlds)
    assert taken_after(world) == pytest.approx(TTL + MARGIN, abs=0.5)


@pytest.mark.parametrize("strips", [("server_time",), ("modified_at",), ("server_time", "modified_at")])
@pytest.mark.parametrize("forgets", [False, True], ids=["304", "200"])
def test_a_200_without_its_times_counts_as_unchanged_for(
    worlds: Worlds, strips: tuple[str, ...], forgets: bool
) -> None:
    """Nobody can tell how old the document was when it was first seen: a whole ttl and margin from there."""
    world = held_by_the_dead(worlds, *strips, forgets=forgets)
    assert taken_after(world) == pytest.approx(20 + TTL + MARGIN, abs=0.5)


def test_a_lease_found_expired_stays_so_without_a_date(worlds: Worlds) -> None:
    world = held_by_the_dead(worlds)
    rows, world.table.rows = world.table.rows, []
    world.runtime.sleep(100)
    assert world.tick().outcome == "idle"
    world.table.rows = rows
    assert world.tick().outcome == "delivered"


def test_a_foreign_lease_ends_when_it_says_without_a_date(worlds: Worlds) -> None:
    world = held_by_the_dead(worlds)
    ends = {"ttl_seconds": None, "expires_at": MIDNIGHT + timedelta(seconds=150)}
    world.change(lambda state: state.model_copy(update={"lease": state.lease.model_copy(update=ends)}))
    assert taken_after(world) == pytest.approx(150 + MARGIN, abs=0.5)


def test_a_lease_that_is_renewed_is_never_taken_without_a_date(worlds: Worlds) -> None:
    world = held_by_the_dead(worlds)
    for _ in range(20):
        world.change(lambda state: state)
        world.runtime.sleep(TTL / 2)
        assert world.tick().outcome == "held_elsewhere"
