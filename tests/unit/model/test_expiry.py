"""Whether a lease may be taken: two times of one server, and never a clock of our own (protocol 3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller.model.document import Lease
from poller.model.expiry import Availability, availability
from poller.model.timing import Timing

T0 = datetime(2026, 4, 7, 1, 0, tzinfo=UTC)
TIMING = Timing(ttl=60, heartbeat=15)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def judge(
    lease: Lease,
    *,
    age: float | None = 0.0,
    server_time: datetime | None = T0,
    unchanged_for: float = 0.0,
    timing: Timing = TIMING,
) -> Availability:
    """`age`: how long before `server_time` the document was modified; None where the store does not say."""
    modified = None if age is None or server_time is None else server_time - seconds(age)
    return availability(
        lease, server_time=server_time, modified_at=modified, unchanged_for=unchanged_for, timing=timing
    )


def held(**fields: object) -> Lease:
    return Lease.model_validate({"owner_id": "a", "fencing_token": 3, "ttl_seconds": 30.0, **fields})


# --- held ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ttl", "margin"), [(0.5, 2.0), (3.0, 2.0), (4.0, 2.0), (6.0, 3.0), (10.0, 5.0), (60.0, 5.0), (3600.0, 5.0)]
)
def test_a_held_lease_is_respected_for_its_ttl_and_our_margin(ttl: float, margin: float) -> None:
    timing = Timing(ttl=ttl, heartbeat=ttl / 4)
    lease = held(ttl_seconds=ttl)
    just_before = judge(lease, age=ttl + margin - 0.001, timing=timing)
    assert not just_before.free
    assert just_before.expires_in == pytest.approx(0.001)
    assert judge(lease, age=ttl + margin, timing=timing) == Availability(free=True, takeover=True, expires_in=0.0)


def test_the_owners_ttl_counts_not_ours() -> None:
    assert judge(held(ttl_seconds=30.0), age=36).free
    assert not judge(held(ttl_seconds=600.0), age=100).free


def test_times_in_the_document_free_nothing_under_server_time() -> None:
    long_ago = T0 - timedelta(days=365)
    assert not judge(held(expires_at=long_ago, heartbeat_at=long_ago), age=1).free


def test_times_in_the_document_keep_nothing_under_server_time() -> None:
    assert judge(held(expires_at=T0 + timedelta(days=365)), age=1000).free


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.floats(-1e6, 1e6))
def test_only_the_difference_of_the_two_server_times_matters(skew: float, age: float, unchanged: float) -> None:
    """A server whose clock is wrong by days judges as one that is right."""
    wrong = judge(held(), age=age, server_time=T0 + seconds(skew), unchanged_for=unchanged)
    assert wrong.free == judge(held(), age=age).free


@given(st.floats(0, 1e5), st.floats(0, 1e5))
def test_once_free_it_stays_free_until_somebody_writes(age: float, later: float) -> None:
    assert judge(held(), age=age + later).free or not judge(held(), age=age).free


# --- released --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("between", [-2.0, -1.0, 0.0, 0.999, 2.0])
def test_a_lease_released_by_the_current_write_is_free_at_once(between: float) -> None:
    lease = Lease(fencing_token=3, ttl_seconds=30, released_at=T0 + seconds(between))
    assert judge(lease) == Availability(free=True)


@pytest.mark.parametrize("between", [-86_400.0, -2.001, 2.001, 86_400.0])
def test_an_older_copy_put_back_frees_nothing_before_its_ttl(between: float) -> None:
    lease = Lease(fencing_token=3, ttl_seconds=30, released_at=T0 + seconds(between))
    assert not judge(lease).free
    late = availability(lease, server_time=T0 + seconds(35), modified_at=T0, unchanged_for=0.0, timing=TIMING)
    assert late == Availability(free=True, takeover=False, expires_in=0.0), "nobody was there to take it over from"


def test_a_released_lease_stays_free_however_long_nobody_wants_it() -> None:
    lease = Lease(fencing_token=3, ttl_seconds=30, released_at=T0)
    assert availability(
        lease, server_time=T0 + timedelta(days=30), modified_at=T0, unchanged_for=0.0, timing=TIMING
    ) == Availability(free=True)


def test_a_lease_that_nobody_ever_held_is_free() -> None:
    assert judge(Lease()) == Availability(free=True)


# --- foreign documents -----------------------------------------------------------------------------------------------


def test_a_foreign_lease_without_ttl_counts_by_its_expiry() -> None:
    lease = Lease(owner_id="funcapp/instance-abc123", fencing_token=42, expires_at=T0)
    assert not judge(lease, age=10_000, server_time=T0 + seconds(4.999)).free
    assert judge(lease, age=0, server_time=T0 + seconds(5)) == Availability(free=True, takeover=True, expires_in=0.0)
    assert judge(lease, server_time=T0 - seconds(100)).expires_in == 105.0


def test_a_foreign_lease_without_ttl_and_expiry_gets_our_ttl() -> None:
    lease = Lease(owner_id="x", fencing_token=1)
    assert not judge(lease, age=64.9).free
    assert judge(lease, age=65).free


# --- a store without a clock -----------------------------------------------------------------------------------------


def test_without_server_time_an_unchanged_tag_decides() -> None:
    for lease in (held(), held(expires_at=T0 - timedelta(days=1))):
        assert not judge(lease, server_time=None, unchanged_for=34.9).free
        assert judge(lease, server_time=None, unchanged_for=35) == Availability(
            free=True, takeover=True, expires_in=0.0
        )


def test_without_server_time_our_ttl_stands_in_for_a_foreign_one() -> None:
    lease = Lease(owner_id="x", fencing_token=1, expires_at=T0 - timedelta(days=1))
    assert not judge(lease, server_time=None, unchanged_for=64.9).free
    assert judge(lease, server_time=None, unchanged_for=65).free


def test_without_server_time_a_release_counts_at_once() -> None:
    assert judge(Lease(fencing_token=3, released_at=T0), server_time=None) == Availability(free=True)


# --- the owner is always first to give up ----------------------------------------------------------------------------


@given(
    ttl=st.floats(0.2, 86_400),
    travel=st.floats(0, 30),
    fraction=st.floats(0, 0.999_999),
    before=st.floats(1e-6, 86_400),
)
def test_no_taker_is_let_in_while_the_owner_still_trusts_its_lease(
    ttl: float, travel: float, fraction: float, before: float
) -> None:
    """The owner counts from before its send; the server stamps when the write arrives, and shows both of its times
    cut to whole seconds."""
    timing = Timing(ttl=ttl, heartbeat=ttl / 4)
    sent = T0 + seconds(fraction)
    modified = (sent + seconds(travel)).replace(microsecond=0)
    asked = sent + seconds(timing.tenure - before)
    verdict = availability(
        held(ttl_seconds=ttl),
        server_time=asked.replace(microsecond=0),
        modified_at=modified,
        unchanged_for=0.0,
        timing=timing,
    )
    assert not verdict.free
