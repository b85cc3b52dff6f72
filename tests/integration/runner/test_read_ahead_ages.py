"""A page that is read ahead may wait for five seconds: what others change later is seen."""

from __future__ import annotations

import pytest

from poller.handler.batch import Batch
from tests.integration.runner.fakes import Worlds, row, stamp_of

LAST = 20


@pytest.mark.parametrize("deletes", [True, False], ids=["deleted", "changed"])
def test_a_page_read_ahead_that_waited_too_long_is_read_again(worlds: Worlds, deletes: bool) -> None:
    """Another program deletes or changes a row of the next page, while a slow handler works on the first one."""
    world = worlds(rows=LAST, page_size=10)

    def handle(batch: Batch) -> None:
        world.take(batch)
        if len(world.seen) > 1:
            return
        world.runtime.sleep(3)
        assert len(world.table.pages) == 2, "the next page was read"
        others = [one for one in world.table.rows if one["id"] != LAST]
        world.table.rows = others if deletes else [*others, row(LAST, at=stamp_of(90))]
        world.runtime.sleep(4)

    for _ in range(2):
        world.tick(handle)
    assert world.delivered == [*range(1, LAST), *([] if deletes else [LAST])]
