"""Who is unhealthy when, and who is not, on a passed-in clock: what looks see and remember, and the picture of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from poller.model.conditions import view
from poller.model.memory import PollerMemory, kept, remembered
from poller.model.schedule import Schedule
from poller.model.view import PollerFacts, PollerLimits, PollerView

NOON = datetime(2026, 4, 7, 12, 0, 0, tzinfo=UTC)  # a Tuesday
EVERY = Schedule("*/10 * * * * *").next_after
NIGHTLY = Schedule("0 0 2 * * *").next_after
LOOK = 15.0
"""Seconds between two looks."""
TIMES, NUMBERS = True, False


def after(seconds: float, since: datetime = NOON) -> datetime:
    return since + timedelta(seconds=seconds)


@dataclass
class Asker:
    """Looks every 15 seconds, remembers what looks remember, and says what the picture is."""

    limits: PollerLimits
    now: datetime = NOON
    timed: bool = TIMES
    committed_at: datetime | None = NOON
    exists: bool = True
    facts: dict[str, object] = field(default_factory=dict)
    oldest: datetime | None = None
    """When the oldest row was stamped."""
    above: bool = False
    seen: PollerMemory | None = None

    def found(self) -> PollerFacts:
        waits = self.oldest is not None and self.oldest <= self.now
        age = (self.now - self.oldest).total_seconds() if waits and self.oldest and self.timed else None
        facts = PollerFacts(
            name="orders",
            now=self.now,
            document="there" if self.exists else "none",
            committed_at=self.committed_at if self.exists else None,
            readable=waits and not self.above,
            pending=int(waits),
            age=age,
            held_by="backend 77" if self.above else None,
        )
        return replace(facts, **self.facts)  # type: ignore[arg-type]

    def look(self) -> PollerView:
        self.seen, facts = remembered(self.seen, self.found())
        return view(facts, self.limits, self.seen.moments())

    def wait(self, seconds: float) -> PollerView:
        """The picture after that time, looking all the while."""
        until = after(seconds, self.now)
        while after(LOOK, self.now) < until:
            self.now = after(LOOK, self.now)
            self.look()
        self.now = until
        return self.look()

    def unhealthy_after(self, limit: float) -> float | None:
        """In how many seconds it became unhealthy; None if it did not."""
        begin = self.now
        while (self.now - begin).total_seconds() < limit:
            self.now = after(LOOK, self.now)
            if not self.look().healthy:
                return (self.now - begin).total_seconds()
        return None


@pytest.mark.parametrize("timed", [TIMES, NUMBERS], ids=["times", "numbers"])
@pytest.mark.parametrize("exists", [True, False], ids=["has run", "never ran"])
@pytest.mark.parametrize(("max_lag", "ttl"), [(None, 60.0), (None, 15.0), (120.0, 60.0), (7200.0, 60.0)])
def test_frozen_timers_and_dead_workers_are_found_in_time(
    timed: bool, exists: bool, max_lag: float | None, ttl: float
) -> None:
    asker = Asker(PollerLimits(following=EVERY, max_lag=max_lag, ttl=ttl), timed=timed, exists=exists)
    assert asker.wait(3600).healthy, "no row waits"
    asker.oldest = asker.now
    limit = max_lag or 300 + ttl
    scheduled = 10
    found = asker.unhealthy_after(2 * limit)
    assert found is not None
    assert limit - LOOK < found <= limit + scheduled + LOOK


def test_the_first_to_ask_after_days_finds_it() -> None:
    asker = Asker(PollerLimits(following=EVERY), oldest=after(60), now=after(3 * 86_400))
    found = asker.look()
    assert (found.word, found.severity) == ("late", "unhealthy")
    assert found.late == pytest.approx(3 * 86_400 - 60, abs=10)


def test_a_numbers_first_look_warns_and_a_later_one_knows() -> None:
    """Its row may have come a moment ago."""
    asker = Asker(PollerLimits(following=EVERY), oldest=after(60), now=after(3 * 86_400), timed=NUMBERS)
    found = asker.look()
    assert (found.word, found.severity) == ("late", "warning")
    assert "known at the next look" in found.sentence
    assert asker.unhealthy_after(900) == pytest.approx(375, abs=LOOK)


def test_what_outlives_a_process_finds_numbers_too() -> None:
    """Each look is one of a process of its own, and what is kept is read by the next."""
    asker = Asker(PollerLimits(following=EVERY), oldest=after(60), now=after(86_400), timed=NUMBERS)
    began = asker.now
    while asker.look().healthy:
        assert asker.seen is not None
        asker.seen = kept(asker.seen, asker.found())
        asker.now = after(60, asker.now)
        assert (asker.now - began).total_seconds() < 900
    assert (asker.now - began).total_seconds() > 300


@pytest.mark.parametrize("row", [None, after(1)], ids=["no row", "a time"])
def test_nothing_outlives_a_process_that_needs_not(row: datetime | None) -> None:
    asker = Asker(PollerLimits(following=EVERY), oldest=row)
    asker.wait(3600)
    assert asker.seen is not None
    assert kept(asker.seen, asker.found()) is None


def test_a_number_that_a_worker_delivers_is_not_kept() -> None:
    asker = Asker(PollerLimits(following=EVERY), oldest=after(1), timed=NUMBERS)
    asker.wait(30)
    asker.committed_at = asker.now
    asker.look()
    assert asker.seen is not None
    assert kept(asker.seen, asker.found()) is None


def test_rare_looks_take_new_numbers_for_new() -> None:
    asker = Asker(PollerLimits(following=EVERY), timed=NUMBERS)
    asker.look()
    asker.now, asker.oldest = after(3600), after(3599)
    assert asker.look().healthy
    asker.now = after(7200)
    assert not asker.look().healthy


def test_a_row_that_is_changed_again_and_again_still_waits() -> None:
    """Its stamp is always a second old, and nothing was delivered."""
    asker = Asker(PollerLimits(following=EVERY))
    asker.wait(3600)
    asker.facts = {"readable": True, "pending": 1, "age": 1.0}
    assert asker.unhealthy_after(900) == pytest.approx(375, abs=LOOK)


@pytest.mark.parametrize("max_lag", [10.0, 30.0])
def test_a_short_max_lag_counts_from_the_first_look(max_lag: float) -> None:
    """Looks say only that the row came within the last 15 seconds."""
    asker = Asker(PollerLimits(following=EVERY, max_lag=max_lag), timed=NUMBERS)
    asker.wait(3600)
    asker.oldest = asker.now
    assert asker.unhealthy_after(120) is not None


def test_a_nightly_poller_is_healthy_all_day() -> None:
    asker = Asker(PollerLimits(following=NIGHTLY), oldest=after(60))
    assert asker.unhealthy_after(13.9 * 3600) is None
    found = asker.look()
    assert (found.word, found.sentence) == (
        "scheduled",
        "1 row waits for 2026-04-08 02:00:00Z, its next scheduled time.",
    )
    passed = asker.unhealthy_after(3600)
    assert passed is not None
    assert after(passed - LOOK, datetime(2026, 4, 8, 1, 54, tzinfo=UTC)) <= datetime(2026, 4, 8, 2, 6, 15, tzinfo=UTC)


def test_rows_that_a_killed_worker_left_at_night_do_not_wait() -> None:
    """`poller run` and the dispatcher look for them within 5 minutes of the lease's end."""
    asker = Asker(PollerLimits(following=NIGHTLY), oldest=after(-3600), committed_at=after(-60))
    assert asker.unhealthy_after(7200) is None
    asker.facts = {"unfinished": True, "left_until": asker.now}
    assert asker.unhealthy_after(7200) == pytest.approx(300 + 360, abs=2 * LOOK)


def test_a_first_load_of_years_is_healthy_while_it_commits() -> None:
    """Each commit leaves rows that are years old."""
    asker = Asker(PollerLimits(following=EVERY), oldest=after(-10 * 365 * 86_400), committed_at=None)
    asker.facts = {"created_at": NOON}
    for _ in range(40):
        assert asker.wait(240).healthy
        asker.committed_at, asker.facts = asker.now, {}
    assert asker.unhealthy_after(900) is not None


def test_a_first_load_is_as_late_as_its_document_is_old() -> None:
    asker = Asker(PollerLimits(following=EVERY, max_lag=600), oldest=after(-9e7), committed_at=None)
    asker.facts = {"created_at": NOON}
    assert asker.wait(120).late == pytest.approx(120, abs=10)
    assert not asker.wait(600).healthy


def test_a_reset_to_the_beginning_has_its_time() -> None:
    asker = Asker(PollerLimits(following=EVERY))
    asker.wait(86_400)
    asker.oldest, asker.committed_at, asker.facts = after(-86_400), None, {"moved_at": asker.now}
    assert asker.wait(300).healthy
    assert not asker.wait(120).healthy


def test_what_starts_now_must_start() -> None:
    """No row counts before the first tick, so nothing else would show that there is none."""
    asker = Asker(PollerLimits(following=EVERY, starts_now=True), exists=False)
    assert asker.unhealthy_after(900) == pytest.approx(375, abs=LOOK)
    asker.exists, asker.committed_at = True, asker.now
    assert asker.wait(7200).healthy


def test_a_resumed_poller_has_its_time() -> None:
    """Its rows waited all day, because it was paused."""
    asker = Asker(PollerLimits(following=EVERY), oldest=NOON, facts={"paused": True})
    asker.wait(86_400)
    asker.facts = {"changed_at": asker.now}
    assert asker.wait(300).healthy
    assert not asker.wait(120).healthy


def test_the_end_of_a_pause_after_a_failure_is_no_progress() -> None:
    """A handler that fails for hours is unhealthy, whenever its next call is."""
    asker = Asker(PollerLimits(following=EVERY), oldest=NOON)
    asker.facts = {"failures": 3, "error_type": "OSError"}
    while asker.look().healthy:
        asker.facts["retry_at"] = after(290, asker.now)
        asker.wait(60)
        assert (asker.now - NOON).total_seconds() < 600
    assert asker.look().word == "failing"
    asker.committed_at, asker.facts = asker.now, {}
    assert asker.look().healthy


def test_rows_set_aside_are_late_when_no_worker_tries_them() -> None:
    """They are past the checkpoint: the table shows none that waits."""
    asker = Asker(PollerLimits(following=EVERY), facts={"aside": 2, "aside_due": 2, "aside_due_since": NOON})
    assert asker.wait(360).healthy
    assert asker.wait(30).word == "not_retried"
    assert not asker.look().healthy
    asker.facts |= {"worker": "vm3/ace0", "lease_live": True, "lease_since": asker.now}
    assert asker.wait(3 * 270).healthy, "it tries one after the other, and then rows"


@pytest.mark.parametrize("max_lag", [None, 600.0])
def test_a_row_that_committed_late_is_new(max_lag: float | None) -> None:
    """It was stamped long before a look at which no row was there."""
    asker = Asker(PollerLimits(following=EVERY, max_lag=max_lag))
    asker.wait(3600)
    asker.oldest = after(600)
    assert asker.look().healthy
    assert not asker.wait(700).healthy


@pytest.mark.parametrize("timed", [TIMES, NUMBERS], ids=["times", "numbers"])
def test_an_open_transaction_may_be_too_old(timed: bool) -> None:
    asker = Asker(PollerLimits(following=EVERY, max_bound_age=600), oldest=after(1), above=True, timed=timed)
    assert asker.unhealthy_after(7200) == pytest.approx(615, abs=2 * LOOK)
    assert asker.look().word == "bound_held"


@pytest.mark.parametrize("timed", [TIMES, NUMBERS], ids=["times", "numbers"])
@pytest.mark.parametrize("max_lag", [None, 120.0])
def test_rows_of_a_long_transaction_are_not_late_when_it_ends(timed: bool, max_lag: float | None) -> None:
    """They were stamped an hour ago, and can be read now."""
    asker = Asker(PollerLimits(following=EVERY, max_lag=max_lag), oldest=after(1), above=True, timed=timed)
    asker.wait(3600)
    asker.above = False
    assert asker.look().healthy
    limit = max_lag or 360
    assert asker.wait(limit - 30).healthy
    assert not asker.wait(90).healthy


def test_the_usual_distance_of_the_bound_is_not_late() -> None:
    """With `settle = "1h"` a row can be read an hour after it was stamped."""
    asker = Asker(PollerLimits(following=EVERY, max_lag=60), now=after(86_400))
    asker.facts = {"readable": True, "pending": 1, "age": 3630.0, "distance": 3600.0}
    found = asker.look()
    assert found.healthy
    assert found.late == pytest.approx(30, abs=10)


def test_a_long_call_has_its_time_and_no_more() -> None:
    asker = Asker(PollerLimits(following=EVERY, handler_timeout=1800), oldest=NOON)
    asker.facts = {"worker": "vm3/ace0", "lease_live": True, "lease_since": after(5), "attempts": 1}
    assert asker.wait(1800).word == "working"
    assert asker.wait(120).word == "hung"
    assert not asker.look().healthy


def test_a_killed_worker_is_found_once_its_lease_has_ended() -> None:
    asker = Asker(PollerLimits(following=EVERY, handler_timeout=1800), oldest=NOON)
    asker.facts = {"worker": "vm3/ace0", "lease_live": True, "lease_since": after(5), "attempts": 1}
    asker.wait(30)
    asker.facts = {"attempts": 1}  # it was killed, and its lease has ended
    assert asker.unhealthy_after(900) == pytest.approx(345, abs=LOOK)


@pytest.mark.parametrize("facts", [{"source": "away"}, {"store": "away"}, {"document": "unreadable"}])
def test_what_did_not_answer_changes_no_memory(facts: dict[str, object]) -> None:
    asker = Asker(PollerLimits(following=EVERY), timed=NUMBERS)
    asker.wait(60)
    asker.oldest = asker.now
    asker.look()
    before = asker.seen
    asker.facts = {**facts, "readable": False, "pending": 0}
    asker.wait(60)
    assert asker.seen == before


def test_what_a_wrong_clock_wrote_is_not_believed() -> None:
    """Else no row would have waited before tomorrow."""
    seen = PollerMemory(clear_at=after(86_400), waiting_since=after(86_400))
    asker = Asker(PollerLimits(following=EVERY), oldest=NOON, now=after(900), seen=seen)
    assert (asker.look().word, asker.look().severity) == ("late", "unhealthy")


@pytest.mark.parametrize("timed", [TIMES, NUMBERS], ids=["times", "numbers"])
def test_what_is_remembered_counts_since_the_last_progress(timed: bool) -> None:
    """A moment that another put into the store: of a poller that works it makes no late one."""
    asker = Asker(PollerLimits(following=EVERY, max_lag=600), now=after(900), oldest=after(890), timed=timed)
    asker.seen, asker.committed_at = PollerMemory(waiting_since=after(-86_400)), after(890)
    assert asker.look().severity == "well"


def test_rows_stamped_before_the_calendar_begins_are_late() -> None:
    asker = Asker(PollerLimits(following=EVERY), now=after(900), facts={"readable": True, "pending": 1, "age": 1e12})
    assert (asker.look().word, asker.look().severity) == ("late", "unhealthy")
