"""Times of other programs in a state document: read whatever they are, and written back as they stood."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from poller.errors import StateCorrupt
from poller.model import transitions
from poller.model.document import Lease, State, decode, encode
from poller.model.expiry import availability
from poller.model.stamps import later, stamp
from poller.model.timing import Timing
from poller.model.when import FIRST, LAST, in_utc, moment
from tests.unit.model.example import EXAMPLE

NOW = datetime(2026, 4, 7, 2, 0, tzinfo=UTC)
FOREIGN = [
    ("0001-01-01T00:00:00.000000Z", FIRST),
    ("0001-01-01T00:00:00+05:00", FIRST),
    ("0000-12-31T23:59:59Z", FIRST),
    ("9999-12-31T23:59:59-05:00", LAST),
    ("10000-01-01T00:00:00Z", LAST),
    ("2026-04-07T01:25:00.1234567Z", datetime(2026, 4, 7, 1, 25, 0, 123456, tzinfo=UTC)),
    ("2026-04-07T03:25:00.123456789+02:00", datetime(2026, 4, 7, 1, 25, 0, 123456, tzinfo=UTC)),
    ("2016-12-31T23:59:60Z", datetime(2016, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
]


def read(text: object) -> State:
    """The example with this time wherever one of its times stands."""
    data = json.loads(EXAMPLE)
    data["checkpoint"]["updated_at"] = text
    data["lease"] |= dict.fromkeys(("acquired_at", "heartbeat_at", "expires_at"), text)
    return decode(json.dumps(data).encode(), location="a blob")


@pytest.mark.guarantee(
    "One worker at a time",
    "A document with any times of another program is read, continued from, and keeps them unchanged",
)
@pytest.mark.parametrize(("text", "moment"), FOREIGN, ids=[text for text, _ in FOREIGN])
def test_any_time_is_read_and_written_back_as_it_was(text: str, moment: datetime) -> None:
    state = read(text)
    assert state.lease.expires_at == moment
    written = json.loads(encode(decode(encode(state), location="a blob")))
    assert written["checkpoint"]["updated_at"] == text
    assert [written["lease"][name] for name in ("acquired_at", "heartbeat_at", "expires_at")] == [text] * 3


@pytest.mark.parametrize("text", [text for text, _ in FOREIGN])
def test_a_poller_goes_on_from_any_time(text: str) -> None:
    """Whatever is done to such a document, what is left of its times stays as it was."""
    state = read(text)
    judged = availability(
        state.lease, server_time=NOW, modified_at=NOW, unchanged_for=0.0, timing=Timing(ttl=60.0, heartbeat=15.0)
    )
    assert judged.free == (not text.startswith(("9999", "10000")))
    taken = transitions.acquire(state, owner_id="shop/b/2", ttl=60.0, now=NOW)
    released = json.loads(encode(transitions.release(transitions.renew(taken, now=NOW), give_back=True, now=NOW)))
    assert released["checkpoint"]["updated_at"] == text
    assert (released["lease"]["fencing_token"], released["lease"]["expires_at"]) == (43, None)


@pytest.mark.parametrize("text", ["2026-13-01T00:00:00Z", "0000-13-01T00:00:00Z", "0001-01-01", "soon", [], {}])
def test_what_is_no_time_is_refused(text: object) -> None:
    with pytest.raises(StateCorrupt, match="updated_at"):
        read(text)


def test_a_ttl_beyond_all_times_ends_with_the_last_of_them() -> None:
    state = State(poller_name="orders", lease=Lease(owner_id="a", fencing_token=1, ttl_seconds=1e300))
    assert transitions.renew(state, now=NOW).lease.expires_at == LAST
    assert later(NOW, 60) == NOW + timedelta(minutes=1)


def test_times_are_shown_with_four_digits_and_in_utc() -> None:
    assert moment(FIRST) == "0001-01-01 00:00:00Z"
    assert moment(NOW.astimezone(timezone(timedelta(hours=5)))) == "2026-04-07 02:00:00Z"
    assert stamp(FIRST) == "0001-01-01T00:00:00.000000Z"
    assert in_utc(datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))) == LAST
