"""Times and ages have one form, wherever people read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from poller.model.when import ago, clock, moment, span, took

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 4, 7, 1, 23, 45, 678_901, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-3, "0 s"),
        (0.6, "1 s"),
        (119.4, "119 s"),
        (119.6, "2 min"),
        (3599, "59 min"),
        (7200, "2 h"),
        (7500, "2 h 5 min"),
        (86_400, "1 d"),
        (200_000, "2 d 7 h"),
        (1e300, "more than 1,000 years"),
        (float("inf"), "more than 1,000 years"),
        (float("nan"), "an unknown time"),
        (None, "an unknown time"),
    ],
)
def test_an_age_has_one_or_two_units(seconds: float | None, expected: str) -> None:
    assert span(seconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "0 s"), (0.0123, "12.3 ms"), (0.9996, "1 s"), (1.52, "1.5 s"), (9.96, "10 s")]
)
def test_what_was_measured_keeps_the_digits_that_matter(seconds: float, expected: str) -> None:
    assert took(seconds) == expected


def test_a_moment_is_in_utc_and_to_the_second() -> None:
    assert (moment(NOW), clock(NOW)) == ("2026-04-07 01:23:45Z", "01:23:45Z")
    assert (ago(NOW, NOW + timedelta(minutes=3)), ago(NOW, NOW - timedelta(seconds=40))) == ("3 min ago", "in 40 s")


OWN_FORMS = r"[0-9]f\} s\b|strftime\(|:%H:%M|:%Y-%m-%d %H"
ELSEWHERE = {
    "poller/model/when.py": "the one",
    "cli/poller_cli/output/events.py": "lines of a log, which programs read",
    "cli/poller_cli/commands/demo.py": "the seconds in front of each line",
    "cli/poller_cli/demo/play.py": "a limit",
    "cli/poller_cli/demo/poison.py": "a limit",
}


def test_no_other_module_has_a_form_of_its_own() -> None:
    """Sources, stores and demo tables write times for databases, relays for names of blobs."""
    files = [*(ROOT / "cli").rglob("*.py"), *(ROOT / "poller").rglob("*.py")]
    own = ("poller/sources/", "poller/stores/", "poller/databases/", "poller/relays/", "cli/poller_cli/demo/scene.py")
    found = {
        name
        for path in files
        if not (name := path.relative_to(ROOT).as_posix()).startswith(own) and re.search(OWN_FORMS, path.read_text())
    }
    assert found <= ELSEWHERE.keys()
