"""A thread of the handler that names a row when the tick is over: an error there, and nothing changes."""

from __future__ import annotations

from typing import Any

import pytest

from poller.handler.batch import Batch
from tests.integration.runner.fakes import Worlds


@pytest.mark.parametrize("options", [{}, {"concurrency": 3}, {"max_uncommitted": 4}], ids=["one", "lanes", "grouped"])
@pytest.mark.parametrize("mode", ["block", "quarantine"])
def test_a_row_named_after_the_tick_is_an_error_there(worlds: Worlds, mode: str, options: dict[str, Any]) -> None:
    world = worlds(rows=5, batch_size=1, on_poison=mode, **options)
    kept: list[Batch] = []
    result = world.tick(kept.append)
    assert (result.outcome, result.rows) == ("delivered", 5)
    for batch in kept:
        with pytest.raises(RuntimeError, match="is over, so this changes nothing"):
            batch.fail(batch.rows[0], "late")
        with pytest.raises(RuntimeError, match="is over, so this changes nothing"):
            batch.reject(batch.rows[0], "late")
        assert batch.failures == ()
    assert world.tick().outcome == "idle"
