"""What each transition of a document does, one by one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from poller.model import transitions
from poller.model.cursor import Cursor
from poller.model.document import LanesDone, State, Window
from tests.support.documents import SOURCE
from tests.unit.model.example import change, example, strange

NOW = datetime(2026, 4, 7, 2, 0, tzinfo=UTC)


def cursor(number: int) -> Cursor:
    return Cursor(kind="timestamp+pk", value="2026-05-01T00:00:00.000000Z", tiebreaker={"id": number})


def acquired(state: State) -> State:
    return transitions.acquire(state, owner_id="shop/host/1", ttl=60.0, now=NOW)


def committed(state: State, number: int = 1, *, release: bool) -> State:
    return transitions.commit(
        state, cursor=cursor(number), batch_id=f"b{number}", metadata={"row_count": 1}, release=release, now=NOW
    )


def test_every_start_counts_a_crash_included() -> None:
    assert acquired(acquired(example())).delivery.attempts == 2, "the first owner vanished; its start counts"


def test_a_pause_of_a_released_lease_stamps_the_release_anew() -> None:
    released = transitions.release(acquired(example()), give_back=True, now=NOW)
    later = NOW + timedelta(hours=1)
    paused = transitions.pause(released, by="ann", reason=None, change=change(), now=later)
    assert paused.lease.released_at == later
    assert transitions.resume(paused, change=change(2), now=later + timedelta(hours=1)).lease.released_at == (
        later + timedelta(hours=1)
    )


def test_after_a_reset_or_rebind_the_next_batch_stores_its_facts() -> None:
    facts = {"object": "oid 7"}
    state = transitions.commit(
        acquired(example()), cursor=cursor(1), batch_id="b", metadata={}, release=True, now=NOW, facts=facts
    )
    assert state.facts == facts
    assert transitions.reset(state, cursor=None, change=change(kind="reset"), now=NOW).facts is None
    assert transitions.rebind(state, source=SOURCE, change=change(kind="rebind"), now=NOW).facts is None


def test_a_tie_that_begins_again_forgets_only_what_was_kept_of_it() -> None:
    lanes = LanesDone(done=(cursor(2), None), left=("a",))
    window = Window(until=cursor(9), suspect=cursor(9))
    held = acquired(example())
    delivery = held.delivery.model_copy(update={"lanes": lanes, "window": window, "failures": 3})
    state = held.model_copy(update={"delivery": delivery, "facts": {"object": "oid 7"}})
    start = cursor(1).model_copy(update={"tiebreaker": None})
    begun = transitions.tie_begun(state, start, {"object": "oid 8"})
    assert begun.checkpoint == state.checkpoint.model_copy(update={"cursor": begun.checkpoint.cursor})
    assert begun.checkpoint.cursor is not None
    assert (begun.checkpoint.cursor.value, begun.checkpoint.cursor.tiebreaker) == (start.value, None)
    assert begun.facts == {"object": "oid 8"}
    assert (begun.delivery.lanes, begun.delivery.window, begun.delivery.failures) == (None, None, 3)
    assert begun.lease == state.lease


def test_a_reset_to_the_same_place_is_still_a_change() -> None:
    held = acquired(example())
    found = transitions.reset(held, cursor=held.checkpoint.cursor, change=change(kind="reset"), now=NOW)
    assert not transitions.still_held(held, found)


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("another owner", lambda s: s.model_copy(update={"lease": s.lease.model_copy(update={"owner_id": "other"})})),
        ("another token", lambda s: s.model_copy(update={"lease": s.lease.model_copy(update={"fencing_token": 99})})),
        ("a moved checkpoint", lambda s: committed(s, 7, release=False)),
        ("a release", lambda s: transitions.release(s, give_back=False, now=NOW)),
        (
            "a release that left its owner's name",
            lambda s: s.model_copy(update={"lease": s.lease.model_copy(update={"released_at": NOW})}),
        ),
        (
            "a reset to the same place by another program",
            lambda s: s.model_copy(update={"checkpoint": s.checkpoint.model_copy(update={"generation": 1})}),
        ),
        ("a takeover", acquired),
        ("a halt", lambda s: transitions.halt(s, reason="x", now=NOW)),
        ("a kept lease", lambda s: transitions.hold(s, owner_id="operator/ann", ttl=60, now=NOW)),
    ],
)
def test_a_tenure_is_over_after(what: str, found: Any) -> None:
    held = acquired(example())
    assert not transitions.still_held(held, found(held)), what


def test_a_tenure_goes_on_beside_a_pause_and_a_foreign_field() -> None:
    held = acquired(example())
    assert transitions.still_held(held, transitions.pause(held, by="a", reason=None, change=change(), now=NOW))
    assert transitions.still_held(held, transitions.resume(held, change=change(), now=NOW))
    assert transitions.still_held(held, held.model_copy(update={"note": "hello"}))


def test_transitions_change_nothing_in_place() -> None:
    state = strange()
    copy = state.model_copy(deep=True)
    committed(acquired(state), release=True)
    transitions.reset(state, cursor=None, change=change(), now=NOW)
    assert state == copy


def test_a_commit_keeps_what_it_rests_on() -> None:
    types = {"columns": {"updated_at": {"family": "timestamp"}, "id": {"family": "integer"}}}
    before = acquired(example())
    state = transitions.commit(before, cursor=cursor(1), batch_id="b", metadata={}, release=True, now=NOW, facts=types)
    assert state.facts == types
    assert (state.source, state.source_fingerprint) == (before.source, before.source_fingerprint)
    again = acquired(state)
    assert transitions.commit(again, cursor=cursor(2), batch_id="c", metadata={}, release=True, now=NOW).facts == types
