"""An explicit `settle` counts for numbers from a sequence too; where it could have no effect it is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from poller.databases.samplers import Sample
from poller.errors import ConfigError
from poller.sources.bounds.sampled import ByCounter
from tests.integration.sources.tables import closing, execute, orders

START = datetime(2026, 1, 1, tzinfo=UTC)
NO_CONNECTION: Any = None


class _Nobody:
    """A sampler that sees nothing open, at times that are set."""

    kind = "exact"

    def __init__(self) -> None:
        self.now = START
        self.held: tuple[datetime, str] | None = None

    def take(self, connection: sa.Connection) -> Sample:
        oldest, held_by = self.held or (self.now, None)
        return Sample(began=self.now, clock=self.now, oldest=oldest, held_by=held_by)

    def remember(self) -> dict[str, Any] | None:
        return None

    def recall(self, memory: Any) -> None:
        raise AssertionError("nothing was remembered")


def test_a_number_is_read_when_it_is_older_than_the_delay() -> None:
    sampler, values = _Nobody(), iter(range(10, 10_000, 10))
    strategy = ByCounter(sampler, lambda _: next(values), "a sequence", delay=timedelta(seconds=5))
    seen = []
    for second in range(8):
        sampler.now = START + timedelta(seconds=second)
        bound = strategy.sample(NO_CONNECTION)
        seen.append(bound.value)
        assert not bound.cold, "waiting for it would take as long as the delay"
        assert ("settle" in str(bound.reason)) == (bound.value is None)
    assert seen == [None] * 5 + ["10", "20", "30"]


def test_a_number_that_is_held_back_says_since_when() -> None:
    """Since the look at which it was the next one: what opened after that may have taken any later number."""
    sampler, values = _Nobody(), iter(range(10, 100, 10))
    strategy = ByCounter(sampler, lambda _: next(values), "a sequence")
    assert strategy.sample(NO_CONNECTION).age_seconds is None
    sampler.held = START + timedelta(seconds=30), "pid 7"
    sampler.now = START + timedelta(seconds=100)
    bound = strategy.sample(NO_CONNECTION)
    assert (bound.value, bound.age_seconds) == ("10", 100.0)


def test_what_is_kept_for_a_long_delay_stays_small() -> None:
    sampler = _Nobody()
    strategy = ByCounter(sampler, lambda _: 1, "a sequence", delay=timedelta(days=1))
    for second in range(2_000):
        sampler.now = START + timedelta(seconds=second)
        strategy.sample(NO_CONNECTION)
    assert len(strategy._counts) <= 300


def _table(url: str) -> None:
    key = "integer auto_increment primary key" if "mysql" in url else "serial primary key"
    execute(url, f"create table orders (id {key}, n integer)", "insert into orders (n) values (1), (2)")


@pytest.mark.parametrize("server", ["postgres_db", "mariadb_db"])
def test_a_source_of_numbers_waits_for_it(server: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(server)
    _table(url)
    keys: dict[str, Any] = {"cursor_column": "id", "cursor_kind": "integer+pk", "bound": "auto"}
    with closing(orders(url, **keys)) as source:
        assert len(source.page(None, 5).rows) == 2
    with closing(orders(url, settle="1h", **keys)) as source:
        page = source.page(None, 5)
        assert list(page.rows) == []
        assert "settle" in str(page.bound.reason)


@pytest.mark.parametrize("kind", ["xid8+pk", "rowversion+pk"])
def test_it_is_refused_where_the_bound_is_no_time(kind: str) -> None:
    with pytest.raises(ConfigError, match=kind.replace("+", r"\+")) as error:
        orders("postgresql://h/d", cursor_kind=kind, settle="5s", bound="auto")
    assert error.value.key == "settle"
