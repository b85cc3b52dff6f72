"""A user tests a handler with a batch made by hand."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from poller import Batch, LeaseLost
from poller.handler.messages import Payload

DOCS = Path(__file__).parents[3] / "docs"
ROWS = [{"id": 1, "total": 5}, {"id": 2, "total": 7}]


def test_a_handler_sees_rows_keys_and_a_lease_that_lasts() -> None:
    batch = Batch.of_rows(ROWS)
    assert (list(batch), len(batch), batch.attempt) == (ROWS, 2, 1)
    assert not batch.lost.is_set()
    assert batch.remaining() > 3600
    batch.check()


def test_a_rows_key_is_the_same_in_every_delivery_and_its_own() -> None:
    first, again = Batch.of_rows(ROWS), Batch.of_rows([{"total": 7, "id": 2}, {"id": 1, "total": 6}])
    assert first.key(first.rows[1]) == again.key(again.rows[0])
    assert len({first.key(first.rows[0]), again.key(again.rows[1]), *again.keys()}) == 3


def test_a_test_may_say_which_delivery_it_is() -> None:
    batch = Batch.of_rows(ROWS, poller_name="orders", attempt=3, fencing_token=42)
    assert (batch.poller_name, batch.attempt, batch.fencing_token) == ("orders", 3, 42)


def test_a_test_may_take_the_lease_away() -> None:
    batch = Batch.of_rows(ROWS)
    batch.lost.set()
    assert batch.remaining() == 0
    with pytest.raises(LeaseLost, match="test"):
        batch.check()


def test_a_batch_is_never_empty() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        Batch.of_rows([])


def test_what_the_docs_show_works() -> None:
    (shown,) = re.findall(r"`(ship\(Batch\.of_rows\(.*?\)\))`", (DOCS / "azure-functions.md").read_text())
    seen: list[object] = []
    exec(shown, {"Batch": Batch, "ship": lambda batch: seen.extend(batch)})
    assert seen


def test_a_batch_in_another_process_says_all_that_it_says_here() -> None:
    here = replace(Batch.of_rows(ROWS, attempt=3), retry=True, replay=True)
    there = Payload.of(here).batch(here._lease)
    said = [field.name for field in fields(Batch) if not field.name.startswith("_") and field.name != "fences"]
    assert {name: getattr(there, name) for name in said} == {name: getattr(here, name) for name in said}
    assert there.keys() == here.keys()


def test_named_rows_are_kept_in_the_order_of_the_batch() -> None:
    batch = Batch.of_rows(ROWS)
    batch.reject(batch.rows[1], "no address")
    batch.fail(batch.rows[0], ValueError("5"))
    batch.fail(batch.rows[1], "again")
    named = [(one.position, str(one.error), one.rejected) for one in batch.failures]
    assert named == [(0, "5", False), (1, "no address", True)], "a row that is poison stays poison"
    for name in (batch.fail, batch.reject):
        with pytest.raises(ValueError, match="takes a row of this batch"):
            name({"id": 1}, "why")
