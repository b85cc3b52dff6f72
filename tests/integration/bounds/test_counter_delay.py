"""An explicit `settle` counts for numbers from a sequence too; where it could have no effect it is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from poller.databases.samplers import Sample
from poller.errors import ConfigError
from poller.sources.bound import Marked, Rule
from poller.sources.columns import CursorColumn, Family
from tests.integration.bounds.pretended import Process, asked
from tests.integration.sources.tables import closing, execute, orders

START = datetime(2026, 1, 1, tzinfo=UTC)


def _process(delay: timedelta = timedelta(0)) -> Process:
    column = CursorColumn("id", Family.INTEGER)
    options = asked(column, cursor_kind="integer+pk", cursor_time_zone=None).options
    return Process(Rule("exact", "a sequence", column, delay, "counts"), options)


def _nobody(second: int) -> Sample:
    now = START + timedelta(seconds=second)
    return Sample(began=now, clock=now, oldest=now)


def _marked(number: int, seen: Sample) -> Marked:
    return Marked(number, seen, number)


def test_a_number_is_read_when_it_is_older_than_the_delay() -> None:
    process = _process(timedelta(seconds=5))
    seen = []
    for second in range(8):
        bound = process.see(_marked(10 * second + 10, _nobody(second)))
        seen.append(bound.value)
        assert not bound.cold, "waiting for it would take as long as the delay"
        assert ("settle" in str(bound.reason)) == (bound.value is None)
    assert seen == [None] * 5 + ["10", "20", "30"]


def test_a_number_that_is_held_back_says_since_when() -> None:
    """Since the look at which it was the next one: what opened after that may have taken any later number."""
    process = _process()
    assert process.see(_marked(10, _nobody(0))).age_seconds is None
    held = replace(_nobody(100), oldest=START + timedelta(seconds=30), held_by="pid 7")
    bound = process.see(_marked(20, held))
    assert (bound.value, bound.age_seconds) == ("10", 100.0)


def test_what_is_kept_for_a_long_delay_stays_small() -> None:
    process = _process(timedelta(days=1))
    for second in range(2_000):
        process.see(_marked(1, _nobody(second)))
    assert len(process.memory.marks) <= 300


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
