"""Records of rows that failed: bounds, kills, lost answers, hostile documents and secrets."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from poller.errors import StateCorrupt
from poller.journal import Quarantine, QuarantineRecord
from poller.journal.quarantine.prune import STRAY_FOR, Pruner
from poller.journal.quarantine.record import OPENINGS_KEPT, NewerRecord
from poller.journal.quarantine.records import NoRecord
from poller.lease import OutcomeUnknown
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError
from poller.model.limits import LARGEST_BODY
from poller.ports import Found
from poller.stores import MemoryStore
from tests.support.documents import hold_to_schemas
from tests.support.quarantine import Clock, Cut, Killed, entry, quarantine

ID = entry().facts.id
NAME = f"quarantine/shop/orders/{ID}.json"
TTL = timedelta(days=90)
HALF = Cursor.model_construct(kind="timestamp+pk", value="x", tiebreaker={"a": "\ud800"})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(clock: Clock) -> MemoryStore:
    return MemoryStore(clock)


def by(clock: Clock) -> float:
    """A deadline ahead."""
    return clock.monotonic() + 60


def body(memory: MemoryStore) -> dict[str, Any]:
    found = memory.read(NAME)
    assert isinstance(found, Found)
    hold_to_schemas([(NAME, found.body)])
    data: dict[str, Any] = json.loads(found.body)
    return data


def put(memory: MemoryStore, data: Any) -> None:
    found = memory.read(NAME)
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    memory.write(NAME, raw, if_tag=found.tag if isinstance(found, Found) else None)


def settle(records: Quarantine, clock: Clock, token: int = 7, generation: int = 2) -> QuarantineRecord | None:
    return records.settle(
        ID, "discarded", by="ann", reason="known", fencing_token=token, generation=generation, deadline=by(clock)
    )


def fail(records: Quarantine, clock: Clock, token: int = 8, message: str = "still") -> QuarantineRecord | None:
    error = DeliveryError(type="ValueError", message=message)
    return records.failed_again(
        ID, status="pending", failures=6, strikes=5, error=error, batch_id="batch_2", fencing_token=token,
        generation=2, deadline=by(clock),
    )  # fmt: skip


# --- what is opened, and again ---------------------------------------------------------------------------------------


def test_the_same_tenure_opens_a_record_once(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    again = records.open(entry(failures=2), deadline=by(clock))
    assert (again.failures, again.openings) == (2, ())


def test_a_later_tenure_keeps_what_was_before(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    first = records.open(entry(), deadline=by(clock))
    settle(records, clock)
    clock.passed += 60
    again = records.open(entry(row={"id": 1, "name": "Wien"}, fencing_token=9), deadline=by(clock))
    assert (again.status, again.settled, again.created_at) == ("aside", None, first.created_at)
    assert again.values() == {"id": 1, "name": "Wien"}
    (before,) = again.openings
    assert (before.status, before.fencing_token) == ("discarded", 7)
    assert before.settled is not None
    assert before.settled.by == "ann"
    assert body(memory)["openings"][0]["settled"]["reason"] == "known"


def test_only_the_newest_openings_are_kept(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    for token in range(1, OPENINGS_KEPT + 4):
        records.open(entry(fencing_token=token), deadline=by(clock))
    last = records.open(entry(fencing_token=OPENINGS_KEPT + 4), deadline=by(clock))
    assert [one.fencing_token for one in last.openings] == list(range(4, OPENINGS_KEPT + 4))


def test_a_stale_owner_changes_no_record_that_waits(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(fencing_token=9), deadline=by(clock))
    before = body(memory)
    records.open(entry(row={"id": 0}, fencing_token=8), deadline=by(clock))
    settle(records, clock, token=8)
    fail(records, clock, token=8)
    assert body(memory) == before


def test_no_token_keeps_a_row_out_of_a_spoilt_record(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    put(memory, body(memory) | {"fencing_token": 2**53, "row": {"id": "x"}, "kinds": {"id": "decimal"}})
    assert records.open(entry(), deadline=by(clock)).values() == entry().row


def test_a_restored_document_with_lower_tokens_opens_it(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(fencing_token=900), deadline=by(clock))
    again = records.open(entry(fencing_token=5, generation=3), deadline=by(clock))
    assert (again.fencing_token, len(again.openings)) == (5, 1)


def test_the_first_settlement_stands(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    settle(records, clock)
    before = body(memory)
    records.settle(ID, "delivered", fencing_token=9, generation=2, deadline=by(clock))
    settle(records, clock)
    assert body(memory) == before


def test_a_failed_try_stands_in_the_record(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(behind=True), deadline=by(clock))
    failed = fail(records, clock)
    assert failed is not None
    assert (failed.status, failed.behind, failed.strikes, failed.fencing_token) == ("pending", False, 5, 8)
    assert failed.error is not None
    assert failed.error.message == "still"
    assert fail(records, clock) == failed


def test_what_has_no_record_is_neither_settled_nor_made(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    assert (settle(records, clock), fail(records, clock), records.read(ID), records.records()) == (None, None, None, {})
    assert list(memory.names("")) == []


def test_unknown_fields_survive_every_write(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    put(memory, body(memory) | {"theirs": {"x": [1]}})
    fail(records, clock)
    settle(records, clock, token=9)
    records.open(entry(fencing_token=10), deadline=by(clock))
    assert body(memory)["theirs"] == {"x": [1]}


# --- kills and lost answers ------------------------------------------------------------------------------------------


def steps(do: Any, memory: MemoryStore, *, after: bool) -> int:
    """Do it, killed at each of its requests in turn, until one is not killed; how often it was."""
    for at in range(1, 20):
        try:
            do(Cut(memory, at=at, after=after))
        except Killed:
            continue
        return at - 1
    raise AssertionError("it never ends")


@pytest.mark.parametrize("after", [False, True])
def test_whoever_is_killed_at_opening_leaves_a_whole_record(memory: MemoryStore, clock: Clock, after: bool) -> None:
    quarantine(memory, clock).open(entry(fencing_token=6), deadline=by(clock))

    def reopen(store: Cut) -> None:
        quarantine(store, clock).open(entry(), deadline=by(clock))
        body(memory)

    assert steps(reopen, memory, after=after) == 3
    there = quarantine(memory, clock).read(ID)
    assert there is not None
    assert (there.fencing_token, [one.fencing_token for one in there.openings]) == (7, [6])
    assert there.values() == entry().row


@pytest.mark.parametrize("after", [False, True])
def test_whoever_is_killed_at_settling_settles_once(memory: MemoryStore, clock: Clock, after: bool) -> None:
    quarantine(memory, clock).open(entry(), deadline=by(clock))
    assert steps(lambda store: settle(quarantine(store, clock), clock), memory, after=after) in {1, 2}
    there = body(memory)
    assert (there["status"], there["settled"]["by"], there["openings"]) == ("discarded", "ann", [])


@pytest.mark.parametrize("after", [False, True])
def test_whoever_is_killed_at_pruning_leaves_what_is_listed(memory: MemoryStore, clock: Clock, after: bool) -> None:
    records = quarantine(memory, clock)
    for number in (1, 2, 3):
        records.open(entry(number), deadline=by(clock))
        records.settle(entry(number).facts.id, "delivered", fencing_token=7, generation=2, deadline=by(clock))
    clock.passed += TTL.total_seconds()

    def prune(store: Cut) -> None:
        Pruner(quarantine(store, clock), TTL).prune([ID], check=lambda: None)

    steps(prune, memory, after=after)
    assert records.ids() == [ID]


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_is_found_in_the_record(memory: MemoryStore, clock: Clock, lost: int) -> None:
    records = quarantine(Cut(memory, lost=lost), clock)
    assert records.open(entry(), deadline=by(clock)).openings == ()
    assert body(memory)["openings"] == []
    assert len(body(memory)["write_ids"]) == 1
    settled = settle(quarantine(Cut(memory, lost=lost), clock), clock)
    assert settled is not None
    assert (settled.status, len(body(memory)["write_ids"])) == ("discarded", 2)


def test_no_answer_before_the_deadline_is_said(memory: MemoryStore, clock: Clock) -> None:
    with pytest.raises(OutcomeUnknown):
        quarantine(Cut(memory, lost=10**6), clock).open(entry(), deadline=clock.monotonic())
    assert list(memory.names("")) == []


def test_a_change_is_made_again_on_what_another_wrote(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    store = Cut(memory)
    store.between = lambda: fail(records, clock, token=7)
    settle(quarantine(store, clock), clock)
    assert (body(memory)["status"], body(memory)["strikes"]) == ("discarded", 5)


# --- removing --------------------------------------------------------------------------------------------------------


def test_settled_records_go_when_their_time_is_over(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    settle(records, clock)
    pruner = Pruner(records, TTL)
    assert pruner.is_due()
    clock.passed += TTL.total_seconds() - 1
    assert pruner.prune([], check=lambda: None) == 0
    assert not pruner.is_due()
    clock.passed += 3600
    assert pruner.is_due()
    assert pruner.prune([], check=lambda: None) == 1
    assert records.ids() == []


def test_a_listed_record_stays_whatever_it_says(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    settle(records, clock)
    clock.passed += 10 * TTL.total_seconds()
    assert Pruner(records, TTL).prune({ID}, check=lambda: None) == 0
    assert records.ids() == [ID]


def test_what_a_stale_owner_left_goes_after_a_day_at_least(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    pruner = Pruner(records, timedelta(seconds=1))
    clock.passed += 3600
    assert pruner.prune([], check=lambda: None) == 0
    clock.passed += STRAY_FOR.total_seconds()
    assert pruner.prune([], check=lambda: None) == 1


def test_a_record_opened_meanwhile_is_not_removed(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    settle(records, clock)
    clock.passed += TTL.total_seconds()
    store = Cut(memory)
    store.between = lambda: records.open(entry(fencing_token=8), deadline=by(clock))
    assert Pruner(quarantine(store, clock), TTL).prune([], check=lambda: None) == 0
    assert body(memory)["status"] == "aside"


def test_who_lost_the_lease_removes_nothing(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    settle(records, clock)
    clock.passed += TTL.total_seconds()

    def lost() -> None:
        raise Killed

    with pytest.raises(Killed):
        Pruner(records, TTL).prune([], check=lost)
    assert records.ids() == [ID]


def test_records_that_stay_are_not_read_each_hour(memory: MemoryStore, clock: Clock) -> None:
    store = Cut(memory)
    records = quarantine(store, clock)
    records.open(entry(), deadline=by(clock))
    settle(records, clock)
    pruner = Pruner(records, TTL)
    pruner.prune([], check=lambda: None)
    store.requests.clear()
    clock.passed += 3600
    pruner.prune([], check=lambda: None)
    assert store.requests == ["names"]


# --- hostile rows, names, documents, and secrets ---------------------------------------------------------------------


@pytest.mark.parametrize("id_", ["../../state/shop/orders", "", "0" * 15, "0" * 17, "0" * 15 + "\n", "A" * 16])
def test_what_is_no_id_leads_to_no_document(memory: MemoryStore, clock: Clock, id_: str) -> None:
    store = Cut(memory)
    records = quarantine(store, clock)
    assert records.read(id_) is None
    assert records.records([id_]) == {}
    assert records.settle(id_, "delivered", fencing_token=1, generation=0, deadline=by(clock)) is None
    assert store.requests == []


def test_names_of_others_are_no_records(memory: MemoryStore, clock: Clock) -> None:
    for name in ("x.json", f"{ID}", f"sub/{ID}.json", f"{ID}.json.bak"):
        memory.write(f"quarantine/shop/orders/{name}", b"{}", if_tag=None)
    memory.write(f"quarantine/shop/orders2/{ID}.json", b"{}", if_tag=None)
    assert quarantine(memory, clock).ids() == []


BAD: list[Any] = [
    b"", b"no json", b'{"a": 1, "a": 2}', b"[" * 1000, b"[]", b"null", {}, b" " * (LARGEST_BODY + 1),
    {"version": 1}, {"version": True}, {"version": "x"},
]  # fmt: skip


@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
def test_a_spoilt_record_is_replaced_by_a_whole_one(memory: MemoryStore, clock: Clock, data: Any) -> None:
    records = quarantine(memory, clock)
    put(memory, data)
    with pytest.raises(StateCorrupt):
        records.read(ID)
    with pytest.raises(StateCorrupt):
        settle(records, clock)
    assert isinstance(records.records()[ID], StateCorrupt)
    assert Pruner(records, timedelta(0)).prune([], check=lambda: None) == 0
    assert records.open(entry(), deadline=by(clock)).values() == entry().row
    assert body(memory)["status"] == "aside"


def test_a_record_of_a_newer_version_is_left_alone(memory: MemoryStore, clock: Clock) -> None:
    put(memory, {"version": 2})
    with pytest.raises(NewerRecord):
        quarantine(memory, clock).open(entry(), deadline=by(clock))
    found = memory.read(NAME)
    assert isinstance(found, Found)
    assert json.loads(found.body) == {"version": 2}


def test_another_rows_record_in_its_place_is_not_believed(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    for field, value in (("id", "0" * 16), ("poller_name", "others"), ("app_name", "bank")):
        before = body(memory)
        put(memory, before | {field: value})
        with pytest.raises(StateCorrupt, match="another row"):
            records.read(ID)
        put(memory, before)


def test_a_changed_value_is_corrupt_and_not_quoted(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    put(memory, body(memory) | {"row": {"iban": "DE00"}, "kinds": {"iban": "decimal"}})
    there = records.read(ID)
    assert there is not None
    with pytest.raises(StateCorrupt) as corrupt:
        there.values()
    assert "DE00" not in str(corrupt.value)


@pytest.mark.parametrize("length", [LARGEST_BODY, 10 * LARGEST_BODY])
def test_a_row_too_large_is_refused_before_anything(memory: MemoryStore, clock: Clock, length: int) -> None:
    store = Cut(memory)
    with pytest.raises(NoRecord, match="orders/id=1") as refused:
        quarantine(store, clock).open(entry(row={"text": "x" * length}), deadline=by(clock))
    assert "xx" not in str(refused.value)
    assert store.requests == []


def test_the_largest_row_can_be_settled_and_opened_again(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    row = {"text": "x" * (LARGEST_BODY - 70_000)}
    why = "\U0001f680" * 4096
    for token in range(1, 12):
        records.open(entry(row=row, fencing_token=token, reason=why, by=why), deadline=by(clock))
        records.settle(ID, "discarded", by=why, reason=why, fencing_token=token, generation=2, deadline=by(clock))
        there = records.read(ID)
        assert there is not None
        assert (there.status, there.values()) == ("discarded", row)


def test_foreign_fields_keep_no_row_from_its_record(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    records.open(entry(), deadline=by(clock))
    put(memory, body(memory) | {"theirs": "x" * 900_000})
    row = {"text": "x" * 500_000}
    assert records.open(entry(row=row, fencing_token=8), deadline=by(clock)).values() == row
    assert records.read(ID) is not None


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ({"ordering_key": {"a": "\ud800"}}, {}),
        ({}, {"\ud800": 1}),
        ({"row_key": "x" * 200_000}, {}),
        ({}, {"x": object}),
    ],
)
def test_a_row_either_comes_back_or_is_refused(
    memory: MemoryStore, clock: Clock, fields: dict[str, Any], row: dict[str, Any]
) -> None:
    one = entry(row=row)
    changed = type(one)(**{name: getattr(one, name) for name in one.__slots__} | fields)
    try:
        kept = quarantine(memory, clock).open(changed, deadline=by(clock))
    except NoRecord:
        assert list(memory.names("")) == []
    else:
        there = quarantine(memory, clock).read(ID)
        assert there is not None
        assert there.values() == kept.values()


def test_a_record_of_an_error_holds_no_secret(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock)
    text = "postgresql://u:hunter2@db/x failed\nERROR forged"
    error = DeliveryError(type="Bad\nType", message=text + "x" * 4_000)
    records.open(entry(error=error, by="ann\x1b[2J", reason="see https://u:hunter2@x/ now"), deadline=by(clock))
    fail(records, clock, message="password=hunter2")
    settle(records, clock, token=8)
    raw = json.dumps(body(memory))
    assert "hunter2" not in raw
    assert "forged" not in raw
    assert "\\u001b" not in raw
    assert len(raw) < 5_000


def test_without_error_text_only_the_type_is_kept(memory: MemoryStore, clock: Clock) -> None:
    records = quarantine(memory, clock, error_text=False)
    records.open(entry(), deadline=by(clock))
    assert body(memory)["error"]["type"] == "ValueError"
    fail(records, clock)
    assert (body(memory)["error"]["message"], "no such product" in str(body(memory))) == ("", False)
