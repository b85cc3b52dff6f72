"""Mutants of what looks see and remember; each dies of a law on a passed-in clock, or of a look at a real document."""

from __future__ import annotations

from tests.resilience.mutants.mutant import dying_of

_RULES, _MEMORY, _WAIT, _FACTS = "model/conditions.py", "model/memory.py", "model/conditions.py", "admin/facts.py"
_LAWS, _LOOKS = "unit/model/test_health.py::", "integration/health/test_frozen.py::"

HEALTH = (
    dying_of(
        "a poller is late without asking its schedule",
        _WAIT,
        "        found = following(after)\n",
        "        found = after\n",
        _LAWS + "test_a_nightly_poller_is_healthy_all_day",
    ),
    dying_of(
        "commits do not count",
        "model/view.py",
        "known = (self.committed_at, self.changed_at, self.moved_at)",
        "known = (self.changed_at, self.moved_at)",
        _LAWS + "test_a_first_load_of_years_is_healthy_while_it_commits",
    ),
    dying_of(
        "rows that a killed worker left wait for the next night",
        _WAIT,
        "return found if left_until is None else",
        "return found if left_until is None or left_until else",
        _LAWS + "test_rows_that_a_killed_worker_left_at_night_do_not_wait",
    ),
    dying_of(
        "what a transaction held back is as late as its stamp",
        _RULES,
        "return since if clear is None else max(since, clear)",
        "return since",
        _LAWS + "test_rows_of_a_long_transaction_are_not_late_when_it_ends[None-times]",
    ),
    dying_of(
        "a row that is changed again and again is always new",
        _RULES,
        "since = stamped if waiting is None else min(stamped, waiting)",
        "since = stamped",
        _LAWS + "test_a_row_that_is_changed_again_and_again_still_waits",
    ),
    dying_of(
        "rows set aside are forgotten",
        _RULES,
        "if not f.aside_due or f.aside_due_since is None",
        "if f.aside_due or f.aside_due_since is None",
        _LAWS + "test_rows_set_aside_are_late_when_no_worker_tries_them",
    ),
    dying_of(
        "a database that is away is one without rows",
        _MEMORY,
        "    elif facts.source is None:\n",
        "    elif not facts.readable:\n",
        _LAWS + "test_what_did_not_answer_changes_no_memory[facts0]",
    ),
    dying_of(
        "a store that is away is one without rows",
        _MEMORY,
        "    if facts.config or facts.store or",
        "    if facts.config or",
        _LAWS + "test_what_did_not_answer_changes_no_memory[facts1]",
    ),
    dying_of(
        "what a wrong clock wrote is believed",
        _MEMORY,
        "    return (at - now).total_seconds() > SLACK",
        "    return False",
        _LAWS + "test_what_a_wrong_clock_wrote_is_not_believed",
    ),
    dying_of(
        "a store says when no row could be read",
        _MEMORY,
        '        return self.model_copy(update={"clear_at": None})\n',
        "        return self\n",
        "integration/health/test_memory.py::test_a_forged_moment_hides_no_row_that_is_late[clear_at]",
    ),
    dying_of(
        "what is remembered outlives a commit",
        _MEMORY,
        "if since is not None and (progress is None or progress <= since):",
        "if since is not None:",
        _LAWS + "test_what_is_remembered_counts_since_the_last_progress[numbers]",
    ),
    dying_of(
        "the first look at a number knows",
        _MEMORY,
        "first_look=number and is_new",
        "first_look=False",
        _LAWS + "test_a_numbers_first_look_warns_and_a_later_one_knows",
    ),
    dying_of(
        "nothing outlives a process",
        _MEMORY,
        "    return None if found == PollerMemory() else found",
        "    return None",
        _LAWS + "test_what_outlives_a_process_finds_numbers_too",
    ),
    dying_of(
        "what a time says itself is kept too",
        _MEMORY,
        "    untold = facts.age is None and (",
        "    untold = (",
        _LAWS + "test_nothing_outlives_a_process_that_needs_not[a time]",
    ),
    dying_of(
        "creating a poller is a commit",
        _FACTS,
        "committed = checkpoint.last_successful_batch_id is not None and",
        "committed =",
        "cli/test_status.py::test_no_commit_is_claimed_that_there_was_not[created]",
    ),
    dying_of(
        "moving a checkpoint is a commit",
        _FACTS,
        "(moved_at is None or at is None or at > moved_at)",
        "(at is not None)",
        "cli/test_status.py::test_no_commit_is_claimed_that_there_was_not[put back]",
    ),
    dying_of(
        "a worker's lease is an operator's",
        _FACTS,
        "worker=None if available.free or keeps is not None else lease.owner_id",
        "worker=None",
        _LOOKS + "test_it_is_computed_in_the_middle_of_a_tick",
    ),
)
