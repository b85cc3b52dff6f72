"""The audit trail's lines: what was written can be read again, whatever it quotes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from poller.journal import AuditTrail
from poller.model.document import OperatorChange
from poller.model.limits import LONGEST_LINE
from poller.runtime import SystemRuntime
from poller.stores import MemoryStore

NAME = "audit/shop/orders.jsonl"
FAR: dict[str, Any] = {"fencing_token": 7, "cursor": {"kind": "timestamp+pk", "value": "x" * 90_000}}
CHANGE = OperatorChange(id="c1", kind="reset", by="ann", at=datetime(2026, 4, 7, tzinfo=UTC), before=FAR, after=FAR)


def trail(store: MemoryStore) -> AuditTrail:
    return AuditTrail(store, app_name="shop", poller_name="orders", runtime=SystemRuntime())


def test_a_change_between_the_longest_cursors_is_read_again() -> None:
    store = MemoryStore()
    trail(store).copy_now(CHANGE)
    (entry,) = trail(store).entries(limit=20)
    assert (entry["id"], entry["kind"], entry["by"], entry["at"]) == (
        "c1",
        "reset",
        "ann",
        "2026-04-07T00:00:00.000000Z",
    )
    assert entry["before"]["fencing_token"] == entry["after"]["fencing_token"] == 7
    assert entry["before"]["cursor"]["value"].startswith("xxx")
    assert len(store.lines(NAME)[0].encode()) <= LONGEST_LINE


def test_such_a_change_is_copied_once() -> None:
    store = MemoryStore()
    for _ in range(3):  # three processes that start
        trail(store).copy_now(CHANGE)
    assert len(store.lines(NAME)) == 1


def test_a_change_with_more_fields_than_fit_keeps_who_and_when() -> None:
    store = MemoryStore()
    many = {f"field{number}": number for number in range(5_000)}
    trail(store).copy_now(CHANGE.model_copy(update={"before": many, "after": {"cursor": None}}))
    (entry,) = trail(store).entries(limit=20)
    assert (entry["id"], entry["by"]) == ("c1", "ann")
