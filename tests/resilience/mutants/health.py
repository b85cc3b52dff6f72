"""Mutants of the rule of health; each dies of a law on a passed-in clock."""

from __future__ import annotations

from tests.resilience.mutants.mutant import Edit, Mutant

_RULE, _MEMORY = "model/health.py", "model/health_memory.py"
_TESTS = "tests/unit/model/test_health.py::"


def _mutant(name: str, file: str, old: str, new: str, test: str) -> Mutant:
    return Mutant(name, (Edit(file, old, new),), test.partition("[")[0], test=_TESTS + test)


HEALTH = (
    _mutant(
        "a poller is late without asking its schedule",
        _RULE,
        "due = rule.schedule.next_after(since)",
        "due = since",
        "test_a_nightly_poller_is_healthy_all_day",
    ),
    _mutant(
        "commits do not count",
        _RULE,
        "_overdue(facts.now, max(since, facts.progress or since), rule)",
        "_overdue(facts.now, since, rule)",
        "test_a_first_load_of_years_is_healthy_while_it_commits",
    ),
    _mutant(
        "max_lag is excused by commits",
        _RULE,
        "if late is not None and late > rule.max_lag:",
        "if stalled is not None and stalled > rule.max_lag:",
        "test_max_lag_counts_also_while_it_backs_off",
    ),
    _mutant(
        "a commit hides since when rows of a long transaction wait",
        _RULE,
        "if committed_late and seen.run_since is not None",
        "if False and seen.run_since is not None",
        "test_max_lag_counts_from_the_end_of_a_long_transaction",
    ),
    _mutant(
        "rows of a long transaction are as late as their stamp",
        _RULE,
        "elif committed_late or changed_since:",
        "elif changed_since:",
        "test_a_row_that_committed_late_and_was_not_seen_before_is_new",
    ),
    _mutant(
        "what a transaction held back is as late as its stamp",
        _RULE,
        "        at = max(at, seen.held_at)",
        "        pass",
        "test_what_a_transaction_held_back_beside_others_is_not_late",
    ),
    _mutant(
        "a row that is changed again and again is always new",
        _RULE,
        "elif committed_late or changed_since:",
        "elif committed_late:",
        "test_a_row_that_is_changed_again_and_again_still_waits",
    ),
    _mutant(
        "a worker at work has time without end",
        _RULE,
        "<= rule.handler_limit * (1 + facts.aside_due) + rule.ttl",
        "<= 1e9",
        "test_a_long_call_has_its_time_and_no_more",
    ),
    _mutant(
        "a halt is excused by a pause",
        _RULE,
        '    if facts.halted:\n        return replace(measured, kind="halted")\n',
        '    if facts.halted and not facts.paused:\n        return replace(measured, kind="halted")\n',
        "test_a_pause_excuses_nothing_that_needs_a_person",
    ),
    _mutant(
        "rows set aside are forgotten",
        _RULE,
        "if again is None or not of_rows.healthy:",
        "if True:",
        "test_rows_set_aside_are_late_when_nobody_tries_them_again",
    ),
    _mutant(
        "a first load between two looks is years late",
        _MEMORY,
        "facts.committed_at if facts.began or anew else None",
        "facts.committed_at if facts.began else None",
        "test_a_load_that_began_and_committed_between_two_looks",
    ),
    _mutant(
        "a database that is away is one without rows",
        _MEMORY,
        "    elif facts.rows is not None:\n        above_since",
        "    else:\n        above_since",
        "test_a_database_that_was_away_changes_no_memory",
    ),
    _mutant(
        "what a wrong clock wrote is believed",
        _MEMORY,
        "    return (at - now).total_seconds() > SLACK",
        "    return False",
        "test_what_a_wrong_clock_wrote_is_not_believed",
    ),
)
