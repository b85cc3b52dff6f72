"""Documents that a tick refuses: another source's, another poller's, a newer one, a foreign one, a deleted one."""

from __future__ import annotations

import json

import pytest

from poller.errors import FieldDifference, FingerprintMismatch, StateCorrupt
from poller.model import transitions
from poller.model.cursor import Cursor
from poller.model.fingerprint import DatabaseIdentity
from poller.observability import FingerprintBound, TickFailed
from tests.integration.runner.fakes import World, Worlds, row
from tests.integration.runner.wire import STATE, preceded
from tests.support.documents import SOURCE
from tests.unit.model.example import EXAMPLE, STRANGE, unknown

AFTER = "2026-04-07T01:23:45.123456Z"


def example(world: World) -> World:
    """The design's document, two hours old, before a table whose next row is 12094."""
    world.put(EXAMPLE)
    world.runtime.sleep(7200)
    world.table.rows = [row(number, at=AFTER) for number in (12092, 12093, 12094)] + [
        row(1, at="2026-04-07T01:23:45.123457Z")
    ]
    return world


# --- the example document is continued


def test_a_placeholder_fingerprint_is_bound_by_the_first_tenure(worlds: Worlds) -> None:
    world = example(worlds())
    world.tick()
    assert world.state.source_fingerprint == SOURCE.fingerprint()
    assert world.state.source == SOURCE.as_json()
    (event,) = world.emitted(FingerprintBound)
    assert event.fingerprint == SOURCE.fingerprint()
    world.table.description = SOURCE.model_copy(update={"table": "other"})
    with pytest.raises(FingerprintMismatch):
        world.tick()


def test_a_placeholder_is_not_bound_by_an_idle_tick(worlds: Worlds) -> None:
    world = example(worlds())
    world.table.rows = []
    assert world.tick().outcome == "idle"
    assert world.body == EXAMPLE


def test_unknown_fields_survive_whole_ticks(worlds: Worlds) -> None:
    world = example(worlds())
    document = json.loads(json.dumps(STRANGE))
    document["delivery"].pop("last_error")  # over with the next commit
    world.put(json.dumps(document).encode())
    world.runtime.sleep(7200)
    world.tick(world.busy(20))
    after = unknown(json.loads(world.body))
    before = unknown(document)
    for gone in ("source.x_source", "source.database.x_database"):
        before.pop(gone)
    assert after == before, "all but the description of the source, which was bound anew"


# --- another source


@pytest.mark.guarantee("One worker at a time", "A checkpoint is not continued on another table")
def test_a_changed_source_runs_nothing_and_shows_each_field(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.tick()
    body = world.body
    world.table.rows += [row(6)]
    world.table.pages.clear()
    world.table.description = SOURCE.model_copy(
        update={"database": DatabaseIdentity(dialect="sqlite", database="/data/new.db"), "filter": "id > 0"}
    )
    with pytest.raises(FingerprintMismatch) as refused:
        world.tick()
    error = refused.value
    assert error.exit_code == 4
    assert error.differences == (
        FieldDifference(field="database.database", stored="/data/shop.db", configured="/data/new.db"),
        FieldDifference(field="filter", stored=None, configured="id > 0"),
    )
    assert (error.stored, error.configured) == (SOURCE.fingerprint(), world.table.description.fingerprint())
    for said in ("/data/shop.db", "/data/new.db", "rebind orders", "reset-to-beginning orders"):
        assert said in str(error)
    assert world.body == body
    assert world.table.pages == [], "no query, not even for the lag"
    assert world.table.lags == 1
    (failed,) = world.emitted(TickFailed)
    assert failed.error_type == "FingerprintMismatch"


def test_a_paused_poller_with_a_changed_source_says_the_mismatch(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.tick()
    world.change(lambda state: state.model_copy(update={"control": state.control.model_copy(update={"paused": True})}))
    world.table.description = SOURCE.model_copy(update={"table": "other"})
    with pytest.raises(FingerprintMismatch):
        world.tick()


def test_a_mismatch_without_a_description_still_names_the_way_out(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.put(EXAMPLE.replace(b"sha256:...", b"sha256:" + b"0" * 64))
    with pytest.raises(FingerprintMismatch) as refused:
        world.tick()
    assert refused.value.differences == ()
    assert "rebind orders" in str(refused.value)


# --- what is no document of ours


FOREIGN = [
    b"",
    b"not json",
    b"[]",
    b'{"hello": "world"}',
    EXAMPLE.replace(b'"version": 1', b'"version": 2'),
    EXAMPLE.replace(b'"poller_name": "orders"', b'"poller_name": "invoices"'),
    EXAMPLE.replace(b'"fencing_token": 42', b'"fencing_token": "many"'),
]


def test_a_foreign_document_is_refused_and_never_overwritten(worlds: Worlds) -> None:
    for body in FOREIGN:
        world = worlds(rows=5)
        world.put(body)
        for worker in (world.worker, world.another()):
            with pytest.raises(StateCorrupt) as refused:
                world.tick(worker=worker)
            assert STATE in str(refused.value)
            assert (refused.value.document, bool(refused.value.next_step)) == (STATE, True)
        assert (world.body, world.wire.counts, world.delivered) == (body, (2, 0), [])


def test_a_document_replaced_under_a_tenure_is_not_overwritten(worlds: Worlds) -> None:
    world = worlds(rows=15)
    with pytest.raises(StateCorrupt):
        world.tick(lambda batch: world.put(FOREIGN[3]))
    assert world.body == FOREIGN[3]


def test_a_document_that_appears_before_its_creation_is_read_first(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.wire.write_faults.append(preceded(lambda: world.put(FOREIGN[3])))
    with pytest.raises(StateCorrupt):
        world.tick()
    assert world.body == FOREIGN[3]


# --- a deleted document


TRACES = (
    "audit/shop/orders.jsonl",
    "backups/shop/orders/20260401T000000_000000Z-0000.json",
    "quarantine/shop/orders/0123456789abcdef.json",
)


def test_a_process_that_never_saw_it_knows_by_its_traces(worlds: Worlds) -> None:
    for trace in TRACES:
        world = worlds(rows=5)
        if trace.endswith("l"):
            world.store.append(trace, "{}")
        else:
            world.put(b"{}", trace)
        with pytest.raises(StateCorrupt, match="is gone, but it ran before"):
            world.tick()
        assert list(world.store.names("state/")) == [], trace


def test_traces_of_a_poller_with_a_similar_name_prove_nothing(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.store.append("audit/shop/orders-eu.jsonl", "{}")
    world.put(b"{}", "backups/shop/orders-eu/20260401T000000_000000Z-0000.json")
    assert world.tick().outcome == "delivered"


def test_a_document_deleted_under_a_tenure_stays_deleted(worlds: Worlds) -> None:
    world = worlds(rows=15)
    result = world.tick(lambda batch: world.delete())
    assert result.outcome == "lease_lost"
    assert list(world.store.names("state/")) == []
    with pytest.raises(StateCorrupt):
        world.tick()


def test_a_lower_token_than_this_process_has_seen_is_an_older_copy(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.tick()
    old = world.body
    world.table.rows += [row(6)]
    world.tick()
    world.put(old)
    with pytest.raises(StateCorrupt, match="--token-at-least 3") as refused:
        world.tick()
    assert "older copy" in str(refused.value)
    assert world.body == old
    assert world.delivered == [1, 2, 3, 4, 5, 6]


def test_an_older_copy_put_back_under_a_tenure_is_not_overwritten(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.tick()
    old = world.body
    world.table.rows += [row(6)]
    with pytest.raises(StateCorrupt):
        world.tick(lambda batch: world.put(old))
    assert world.body == old


def test_a_restored_document_with_a_higher_token_is_gone_on_from(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.tick()
    world.delete()
    with pytest.raises(StateCorrupt):
        world.tick()
    restored = transitions.create(
        "orders", SOURCE, Cursor(kind="timestamp+pk", value=row(2)["updated_at"]), now=world.runtime.utcnow()
    )
    lease = restored.lease.model_copy(update={"fencing_token": 9})
    world.put(restored.model_copy(update={"lease": lease}).model_dump_json().encode())
    world.seen.clear()
    assert world.tick().fencing_token == 10
    assert world.delivered == [1, 2, 3, 4, 5]
