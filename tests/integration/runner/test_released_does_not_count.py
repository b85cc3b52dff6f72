"""What a tick says of a lease that was given back, but by another version of the document than the one that stands."""

from __future__ import annotations

from collections.abc import Callable

from tests.integration.runner.fakes import World


def test_why_and_how_long_a_release_does_not_count_is_reported(worlds: Callable[..., World]) -> None:
    world = worlds(rows=5)
    world.tick()
    kept = world.body
    world.runtime.sleep(100)
    world.put(kept)
    world.table.rows.append({"id": 9, "updated_at": "2026-05-01T00:00:00.000000Z", "total": 1})
    world.runtime.sleep(5)
    result = world.tick(worker=world.another())
    assert result.outcome == "held_elsewhere"
    assert result.error is not None
    assert "was given back" in result.error
    assert "for another 60 s" in result.error
    world.runtime.sleep(60)
    assert world.tick(worker=world.another()).outcome == "delivered"
