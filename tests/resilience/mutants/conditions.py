"""Mutants of the picture of a poller; each dies of a state, or of what holds for all."""

from __future__ import annotations

from tests.resilience.mutants.mutant import Mutant, dying_of

_TESTS = "unit/model/test_conditions.py::"


def _of_state(name: str, old: str, new: str, state: str) -> Mutant:
    test = f"{_TESTS}test_a_state_has_one_word_and_one_severity[{state}]"
    return dying_of(name, "model/conditions.py", old, new, test)


CONDITIONS = (
    dying_of(
        "the end of a retry pause is progress",
        "model/view.py",
        "known = (self.committed_at, self.changed_at, self.moved_at)",
        "known = (self.committed_at, self.changed_at, self.moved_at, self.retry_at)",
        f"{_TESTS}test_a_state_has_one_word_and_one_severity[failing, next try ahead]",
    ),
    _of_state(
        "failing is never unhealthy",
        'severity = "warning" if f.paused else self.grows()',
        'severity = "warning" if f.paused or f.failures else self.grows()',
        "failing for 20 min",
    ),
    _of_state(
        "a halt is hidden by another source",
        "        if f.halted:\n",
        '        if f.halted and f.source != "other":\n',
        "halted, and another source",
    ),
    _of_state(
        "a pause does not excuse a database that is away",
        'excused: Severity = "warning" if f.paused else "unhealthy"',
        'excused: Severity = "unhealthy"',
        "paused, and its database is away",
    ),
    _of_state(
        "a clock far behind is only a warning",
        "long = f.clock_back > self.o.patience",
        "long = f.clock_back < 0",
        "a clock 73 years ahead",
    ),
    _of_state(
        "a worker that dies each time is late",
        "elif f.attempts >= 2 and",
        "elif f.attempts >= 99 and",
        "its worker dies each time",
    ),
    _of_state(
        "rows wait from before the document was created",
        "_latest(since, f.created_at, f.moved_at) or since",
        "since",
        "created a moment ago, for years of rows",
    ),
    _of_state(
        "the first look at a number shouts",
        "        if f.first_look:\n",
        "        if f.first_look and not stalled:\n",
        "a number, first look",
    ),
    _of_state(
        "a silent worker is unnoticed",
        "f.heartbeat_age > 2 * o.heartbeat + 1",
        "f.heartbeat_age > 1e9",
        "killed now",
    ),
    _of_state(
        "a full quarantine is well",
        'yield Condition("quarantine_full", "unhealthy"',
        'yield Condition("quarantine_full", "well"',
        "quarantine is full",
    ),
    dying_of(
        "the schedule is ignored",
        "model/conditions.py",
        "        found = following(after)\n",
        "        found = after\n",
        f"{_TESTS}test_a_state_has_one_word_and_one_severity[nightly]",
    ),
    _of_state(
        "rows that were left wait for the schedule",
        "if f.unfinished and not f.lease_live else None",
        "if False else None",
        "nightly, killed in mid-batch",
    ),
    _of_state(
        "a handler that asks to wait blocks",
        "failed = self.fails and self._row_failed",
        "failed = self.fails",
        "full, and it asks to wait",
    ),
    dying_of(
        "an error's text is public",
        "model/conditions.py",
        'f"Failing{long}{calls}{again}."',
        'f"Failing{long}{calls}{again}. {self.error}"',
        f"{_TESTS}test_sentences_say_who_waits_and_for_how_long",
    ),
    dying_of(
        "what others chose is shown as it is",
        "model/conditions.py",
        "return None if text is None else first_line(text, _LONGEST)",
        "return text",
        f"{_TESTS}test_what_others_chose_is_redacted_and_in_one_line",
    ),
)
