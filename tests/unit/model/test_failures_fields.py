"""The document's fields of failing rows: absent while nothing fails, kept by older versions, read as defaults."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from poller.model import aside, backoff, lanes, transitions, window
from poller.model.aside import Limits, RowFacts
from poller.model.backoff import Backoff
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError, OperatorChange, State, WaitingRow, decode, encode, size
from poller.model.limits import HIGHEST_COUNT
from tests.unit.model.example import example

NOW = datetime(2026, 4, 7, 2, 0, tzinfo=UTC)
ROW = RowFacts("1@1", "1", "k", Cursor(kind="integer+pk", value="1", tiebreaker={"id": 1}))
LATER = RowFacts("2@2", "2", "k", Cursor(kind="integer+pk", value="2", tiebreaker={"id": 2}))
FIELDS = {
    "": {"aside", "quarantine", "retrying", "delivered", "ordering_key"},
    "checkpoint": {"position"},
    "delivery": {"retry_at", "failures", "window"},
    "control": {"cancelled"},
}


def failing() -> State:
    """A document with every field of failing rows."""
    state = example()
    found = window.opened(state, until=LATER.cursor, suspect=LATER.cursor)
    state = window.stored(state, window.named(found, piece=ROW.cursor, alone=False))
    state = backoff.failed(state, failures=2, backoff=Backoff(), jitter=1.0, now=NOW)
    state = aside.set_aside(state, ROW, at=1, now=NOW, failures=1, delay=2.0)
    state = aside.trying(aside.reject(state, LATER, at=2, now=NOW), ROW.id)
    checkpoint = state.checkpoint.model_copy(update={"position": 2})
    control = state.control.model_copy(update={"cancelled": 41})
    state = state.model_copy(update={"delivered": 1, "checkpoint": checkpoint, "control": control})
    return aside.keyed(state, ["customer"])


def test_a_document_without_failures_has_none_of_their_fields() -> None:
    written = json.loads(encode(example()))
    for part, names in FIELDS.items():
        assert names.isdisjoint(written[part] if part else written), part


def test_a_document_with_failures_is_written_and_read_again_whole() -> None:
    written = encode(failing())
    for part, names in FIELDS.items():
        data = json.loads(written)
        assert names <= set(data[part] if part else data), part
    assert decode(written, location="document") == failing()


def test_fields_that_say_nothing_are_read_as_none() -> None:
    data = json.loads(encode(example()))
    data.update(aside=None, quarantine=None, delivered=None, ordering_key=None)
    data["delivery"].update(window=None, retry_at=None)
    assert decode(json.dumps(data).encode(), location="document") == example()


def test_the_ordering_key_is_kept_while_any_row_waits() -> None:
    assert aside.keyed(example(), ["customer"]).ordering_key == ()
    state = failing()
    pending = aside.without(state, [ROW.id])
    assert (aside.waiting(state), aside.waiting(pending)) == (2, 1)
    assert (state.ordering_key, pending.ordering_key) == (("customer",), ("customer",))
    reset = transitions.reset(state, cursor=None, change=OperatorChange(id="c", kind="reset", by="ann"), now=NOW)
    assert reset.ordering_key == ("customer",)
    assert aside.without(pending, [LATER.id]).ordering_key == ()


def test_a_killed_try_that_condemns_the_only_row_keeps_it() -> None:
    """The acquire counts that try, and nothing lists the columns anew there: no tick would start any more."""
    state = aside.without(failing(), [LATER.id])
    found = aside.count_interrupted_try(state, limits=Limits(max_attempts=1), jitter=1.0, now=NOW)
    assert (len(found.aside), len(found.quarantine)) == (0, 1)
    assert found.ordering_key == ("customer",)


def test_a_window_of_another_checkpoint_counts_for_nothing() -> None:
    state = failing()
    assert window.standing(state) is not None
    for changed in ({"cursor": ROW.cursor}, {"generation": 1}):
        checkpoint = state.checkpoint.model_copy(update=changed)
        assert window.standing(state.model_copy(update={"checkpoint": checkpoint})) is None


def test_a_foreign_field_in_the_cursor_does_not_end_a_window() -> None:
    strange = Cursor.model_validate({**ROW.cursor.model_dump(), "x_cursor": 1})
    state = example()
    state = state.model_copy(update={"checkpoint": state.checkpoint.model_copy(update={"cursor": strange})})
    standing = window.opened(state, until=LATER.cursor, suspect=LATER.cursor)
    state = transitions.commit(state, cursor=ROW.cursor, batch_id="b", metadata={}, release=False, now=NOW)
    assert window.standing(window.stored(state, window.moved(standing, state.checkpoint.cursor))) is not None


def test_a_reset_ends_windows_delays_and_parking() -> None:
    change = OperatorChange(id="c", kind="reset", by="ann")
    state = transitions.reset(failing(), cursor=None, change=change, now=NOW)
    assert (state.delivery.window, state.delivery.retry_at, state.delivery.failures) == (None, None, 0)
    assert (state.aside, state.retrying, state.checkpoint.position) == ((), None, 0)
    assert {row.id for row in state.quarantine} == {ROW.id, LATER.id}
    assert aside.listed(state) == {}
    assert aside.due(state, NOW, limits=Limits()) is None


def test_resume_tries_at_once_and_keeps_what_waits() -> None:
    state = failing()
    error = DeliveryError(type="ValueError")
    state = state.model_copy(update={"delivery": state.delivery.model_copy(update={"last_error": error})})
    assert backoff.waits_until(state, NOW, Backoff()) is not None
    state = transitions.resume(state, change=OperatorChange(id="c", kind="resume", by="ann"), now=NOW)
    assert backoff.waits_until(state, NOW, Backoff()) is None
    assert (len(state.aside), len(state.quarantine)) == (1, 1)


def test_a_delay_left_by_an_older_versions_commit_does_not_count() -> None:
    state = transitions.commit(failing(), cursor=ROW.cursor, batch_id="b", metadata={}, release=True, now=NOW)
    assert state.delivery.retry_at is not None
    assert backoff.waits_until(state, NOW, Backoff()) is None
    assert backoff.failures_of(state) == 0


def test_delays_double_up_to_the_most_less_half_by_chance() -> None:
    delays = Backoff(first=1.0, most=300.0)
    assert [delays.delay(failures, 1.0) for failures in (0, 1, 2, 3, 9, 10, 10_000)] == [1, 1, 2, 4, 256, 300, 300]
    assert delays.delay(3, 0.0) == 2.0
    assert [delays.exhausted(failures) for failures in (9, 10)] == [False, True]


def test_a_cancelled_tenures_call_writes_and_counts_nothing() -> None:
    held = transitions.acquire(failing(), owner_id="shop/1", ttl=60, now=NOW)
    change = OperatorChange(id="c", kind="cancel", by="ann")
    cancelled = transitions.cancel(held, by="ann", reason=None, change=change, now=NOW)
    assert not transitions.still_held(held, cancelled)
    assert transitions.still_held(held, transitions.pause(held, by="ann", reason=None, change=change, now=NOW))
    assert cancelled.control.paused
    assert cancelled.retrying is None
    assert cancelled.delivery.window is not None
    assert cancelled.delivery.window.piece is None
    assert cancelled.delivery.attempts == 0


def test_a_delay_from_a_clock_that_was_ahead_holds_nothing_up() -> None:
    """The store's clock jumped ahead while a call failed, and came back."""
    ahead = NOW + timedelta(hours=3)
    delays = Backoff(first=60.0, most=300.0)
    state = backoff.failed(example(), failures=2, backoff=delays, jitter=1.0, now=ahead)
    error = DeliveryError(type="ValueError", at=ahead)
    state = state.model_copy(update={"delivery": state.delivery.model_copy(update={"last_error": error})})
    assert backoff.waits_until(state, ahead, delays) is not None
    assert backoff.waits_until(state, ahead - timedelta(minutes=4), delays) is not None
    assert backoff.waits_until(state, NOW, delays) is None
    later = backoff.wait(state, seconds=7200.0, now=ahead)
    assert backoff.waits_until(later, ahead, delays) is not None, "a handler may ask for more"
    assert backoff.waits_until(later, NOW, delays) is None


def test_a_row_aside_since_a_clock_years_ahead_is_tried() -> None:
    limits = Limits(backoff=Backoff(first=1.0, most=300.0))
    later = aside.set_aside(example(), ROW, at=1, now=NOW + timedelta(days=365), failures=1, delay=300.0)
    assert aside.due(later, NOW, limits=limits) is not None
    asked = aside.put_off(aside.set_aside(example(), ROW, at=1, now=NOW), ROW.id, seconds=86_400.0, now=NOW)
    assert aside.due(asked, NOW, limits=limits) is None, "a handler may ask for a day"
    slow = Limits(backoff=Backoff(first=1.0, most=400 * 86_400.0))
    assert aside.due(later, NOW, limits=slow) is None


@pytest.mark.parametrize("value", [HIGHEST_COUNT, "x" * 40, "€" * 40, '"' * 40])
@pytest.mark.parametrize("columns", [1, 16, 32])
def test_an_entry_takes_no_more_bytes_than_are_reserved(columns: int, value: int | str) -> None:
    key = {f"column_{number:02d}": value for number in range(columns)}
    cursor = Cursor(kind="timestamp+pk", value="2026-04-01T00:00:00.000000Z", tiebreaker=key)
    entry = WaitingRow(
        id="f" * 16,
        pk="f" * 16,
        key="f" * 16,
        cursor=cursor,
        at=HIGHEST_COUNT,
        generation=HIGHEST_COUNT,
        since=NOW.replace(microsecond=1),
        failures=HIGHEST_COUNT,
        strikes=HIGHEST_COUNT,
        delivered=HIGHEST_COUNT,
        retry_at=NOW.replace(microsecond=1),
    )
    one, two = (size(example().model_copy(update={"aside": (entry,) * many})) for many in (1, 2))
    assert two - one <= aside.entry_size(cursor)


@pytest.mark.parametrize("length", [1_500, 90_000])
@pytest.mark.parametrize("count", [2, 8])
def test_what_lanes_say_fits_beside_all_that_they_list(count: int, length: int) -> None:
    cursors = [
        Cursor(kind="integer+pk", value=str(at), tiebreaker={"id": f"{at:04d}" + "k" * length}) for at in range(400)
    ]
    rows = [RowFacts(f"{at:016x}", f"{at:016x}", f"{at:016x}", cursor) for at, cursor in enumerate(cursors)]
    space = aside.space_of_lanes(example(), rows, count)
    fit = max(0, space // aside.largest_entry(rows))
    state = lanes.kept(example(), cursors[-count:], ["customer"], rows=1, left=[row.id for row in rows])
    for row in rows[:fit]:
        state = aside.set_aside(state, row, at=None, now=NOW, failures=1, delay=1.0)
    checkpoint = state.checkpoint.model_copy(update={"cursor": cursors[-1]})
    state = state.model_copy(update={"checkpoint": checkpoint})
    assert (fit > 0, lanes.fitting(state)) == (count * length < 300_000, state)
