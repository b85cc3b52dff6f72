"""The database's clock goes back: after a fail-over to a server that is behind, or because it was wrong before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from poller import Poller
from poller.admin import Operator
from poller.databases.samplers import Sample
from poller.model.cursor import Cursor
from poller.model.timing import Timing
from poller.ports import Bound, Page
from poller.runtime import SystemRuntime
from poller.sources import SqlSource
from poller.sources.bound import Rule
from poller.stores import MemoryStore
from tests.integration.bounds.pretended import STAMP, Process, asked
from tests.integration.bounds.tables import add, make, session, source
from tests.integration.sources.tables import execute
from tests.support.operators import reset

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


def ahead(memory: Mapping[str, Any] | None, by: timedelta) -> dict[str, Any]:
    """What is remembered of a server whose clock is that much ahead of the one that is read now."""
    assert memory is not None
    moved = {name: (datetime.fromisoformat(memory[name]) + by).isoformat() for name in ("clock", "at")}
    return {**memory, **moved}


def test_what_an_open_transaction_stamped_earlier_is_not_passed(postgres_db: str) -> None:
    url = postgres_db
    make(url)
    execute(url, "insert into stamped (id, updated_at) values (1, '2026-01-01 00:00:00')")
    with source(url) as before:
        last = before.page(None, 10).cursors[-1]
        memory = ahead(before.remember(), timedelta(seconds=30))
    with source(url) as reader, session(url) as writer:
        reader.recall(memory)
        writer.exec_driver_sql("begin")
        writer.exec_driver_sql("insert into stamped (id) values (2)")
        add(url, 3)
        page = reader.page(last, 10)
        assert page.bound.clock_went_back
        assert "recheck" in str(page.bound.reason)
        assert [row["id"] for row in page.rows] == []
        writer.exec_driver_sql("commit")


def _sample(oldest: int | None, clock: int) -> Sample:
    """Seconds after noon."""
    now = NOON + timedelta(seconds=clock)
    return Sample(now, now, None if oldest is None else NOON + timedelta(seconds=oldest))


def _process() -> Process:
    return Process(Rule("exact", "asked for", STAMP), asked().options)


def _seconds(bound: Bound) -> float | None:
    return None if bound.at is None else (bound.at - NOON).total_seconds()


@pytest.mark.parametrize(
    ("samples", "read_below"),
    [
        ([_sample(20, 20), _sample(12, 15)], [20, 12]),  # the slower server's own
        ([_sample(10, 20), _sample(14, 15)], [10, 10]),  # the last one, where it is lower
        ([_sample(20, 20), _sample(None, 15), _sample(12, 16)], [20, None, 12]),  # not known there yet
        (
            [_sample(20, 20), _sample(12, 15), _sample(13, 25), _sample(24, 26)],
            [20, 12, 13, 24],
        ),  # open since the lower
        ([_sample(20, 20), _sample(12, 15), _sample(None, 25)], [20, 12, None]),
    ],
)
def test_below_what_is_read_while_the_clock_is_behind(samples: list[Sample], read_below: list[float | None]) -> None:
    process = _process()
    assert [_seconds(process.see(sample)) for sample in samples] == read_below


def test_another_process_knows_that_the_last_bound_only_limits() -> None:
    first, second = _process(), _process()
    first.see(_sample(20, 20))
    first.see(_sample(12, 15))
    memory = first.remember()
    assert memory is not None
    second.see(_sample(20, 20))
    second.recall(memory)
    assert second.see(_sample(None, 25)).value is None


# --- a clock that was wrong, and is right again --------------------------------------------------------------------


class _Shop:
    """A poller over a table of SQLite, whose document says that the clock stood a day ahead."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = MemoryStore()
        self.got: list[int] = []
        make(url)
        add(url, 1)
        self.poller = self.process()
        while not self.got:
            self.tick(self.poller)
        memory = ahead(self.poller.source.remember(), timedelta(days=1))
        self.poller.source.recall(memory)
        add(url, 2)

    def process(self) -> Poller:
        made = SqlSource(self.url, table="stamped", cursor_column="updated_at", pk_columns=["id"])
        return Poller("orders", app_name="shop", store=self.store, source=made, observers=[])

    def tick(self, poller: Poller) -> Bound | None:
        return poller.tick(lambda batch: self.got.extend(row["id"] for row in batch)).bound

    def reset(self) -> Cursor | None:
        timing = Timing(60, 15)
        operator = Operator(
            self.store, app_name="shop", poller_name="orders", runtime=SystemRuntime(), timing=timing, by="ada"
        )
        copy = operator.look()
        assert copy is not None
        reset(operator, copy.state.checkpoint.cursor, source=self.poller.source.describe())
        return copy.state.checkpoint.cursor


def test_a_reset_ends_the_wait_for_a_clock_that_was_wrong(sqlite_url: str) -> None:
    shop = _Shop(sqlite_url)
    bound = shop.tick(shop.poller)
    assert bound is not None
    assert bound.clock_went_back
    assert "reset-to-cursor" in str(bound.reason)
    shop.reset()
    while shop.got == [1]:  # until the stamp is below the clock, a millisecond or two
        bound = shop.tick(shop.poller)
        assert bound is not None
        assert not bound.clock_went_back
    assert shop.got == [1, 2]
    shop.poller.close()


def test_after_a_reset_no_process_uses_what_another_remembered(sqlite_url: str) -> None:
    shop = _Shop(sqlite_url)
    shop.reset()
    other = shop.process()
    while shop.got == [1]:
        bound = shop.tick(other)
        assert bound is not None
        assert not bound.clock_went_back
    memory = other.source.remember()
    assert memory is not None
    shop.poller.source.recall(memory)  # as its next tick does with the document's
    page: Page = shop.poller.source.page(None, 10)
    assert not page.bound.clock_went_back
    for poller in (shop.poller, other):
        poller.close()
