"""`poller prune --outbox`: rows of the poller's own table that every reader is done with."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from poller import load_app
from poller.admin import Refused, WrongArgument
from tests.integration.prune.outbox import Outbox


@pytest.fixture(params=["postgres_db", "sqlite_url"])
def outbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outbox]:
    made = Outbox(request.getfixturevalue(request.param), tmp_path, pk='["id", "name"]')
    yield made
    made.close()


def test_rows_below_the_least_checkpoint_go_and_waiting_ones_stay(outbox: Outbox) -> None:
    outbox.write(1, 2, 3)
    outbox.write(2, name="bad")
    outbox.deliver("one")
    outbox.write(4, 5)
    outbox.deliver("one", "two")
    outbox.write(6)
    assert outbox.prune().plan().captured is False
    assert outbox.prune().run().rows == 3
    assert outbox.left() == [(2, "a"), (2, "bad"), (5, "a"), (6, "a")], "those with a number of several rows stay"


def test_a_table_that_is_no_change_table_needs_the_option(outbox: Outbox) -> None:
    outbox.write(1, 2)
    outbox.deliver("one", "two")
    with pytest.raises(Refused, match="events is not a change table of poller") as refused:
        outbox.prune(outbox=False).run()
    assert "--outbox" in refused.value.next_step
    with pytest.raises(WrongArgument, match="how old its rows are is not known"):
        outbox.prune(age=timedelta(days=1)).run()
    assert len(outbox.left()) == 2


@pytest.mark.parametrize(
    ("of", "instead", "says"),
    [
        ('bound = "none"', "filter = \"name <> 'b'\"", "it has a filter"),
        ("integer+pk", "timestamp+pk", "only tables that are followed by a number"),
    ],
)
def test_what_cannot_be_pruned_is_refused(of: str, instead: str, says: str, sqlite_url: str, tmp_path: Path) -> None:
    made = Outbox(sqlite_url, tmp_path, pk='["id", "name"]')
    made.close()
    config = tmp_path / "poller.toml"
    config.write_text(config.read_text().replace(of, instead))
    with load_app(config) as made.app, pytest.raises(Refused, match=says):
        made.prune()
