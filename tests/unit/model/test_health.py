"""The rule of health on a passed-in clock: who is unhealthy when, and who is not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from poller.model.health import Rule, Verdict, judge
from poller.model.health_memory import Facts, Rows, Seen, remembered
from poller.model.schedule import Schedule

NOON = datetime(2026, 4, 7, 12, 0, 0, tzinfo=UTC)  # a Tuesday
EVERY = Schedule("*/10 * * * * *")
NIGHTLY = Schedule("0 0 2 * * *")
OFFICE = Schedule("0 */5 8-16 * * 1-5")
LOOK = 15.0
"""Seconds between two looks, as `App.kept_health` has them."""
TIMES, NUMBERS = True, False


def after(seconds: float, since: datetime = NOON) -> datetime:
    return since + timedelta(seconds=seconds)


@dataclass
class Asker:
    """Looks every 15 seconds, remembers what looks remember, and says when the verdict changed."""

    rule: Rule
    now: datetime = NOON
    timed: bool = TIMES
    committed_at: datetime | None = NOON
    exists: bool = True
    began: bool = False
    generation: int = 0
    facts: dict[str, object] = field(default_factory=dict)
    oldest: datetime | None = None
    """When the oldest row was stamped."""
    above: bool = False
    seen: Seen | None = None

    def look(self) -> Verdict:
        waits = self.oldest is not None and self.oldest <= self.now
        age = (self.now - self.oldest).total_seconds() if waits and self.oldest and self.timed else None
        readable = waits and not self.above
        rows = Rows(readable=readable, above=waits and self.above, age=age, bound_age=0.0, held=self.above)
        facts = Facts(
            now=self.now,
            exists=self.exists,
            committed_at=self.committed_at if self.exists else None,
            began=self.began,
            generation=self.generation,
            rows=rows,
        )
        facts = replace(facts, **self.facts)  # type: ignore[arg-type]
        self.seen = remembered(self.seen, facts)
        return judge(facts, self.rule, self.seen)

    def wait(self, seconds: float) -> Verdict:
        """The verdict after that time, looking all the while."""
        until = after(seconds, self.now)
        while after(LOOK, self.now) < until:
            self.now = after(LOOK, self.now)
            self.look()
        self.now = until
        return self.look()

    def unhealthy_after(self, limit: float) -> float | None:
        """In how many seconds it became unhealthy; None where it did not."""
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
    asker = Asker(Rule(schedule=EVERY, max_lag=max_lag, ttl=ttl), timed=timed, exists=exists)
    assert asker.wait(3600).healthy, "no row waits"
    asker.oldest = asker.now
    limit = max_lag or 300 + ttl
    scheduled = 10
    found = asker.unhealthy_after(2 * limit)
    assert found is not None
    assert limit - LOOK < found <= limit + scheduled + LOOK


def test_it_is_healthy_again_when_work_goes_on() -> None:
    asker = Asker(Rule(schedule=EVERY), oldest=NOON)
    assert asker.unhealthy_after(900) is not None
    asker.committed_at = asker.now
    assert asker.look().healthy
    asker.oldest = None
    assert asker.look().kind == "idle"


def test_whoever_asks_first_after_days_finds_it() -> None:
    asker = Asker(Rule(schedule=EVERY), oldest=after(60), now=after(3 * 86_400))
    verdict = asker.look()
    assert (verdict.kind, verdict.healthy) == ("late", False)
    assert verdict.stalled == pytest.approx(3 * 86_400 - 60, abs=10)


def test_whoever_asks_first_finds_numbers_by_the_last_commit() -> None:
    asker = Asker(Rule(schedule=EVERY), oldest=after(60), now=after(3 * 86_400), timed=NUMBERS)
    assert asker.look().kind == "late"


def test_numbers_that_came_just_now_are_not_late() -> None:
    """The last commit is an hour ago, because nothing came."""
    asker = Asker(Rule(schedule=EVERY), timed=NUMBERS)
    asker.wait(3600)
    asker.oldest = asker.now
    assert asker.look().healthy


def test_rare_looks_take_new_numbers_for_new() -> None:
    asker = Asker(Rule(schedule=EVERY), timed=NUMBERS)
    asker.look()
    asker.now, asker.oldest = after(3600), after(3599)
    assert asker.look().healthy
    asker.now = after(7200)
    assert not asker.look().healthy


def test_a_row_that_is_changed_again_and_again_still_waits() -> None:
    """Its stamp is always a second old, and nobody passed it."""
    asker = Asker(Rule(schedule=EVERY))
    asker.wait(3600)
    asker.facts = {"rows": Rows(readable=True, age=1.0)}
    assert asker.unhealthy_after(900) == pytest.approx(375, abs=LOOK)


@pytest.mark.parametrize("max_lag", [10.0, 30.0])
def test_a_short_max_lag_counts_from_the_first_look(max_lag: float) -> None:
    """Looks say only that the row came within the last 15 seconds."""
    asker = Asker(Rule(schedule=EVERY, max_lag=max_lag), timed=NUMBERS)
    asker.wait(3600)
    asker.oldest = asker.now
    assert asker.wait(LOOK).healthy
    assert asker.unhealthy_after(120) is not None


def test_a_nightly_poller_is_healthy_all_day() -> None:
    asker = Asker(Rule(schedule=NIGHTLY), oldest=after(60))
    assert asker.unhealthy_after(13.9 * 3600) is None
    assert asker.look().kind == "scheduled"
    assert asker.look().due == datetime(2026, 4, 8, 2, tzinfo=UTC)
    found = asker.unhealthy_after(3600)
    assert found is not None
    assert after(found - LOOK, datetime(2026, 4, 8, 1, 54, tzinfo=UTC)) <= datetime(2026, 4, 8, 2, 6, 15, tzinfo=UTC)


def test_a_nightly_poller_that_left_rows_has_until_next_night() -> None:
    """Its tick ended with rows left: nothing is due before the next one."""
    asker = Asker(Rule(schedule=NIGHTLY), oldest=after(-86_400), committed_at=after(-35_700))
    assert asker.unhealthy_after(13.9 * 3600) is None


def test_a_poller_of_business_hours_is_healthy_at_night() -> None:
    friday = datetime(2026, 4, 10, 16, 56, tzinfo=UTC)
    asker = Asker(Rule(schedule=OFFICE), now=friday, oldest=friday, committed_at=friday)
    monday = datetime(2026, 4, 13, 8, 0, tzinfo=UTC)
    assert asker.unhealthy_after((monday - friday).total_seconds() + 300) is None
    assert asker.unhealthy_after(300) is not None


def test_a_first_load_of_years_is_healthy_while_it_commits() -> None:
    """Each commit leaves rows that are years old."""
    asker = Asker(Rule(schedule=EVERY), oldest=after(-10 * 365 * 86_400), began=True)
    for _ in range(40):
        verdict = asker.wait(240)
        assert (verdict.healthy, verdict.kind) == (True, "due")
        asker.committed_at, asker.began = asker.now, False
    assert asker.unhealthy_after(900) is not None


def test_a_first_load_is_as_late_as_its_document_is_old() -> None:
    asker = Asker(Rule(schedule=EVERY, max_lag=600), oldest=after(-10 * 365 * 86_400), began=True)
    assert asker.wait(120).healthy
    asker.committed_at, asker.began = asker.now, False
    assert asker.wait(60).late == pytest.approx(180, abs=10)
    assert not asker.wait(600).healthy


@pytest.mark.parametrize("exists", [True, False], ids=["a reset", "a first load"])
def test_a_load_that_began_and_committed_between_two_looks(exists: bool) -> None:
    """Neither look saw its document before the first commit."""
    asker = Asker(Rule(schedule=EVERY, max_lag=600), exists=exists, oldest=None if exists else after(-9e7))
    asker.look()
    asker.oldest, asker.generation, asker.exists = after(-9e7), int(exists), True
    asker.now = asker.committed_at = after(15)
    assert asker.wait(500).healthy
    asker.committed_at = asker.now
    assert not asker.wait(300).healthy


def test_max_lag_counts_from_the_end_of_a_long_transaction() -> None:
    """It wrote so many rows that they are delivered for half an hour: each commit leaves some."""
    asker = Asker(Rule(schedule=EVERY, max_lag=600), oldest=after(1), above=True)
    asker.wait(3600)
    asker.above, ended = False, asker.now
    while asker.look().healthy:
        asker.committed_at = asker.now
        asker.oldest = after(10, asker.oldest or NOON)
        asker.wait(60)
        assert (asker.now - ended).total_seconds() < 1200
    assert (asker.now - ended).total_seconds() > 600


def test_years_of_rows_at_the_first_look_without_a_document() -> None:
    """Nobody knows since when it has been deployed."""
    asker = Asker(Rule(schedule=EVERY), exists=False, oldest=after(-10 * 365 * 86_400))
    assert asker.look().healthy
    assert asker.unhealthy_after(900) == pytest.approx(375, abs=LOOK)
    assert asker.look().kind == "never_ran"


def test_without_a_document_and_rows_nothing_is_late() -> None:
    asker = Asker(Rule(schedule=EVERY), exists=False)
    assert asker.unhealthy_after(7200) is None


def test_what_starts_now_must_start() -> None:
    """No row counts before the first tick, so nobody else would notice that there is none."""
    asker = Asker(Rule(schedule=EVERY, starts_now=True), exists=False)
    assert asker.unhealthy_after(900) == pytest.approx(375, abs=LOOK)
    asker.exists, asker.committed_at = True, asker.now
    assert asker.wait(7200).healthy


def test_a_paused_poller_is_healthy_whatever_waits() -> None:
    asker = Asker(Rule(schedule=EVERY, max_lag=60), oldest=NOON, facts={"paused": True})
    assert asker.unhealthy_after(86_400) is None
    assert asker.look().kind == "paused"


def test_a_pause_excuses_a_database_that_is_away() -> None:
    asker = Asker(Rule(schedule=EVERY), facts={"paused": True, "rows": None})
    assert asker.look().healthy


@pytest.mark.parametrize("what", ["halted", "trouble"])
def test_a_pause_excuses_nothing_that_needs_a_person(what: str) -> None:
    asker = Asker(Rule(schedule=EVERY), facts={"paused": True, what: True})
    assert asker.look().kind == what
    assert not asker.look().healthy


def test_a_resumed_poller_has_its_time() -> None:
    """Its rows waited all day, because it was paused."""
    asker = Asker(Rule(schedule=EVERY), oldest=NOON, facts={"paused": True})
    asker.wait(86_400)
    asker.facts = {"changed_at": asker.now}
    assert asker.wait(300).healthy
    assert not asker.wait(120).healthy


def test_a_pause_after_a_failed_call_is_reported() -> None:
    asker = Asker(Rule(schedule=EVERY), oldest=NOON)
    for _ in range(20):
        asker.facts = {"retry_at": after(290, asker.now)}
        assert asker.look().kind == "backing_off"
        assert asker.wait(280).healthy
    assert asker.unhealthy_after(900) is not None, "nobody made the next try"


def test_max_lag_counts_also_while_it_backs_off() -> None:
    asker = Asker(Rule(schedule=EVERY, max_lag=600), oldest=NOON, facts={"retry_at": after(3600)})
    assert asker.wait(600).healthy
    assert asker.wait(60).kind == "max_lag"


def test_rows_set_aside_are_late_when_nobody_tries_them_again() -> None:
    """They are past the checkpoint: the table shows none that waits."""
    asker = Asker(Rule(schedule=EVERY), facts={"aside_due_at": NOON, "aside_due": 2})
    assert asker.wait(360).kind == "due"
    assert asker.wait(30).kind == "not_retried"
    asker.facts["at_work_since"] = asker.now
    assert asker.wait(3 * 270).healthy, "it tries one after the other, and then rows"
    assert not asker.wait(120).healthy


def test_a_row_that_committed_late_and_was_not_seen_before_is_new() -> None:
    """Its bound is not known: what shows is a stamp of long before a look at which no row was there."""
    asker = Asker(Rule(schedule=EVERY, max_lag=600))
    asker.wait(3600)
    asker.facts = {"rows": Rows(readable=True, age=3000)}
    assert asker.look().healthy
    assert not asker.wait(700).healthy


def test_the_usual_distance_counts_while_somebody_holds_the_bound() -> None:
    """Rows are readable an hour after they are stamped; then a transaction stays open."""
    asker = Asker(Rule(schedule=EVERY, max_lag=600), facts={"rows": Rows(readable=False, above=True, bound_age=3600)})
    asker.look()
    asker.now = after(86_400)
    asker.look()
    asker.now, asker.facts = after(15, asker.now), {"rows": Rows(readable=True, age=3610, bound_age=3605, held=True)}
    assert asker.look().late == pytest.approx(10, abs=10)
    asker.committed_at = asker.now = after(900, asker.now)
    asker.facts = {"rows": Rows(readable=True, age=4510, bound_age=4505, held=True)}
    assert asker.look().late == pytest.approx(910, abs=10)


def test_what_a_transaction_held_back_beside_others_is_not_late() -> None:
    """Older rows could be read all the while, so that no look saw none."""
    asker = Asker(Rule(schedule=EVERY, max_lag=600))
    asker.look()
    for seconds in range(0, 3600, 60):
        asker.now = asker.committed_at = after(seconds)
        asker.facts = {"rows": Rows(readable=True, age=30.0 + seconds, bound_age=29.0 + seconds, held=True)}
        asker.look()
    asker.now = asker.committed_at = after(3600)
    asker.facts = {"rows": Rows(readable=True, age=3500.0, bound_age=0.0)}
    assert asker.look().late == pytest.approx(60, abs=10)
    assert asker.wait(500).healthy
    asker.facts = {"rows": Rows(readable=True, age=4200.0, bound_age=0.0)}
    asker.now = after(4300)
    assert asker.look().kind == "max_lag"


def test_rows_above_an_open_transaction_are_reported() -> None:
    asker = Asker(Rule(schedule=EVERY, max_lag=60), oldest=NOON, above=True)
    assert asker.unhealthy_after(7200) is None
    verdict = asker.look()
    assert (verdict.kind, verdict.late, verdict.held) == ("above_bound", None, 7200)


@pytest.mark.parametrize("timed", [TIMES, NUMBERS], ids=["times", "numbers"])
def test_an_open_transaction_is_too_old_where_that_is_said(timed: bool) -> None:
    asker = Asker(Rule(schedule=EVERY, max_bound_age=600), oldest=after(1), above=True, timed=timed)
    assert asker.unhealthy_after(7200) == pytest.approx(615, abs=2 * LOOK)
    assert asker.look().kind == "bound"


@pytest.mark.parametrize("timed", [TIMES, NUMBERS], ids=["times", "numbers"])
@pytest.mark.parametrize("max_lag", [None, 120.0])
def test_rows_of_a_long_transaction_are_not_late_when_it_ends(timed: bool, max_lag: float | None) -> None:
    """They were stamped an hour ago, and became readable now."""
    asker = Asker(Rule(schedule=EVERY, max_lag=max_lag), oldest=after(1), above=True, timed=timed)
    asker.wait(3600)
    asker.above = False
    assert asker.look().healthy
    limit = max_lag or 360
    assert asker.wait(limit - 30).healthy
    assert not asker.wait(90).healthy


def test_the_usual_distance_of_the_bound_is_not_late() -> None:
    """A heuristic bound of an hour: a row is readable an hour after it was stamped."""
    asker = Asker(Rule(schedule=EVERY, max_lag=60))
    rows = Rows(readable=True, age=3630, bound_age=3600)
    asker.now, asker.facts = after(86_400), {"rows": rows}
    verdict = asker.look()
    assert verdict.healthy
    assert verdict.late == pytest.approx(30, abs=10)


def test_a_long_call_has_its_time_and_no_more() -> None:
    rule = Rule(schedule=EVERY, handler_limit=1800)
    asker = Asker(rule, oldest=NOON, facts={"at_work_since": after(5)})
    assert asker.wait(1800).kind == "working"
    assert asker.wait(120).kind == "late"


def test_a_killed_worker_is_found_once_its_lease_has_ended() -> None:
    asker = Asker(Rule(schedule=EVERY, handler_limit=1800), oldest=NOON, facts={"at_work_since": after(5)})
    asker.wait(30)
    asker.facts = {}  # it was killed, and its lease has ended
    assert asker.unhealthy_after(900) == pytest.approx(345, abs=LOOK)


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({"halted": True}, "halted"),
        ({"blocked": True}, "full"),
        ({"trouble": True}, "trouble"),
        ({"rows": None}, "trouble"),
        ({"rows": Rows(readable=False, below_checkpoint=True)}, "below_checkpoint"),
    ],
)
def test_what_needs_a_person_is_unhealthy_at_once(facts: dict[str, object], kind: str) -> None:
    asker = Asker(Rule(schedule=EVERY), facts=facts)
    verdict = asker.look()
    assert (verdict.kind, verdict.healthy) == (kind, False)


def test_a_reset_to_the_beginning_has_its_time() -> None:
    asker = Asker(Rule(schedule=EVERY))
    asker.wait(86_400)
    asker.oldest, asker.generation, asker.began, asker.committed_at = after(-86_400), 1, True, asker.now
    assert asker.wait(300).healthy
    assert not asker.wait(120).healthy


def test_a_database_that_was_away_changes_no_memory() -> None:
    asker = Asker(Rule(schedule=EVERY), timed=NUMBERS)
    asker.wait(60)
    asker.oldest = asker.now
    asker.look()
    before = asker.seen
    asker.facts = {"rows": None}
    asker.wait(60)
    assert asker.seen == before


def test_what_a_wrong_clock_wrote_is_not_believed() -> None:
    seen = Seen(clear_at=after(86_400), waiting_since=after(86_400), began_at=after(86_400))
    asker = Asker(Rule(schedule=EVERY), oldest=NOON, now=after(900), seen=seen)
    assert asker.look().kind == "late"


def test_rows_stamped_before_the_calendar_begins_are_late() -> None:
    rows = Rows(readable=True, age=1e12)
    asker = Asker(Rule(schedule=EVERY), now=after(900), facts={"rows": rows})
    assert asker.look().kind == "late"
