"""One picture of a poller: the states that people meet as rows of data, and what holds for all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from poller.model.conditions import conditions, view, worse
from poller.model.view import TABLE, PollerFacts, PollerLimits, PollerView

NOW = datetime(2026, 11, 24, 4, 0, tzinfo=UTC)
LONG = 1200.0
"""Seconds: longer than a poller may go without progress."""
NIGHTLY = {"following": lambda at: at + timedelta(hours=20)}
QUARANTINE = {"on_poison": "quarantine", "max_quarantined": 1}
WORKER = {"worker": "vm3/ace0", "lease_live": True, "heartbeat_age": 3.0, "expires_in": 57.0}
ROWS = {"readable": True, "pending": 2}
FAILED = {"failures": 9, "error_type": "ValueError", "error_text": "no price", "row": "id=5", "row_key": ("id=5",)}


def before(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def waits(seconds: float, **others: Any) -> dict[str, Any]:
    """Two rows that may be read, so old, and nothing committed since."""
    return {**ROWS, "age": seconds, "committed_at": before(seconds), **others}


def picture(
    facts: Mapping[str, Any], limits: Mapping[str, Any] | None = None, seen: Mapping[str, float] | None = None
) -> PollerView:
    found = PollerFacts(**{"name": "orders", "now": NOW, "committed_at": before(5), **facts})
    return view(found, PollerLimits(**limits or {}), {name: before(at) for name, at in (seen or {}).items()})


UNBORN = {"document": "none", "committed_at": None}
PAUSED = {"paused": True, "by": "ada", "why": "migration", "at": before(3600)}
HALTED = {"halted": True, "at": before(180), "attempts": 5, "error_type": "ValueError", "row": "id=5"}
STATES: dict[str, tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, float], str, str]] = {
    "never ran, no row": (UNBORN, {}, {}, "new", "well"),
    "never ran, rows": ({**UNBORN, **ROWS, "age": LONG}, {}, {}, "new", "well"),
    "never ran for long": ({**UNBORN, **ROWS, "age": LONG}, {}, {"waiting": LONG}, "never_ran", "unhealthy"),
    "never ran, starts now": (UNBORN, {"starts_now": True}, {"unborn": LONG}, "never_ran", "unhealthy"),
    "idle": ({}, {}, {}, "idle", "well"),
    "behind": (waits(2), {}, {}, "behind", "well"),
    "created a moment ago": (
        waits(9e6, committed_at=None, created_at=before(30)), {}, {}, "behind", "well",
    ),
    "created a moment ago, for years of rows": (
        waits(9e6, committed_at=None, created_at=before(30)), {"max_lag": 600.0}, {}, "behind", "well",
    ),
    "late": (waits(LONG), {}, {}, "late", "unhealthy"),
    "late soon": (waits(180), {}, {}, "late", "warning"),
    "nightly": (waits(900), NIGHTLY, {}, "scheduled", "well"),
    "max_lag": (waits(LONG, committed_at=before(5)), {"max_lag": 600.0}, {}, "late", "unhealthy"),
    "a max_lag that is long": (waits(LONG), {"max_lag": 6000.0}, {}, "late", "warning"),
    "failing now": (waits(5, **FAILED), {}, {}, "failing", "warning"),
    "failing for 20 min": (waits(LONG, **FAILED, retry_at=before(1)), {}, {}, "failing", "unhealthy"),
    "failing, next try ahead": (waits(LONG, **FAILED, retry_at=before(-120)), {}, {}, "failing", "unhealthy"),
    "outage": (waits(5, failures=3, error_type="OSError"), {}, {}, "failing", "warning"),
    "outage for 20 min": (waits(LONG, failures=8, error_type="OSError"), {}, {}, "failing", "unhealthy"),
    "the handler asks to wait": (
        waits(5, error_type="RetryLater", retry_at=before(-60)), {}, {}, "failing", "warning"
    ),
    "halted": (waits(LONG, **HALTED), {}, {}, "halted", "unhealthy"),
    "halted and paused": (waits(LONG, **HALTED, paused=True, by="ada"), {}, {}, "halted", "unhealthy"),
    "paused": (waits(3600, **PAUSED), {}, {}, "paused", "warning"),
    "paused while it failed": (waits(LONG, **FAILED, **PAUSED), {}, {}, "paused", "warning"),
    "pausing": (waits(5, **WORKER, lease_since=before(5), paused=True), {}, {}, "pausing", "warning"),
    "cancelling": (waits(5, **WORKER, paused=True, cancelled=True), {}, {}, "cancelling", "warning"),
    "working": (waits(5, **WORKER, lease_since=before(5), attempts=1), {}, {}, "working", "well"),
    "a first load": (
        waits(9e6, **WORKER, lease_since=before(100), created_at=before(100), committed_at=before(3)), {}, {},
        "working", "well",
    ),
    "hung": (waits(700, **WORKER, lease_since=before(700), attempts=1), {}, {}, "hung", "unhealthy"),
    "hung for a moment": (waits(340, **WORKER, lease_since=before(340), attempts=1), {}, {}, "hung", "warning"),
    "killed now": (
        waits(40, **{**WORKER, "heartbeat_age": 40.0, "expires_in": 20.0}, lease_since=before(45), attempts=1), {}, {},
        "silent", "warning",
    ),
    "killed long ago": (waits(LONG, attempts=1), {}, {}, "late", "unhealthy"),
    "its worker dies each time": (waits(LONG, attempts=3), {}, {}, "crashing", "unhealthy"),
    "its worker died twice": (waits(30, attempts=2), {}, {}, "crashing", "warning"),
    "a row in quarantine": ({"quarantined": 1}, {"on_poison": "quarantine"}, {}, "quarantined", "warning"),
    "quarantine is full": ({"quarantined": 1}, QUARANTINE, {}, "quarantine_full", "unhealthy"),
    "blocked": (waits(5, **FAILED, quarantined=1), QUARANTINE, {}, "blocked", "unhealthy"),
    "full, and it asks to wait": (
        waits(5, error_type="RetryLater", retry_at=before(-60), quarantined=1), QUARANTINE, {},
        "quarantine_full", "unhealthy",
    ),
    "set aside": ({"aside": 1}, {"on_poison": "quarantine"}, {}, "idle", "well"),
    "not retried": (
        {"aside": 1, "aside_due": 1, "aside_due_since": before(1800), "committed_at": before(1800)},
        {"on_poison": "quarantine"}, {}, "not_retried", "unhealthy",
    ),
    "not retried for 3 min": (
        {"aside": 1, "aside_due": 1, "aside_due_since": before(180)}, {}, {}, "idle", "well",
    ),
    "reserved": (
        {**ROWS, "age": LONG, "kept_by": "ada", "lease_live": True, "expires_in": 20.0, "moved_at": before(2)}, {}, {},
        "reserved", "well",
    ),
    "another source": ({"source": "other", "differs": "table"}, {}, {}, "other_source", "unhealthy"),
    "halted, and another source": ({**HALTED, "source": "other"}, {}, {}, "halted", "unhealthy"),
    "paused, and another source": ({**PAUSED, "source": "other"}, {}, {}, "other_source", "unhealthy"),
    "changes were missed": ({"source": "gap"}, {}, {}, "capture_gap", "unhealthy"),
    "its table is gone": ({"source": "error"}, {}, {}, "source_unreadable", "unhealthy"),
    "its database is away": ({"source": "away"}, {}, {}, "source_away", "unhealthy"),
    "paused, and its database is away": ({**PAUSED, "source": "away"}, {}, {}, "paused", "warning"),
    "garbage": ({"document": "unreadable"}, {}, {}, "unreadable", "unhealthy"),
    "newer": ({"document": "newer"}, {}, {}, "unreadable", "unhealthy"),
    "lost": ({"document": "gone"}, {}, {}, "unreadable", "unhealthy"),
    "the store is away": ({"store": "away"}, {}, {}, "store_away", "unhealthy"),
    "the store refuses": ({"store": "denied"}, {}, {}, "store_away", "unhealthy"),
    "a clock 73 years ahead": ({"pending": 2, "clock_back": 2.3e9}, {}, {}, "clock_behind", "unhealthy"),
    "a clock a moment ahead": ({"pending": 2, "clock_back": 5.0}, {}, {}, "clock_behind", "warning"),
    "the database is behind": ({"pending": 2, "below_checkpoint": True}, {}, {}, "source_behind", "unhealthy"),
    "a row without a cursor": ({"null_cursors": 1}, {}, {}, "unread", "warning"),
    "just reset": (
        {**ROWS, "age": LONG, "committed_at": before(LONG), "moved_at": before(2)}, {}, {}, "behind", "well"
    ),
    "misconfigured": ({"config": "ordering_key differs"}, {}, {}, "misconfigured", "unhealthy"),
    "a number, seen waiting": (
        {**ROWS, "committed_at": before(LONG)}, {}, {"waiting": 900.0}, "late", "unhealthy"
    ),
    "a number, first look": ({**ROWS, "committed_at": before(LONG), "first_look": True}, {}, {}, "late", "warning"),
    "rows above the bound": ({"pending": 2, "age": 1.0}, {}, {}, "settling", "well"),
    "held for a moment": ({"pending": 2, "age": 9.0, "held_by": "backend 77"}, {}, {}, "bound_held", "well"),
    "held": ({"pending": 7, "age": 480.0, "held_by": "backend 77"}, {}, {}, "bound_held", "warning"),
    "held for too long": ({"pending": 7, "age": 480.0}, {"max_bound_age": 60.0}, {}, "bound_held", "unhealthy"),
    "held for longer than it may": (
        {"pending": 7, "age": 9.0}, {"max_bound_age": 5.0}, {}, "bound_held", "unhealthy"
    ),
    "a number, held": ({"pending": 7}, {}, {"above": 90.0}, "bound_held", "warning"),
    "nightly, killed in mid-batch": (
        waits(LONG, attempts=1, unfinished=True, left_until=before(LONG - 60)), NIGHTLY, {}, "late", "unhealthy",
    ),
    "nightly, killed a moment ago": (
        waits(90, attempts=1, unfinished=True, left_until=before(30)), NIGHTLY, {}, "scheduled", "well",
    ),
    "two apps": ({"two_apps": "another"}, {}, {}, "two_apps", "warning"),
    "a backfill at its end": ({"finished": True}, {"backfill": True}, {}, "finished", "well"),
    "a backfill that nothing runs": (waits(LONG), {"backfill": True}, {}, "not_running", "warning"),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_a_state_has_one_word_and_one_severity(state: str) -> None:
    facts, limits, seen, word, severity = STATES[state]
    found = picture(facts, limits, seen)
    assert (found.word, found.severity) == (word, severity), [one.name for one in found.conditions]


def test_each_condition_is_the_word_of_a_state_or_beside_one() -> None:
    said = {one.name for facts, limits, seen, *_ in STATES.values() for one in picture(facts, limits, seen).conditions}
    assert said == set(TABLE)


def test_what_is_beside_the_worst_is_said_too() -> None:
    assert [one.name for one in picture({**HALTED, "source": "other"}).conditions][:2] == ["halted", "other_source"]
    assert "moved" in {one.name for one in picture({**ROWS, "age": 9.0, "moved_at": before(2)}).conditions}
    assert picture({**FAILED, **waits(5)}).conditions[0].do == (
        "if every row fails, wait; else fix the row or the handler; to pass the row:"
        " poller quarantine add orders --pk id=5"
    )


def test_the_next_step_after_a_wish_to_wait_names_no_row() -> None:
    found = picture(waits(5, error_type="RetryLater", retry_at=before(-60))).conditions[0]
    assert (found.next, found.do) == ("wait; if it takes too long, find out what the handler waits for",) * 2


def test_only_an_operator_sees_the_range_of_a_backfill() -> None:
    command = "poller backfill orders --from 1 --to 9"
    found = picture(waits(LONG, goes_on=command), {"backfill": True}).conditions[0]
    assert (found.next, found.do) == ("run the poller backfill command again that began it", command)


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (waits(LONG, **FAILED, retry_at=before(-60)), "Failing for 19 min, 9 calls failed; next try in 60 s."),
        (waits(5, error_type="RetryLater", retry_at=before(-60)), "Its handler asked to wait; next try in 60 s."),
        (waits(LONG), "2 rows have waited 19 min, and no worker took them."),
        ({**waits(LONG), "pending": 1}, "1 row has waited 19 min, and no worker took it."),
        ({**waits(2), "pending": 1, "capped": True}, "1 or more rows wait for the next tick."),
        (
            {**waits(LONG), "pending": 1, "capped": True},
            "1 or more rows have waited 19 min, and no worker took them.",
        ),
        (PAUSED, "Paused by ada 1 h ago: migration."),
        ({"pending": 7, "age": 480.0, "held_by": "backend 77"}, "7 rows wait for backend 77, the oldest for 8 min."),
        (HALTED, "Halted 3 min ago: a row failed too often."),
        ({"quarantined": 1}, "1 row in quarantine waits for a person."),
    ],
)
def test_sentences_say_who_waits_and_for_how_long(facts: Mapping[str, Any], sentence: str) -> None:
    assert picture(facts).sentence == sentence


def test_what_others_chose_is_redacted_and_in_one_line() -> None:
    found = picture({**PAUSED, "why": "password=hunter2\n\x1b[31m" + "x" * 900, "worker": "https://a:hunter2@vm3/"})
    assert "hunter2" not in found.sentence
    assert found.sentence.isprintable()
    assert len(found.sentence) < 700


# -------------------------------------------------------------------------------------------------- what always holds

SECRET = "SECRET"
MOMENTS = st.sampled_from([1.0, 5.0, 90.0, 200.0, 400.0, 1200.0, 90_000.0])
SINCE = MOMENTS.map(before)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


ANY = st.builds(
    PollerFacts,
    name=st.just("orders"),
    now=st.just(NOW),
    config=maybe(st.just(f"{SECRET} of a configuration")),
    store=st.sampled_from([None, None, None, "away", "denied"]),
    document=st.sampled_from(["there", "there", "there", "none", "gone", "unreadable", "newer"]),
    source=st.sampled_from([None, None, None, "away", "error", "other"]),
    trouble=st.just(f"{SECRET} place"),
    differs=st.just(f"{SECRET} table"),
    created_at=maybe(SINCE),
    committed_at=maybe(SINCE),
    changed_at=maybe(SINCE),
    moved_at=maybe(SINCE),
    paused=st.booleans(),
    cancelled=st.booleans(),
    halted=st.booleans(),
    by=maybe(st.just("ada")),
    why=maybe(st.sampled_from([f"password={SECRET}", "a\x1b[31mb\nc", "x" * 900])),
    at=maybe(SINCE),
    worker=maybe(st.sampled_from(["vm3/ace0", f"https://a:{SECRET}@vm3/", "y" * 900])),
    lease_live=st.booleans(),
    lease_since=maybe(SINCE),
    heartbeat_age=maybe(MOMENTS),
    expires_in=maybe(MOMENTS),
    attempts=st.integers(0, 4),
    failures=st.sampled_from([0, 0, 1, 12]),
    retry_at=maybe(st.sampled_from([before(-120), before(5)])),
    error_type=st.sampled_from([None, "ValueError"]),
    error_text=st.just(f"{SECRET} order"),
    error_at=maybe(SINCE),
    row=maybe(st.just(f"{SECRET}=5")),
    row_key=st.sampled_from([(), (f"{SECRET}=5",)]),
    searching=st.booleans(),
    aside=st.integers(0, 3),
    aside_due=st.integers(0, 2),
    aside_due_since=maybe(SINCE),
    quarantined=st.sampled_from([0, 0, 1, 99]),
    readable=st.booleans(),
    pending=st.sampled_from([0, 1, 7, 10_000]),
    capped=st.booleans(),
    age=maybe(MOMENTS),
    distance=st.sampled_from([0.0, 60.0]),
    held_by=maybe(st.just(f"pid 77 of postgresql://a:{SECRET}@db/")),
    clock_back=st.sampled_from([None, None, 5.0, 1e5]),
    below_checkpoint=st.booleans(),
    null_cursors=st.sampled_from([0, 0, 3]),
    unfinished=st.booleans(),
    left_until=maybe(SINCE),
    first_look=st.booleans(),
    two_apps=st.sampled_from([None, None, SECRET]),
)
FACTS = ANY | ANY.map(lambda found: replace(found, store=None, document="there", config=None, halted=False))
"""Half of them are judged whole."""
LIMITS = st.builds(
    PollerLimits,
    following=st.sampled_from([lambda at: at + timedelta(seconds=10), lambda at: at + timedelta(hours=20)]),
    max_lag=st.sampled_from([None, None, 600.0]),
    max_bound_age=st.sampled_from([None, 60.0]),
    on_poison=st.sampled_from(["block", "halt", "quarantine"]),
    starts_now=st.booleans(),
)
SEEN = st.dictionaries(st.sampled_from(["waiting", "above", "unborn", "clear"]), SINCE)


@given(FACTS, LIMITS, SEEN)
def test_the_word_is_the_worst_and_everything_bad_has_a_next_step(
    facts: PollerFacts, limits: PollerLimits, seen: dict[str, datetime]
) -> None:
    found = view(facts, limits, seen)
    names = [one.name for one in found.conditions]
    assert len(set(names)) == len(names)
    assert set(names) <= set(TABLE)
    assert found.severity == max((one.severity for one in found.conditions), key=worse)
    assert found.word == names[0]
    assert found.conditions[0].severity == found.severity
    assert found.healthy is (found.severity != "unhealthy")
    assert all(one.next for one in found.conditions if one.severity == "unhealthy")
    assert sorted(names) == sorted(one.name for one in conditions(facts, limits, seen))


@given(FACTS, LIMITS, SEEN)
def test_no_public_text_holds_a_key_a_place_or_an_error(
    facts: PollerFacts, limits: PollerLimits, seen: dict[str, datetime]
) -> None:
    for one in view(facts, limits, seen).conditions:
        public = f"{one.sentence} {one.next}"
        assert SECRET not in public
        assert public.isprintable()
        assert len(one.sentence) <= 800


@given(FACTS, LIMITS, SEEN)
def test_more_trouble_is_never_less_severe(facts: PollerFacts, limits: PollerLimits, seen: dict[str, datetime]) -> None:
    had = worse(view(facts, limits, seen).severity)
    worsened = [replace(facts, halted=True, at=NOW), replace(facts, quarantined=facts.quarantined + 1)]
    if facts.failures:
        worsened.append(replace(facts, failures=facts.failures + 1, retry_at=before(-200)))
    for other in worsened:
        assert worse(view(other, limits, seen).severity) >= had


@given(FACTS, LIMITS, SEEN)
def test_rows_that_nobody_delivers_are_unhealthy_in_the_end(
    facts: PollerFacts, limits: PollerLimits, seen: dict[str, datetime]
) -> None:
    """Whatever else is so: old rows, no progress, no worker, no pause."""
    assume(limits.following(NOW) - NOW < timedelta(minutes=1))
    assume("clear" not in seen)
    old = replace(
        facts, distance=0.0, document="there", readable=True, pending=7, age=LONG + 300, first_look=False,
        paused=False, worker=None,
        committed_at=before(LONG), created_at=None, changed_at=None, moved_at=None,
    )  # fmt: skip
    assert view(old, limits, seen).severity == "unhealthy"


def test_where_nothing_is_to_be_done_nothing_is_said() -> None:
    (only,) = picture({}).conditions
    assert (only.name, only.sentence, only.next) == ("idle", "Nothing waits.", None)
