"""The laws see a loss: a source that waits for no transaction, and one that leaves a row out, break them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from poller.ports import Source
from tests.contract.sources.laws import LateLaws, RowLaws
from tests.contract.sources.place import Layout, Reading
from tests.contract.sources.postgresql import PostgreSql
from tests.contract.sources.sqlite import Sqlite


class Careless(PostgreSql):
    """Reads whatever is committed."""

    def source(self, reading: Reading, *, before: Callable[[str], None] | None = None) -> Source:
        return super().source(replace(reading, bound="none"), before=before)


class Forgetful(Sqlite):
    """Leaves one row out."""

    def source(self, reading: Reading, *, before: Callable[[str], None] | None = None) -> Source:
        return super().source(replace(reading, where="v <> 31"), before=before)


@pytest.fixture
def careless(postgres_db: str) -> Iterator[Careless]:
    with Careless(postgres_db) as place:
        yield place


@pytest.fixture
def forgetful(sqlite_url: str) -> Iterator[Forgetful]:
    with Forgetful(sqlite_url) as place:
        yield place


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_that_commit_late_are_seen_to_be_lost(careless: Careless, seed: int) -> None:
    with pytest.raises(AssertionError):
        LateLaws().test_a_row_that_commits_late_is_never_passed(careless, "timestamp+pk", "table", "auto", seed)


def test_a_row_that_does_not_wait_is_seen(careless: Careless) -> None:
    with pytest.raises(AssertionError):
        LateLaws().test_rows_wait_for_one_that_was_begun_before_them(careless, "timestamp+pk", "auto")


def test_a_row_that_is_left_out_is_seen(forgetful: Forgetful) -> None:
    with pytest.raises(AssertionError):
        RowLaws().test_every_row_comes_once_in_order(forgetful, Layout(), "table", 7)
