"""Mutants of how rows are delivered that no schedule has, or only a rare one; each dies of a test of its own."""

from __future__ import annotations

from tests.resilience.mutants.mutant import Edit, Mutant


def _mutant(name: str, file: str, old: str, new: str, test: str) -> Mutant:
    law = test.partition("::")[2].partition("[")[0]
    return Mutant(name, (Edit(f"tick/{file}", old, new),), law, test=f"tests/{test}")


DELIVERY = (
    _mutant(
        "a failure is judged while commits are on their way",
        "ends.py",
        "        if call.failure is not None:\n            self._committer.settle()\n",
        "",
        "integration/runner/test_grouped.py::test_what_is_done_before_a_row_that_fails_comes_once",
    ),
    Mutant(
        "a page that was read ahead serves however old it is",
        (
            Edit("tick/reader.py", "                if self._is_young(read):\n", "                if True:\n"),
            Edit("tick/one_lane.py", "waits and last is not None and self._age(last) > KEPT_FOR", "False"),
        ),
        "test_a_page_read_ahead_that_waited_too_long_is_read_again",
        test="tests/integration/runner/test_read_ahead_ages.py"
        "::test_a_page_read_ahead_that_waited_too_long_is_read_again",
    ),
    _mutant(
        "a piece that was named and not handed over counts as one that was killed",
        "tick.py",
        "window.not_begun(delivery.tenure.state)",
        "delivery.tenure.state",
        "integration/runner/test_read_ahead_ages.py::test_a_search_whose_writes_take_long_finds_the_row_that_fails[7]",
    ),
    _mutant(
        "a row aside is tried before a row that was killed alone is ruled over",
        "tick.py",
        "turn or chosen.killed or (",
        "turn or (",
        "resilience/failures/test_failures.py::test_a_row_that_kills_is_passed_while_another_is_tried",
    ),
    _mutant(
        "a tick ends if a row came between those of its lanes before the first call",
        "lanes.py",
        "return under.progress.calls > calls_before or self._renewed",
        "return under.progress.calls > calls_before",
        "integration/runner/test_read_ahead_ages.py::test_a_tick_goes_on_if_a_row_appears_while_the_lease_is_taken[5]",
    ),
    _mutant(
        "a batch of a lane holds two versions of a row",
        "board.py",
        "            if pk in keys:\n",
        "            if False:\n",
        "integration/runner/test_lanes_laws.py::test_no_batch_of_a_lane_has_two_versions_of_a_row",
    ),
    _mutant(
        "a lane has done the rows that it left behind",
        "board.py",
        "                    goes_on[lane] = False\n",
        "",
        "integration/runner/test_lanes_laws.py::test_a_row_left_before_one_that_is_listed_comes_again",
    ),
    _mutant(
        "commits go on after one that failed",
        "committer.py",
        "(bool(self._waiting) and self._error is None)",
        "bool(self._waiting)",
        "integration/runner/test_grouped.py::test_no_commit_follows_one_that_failed",
    ),
    _mutant(
        "an interrupt while the committer starts leaves it to itself",
        "committer.py",
        "        elif self.is_working:",
        "        elif False:",
        "integration/runner/test_interrupts.py::test_ctrl_c_while_the_committer_starts_loses_no_commit",
    ),
    _mutant(
        "a commit that failed waits for others",
        "committer.py",
        "holds = self._crowded and self._at_once == 0 and self._error is None",
        "holds = self._crowded and self._at_once == 0",
        "integration/runner/test_grouped.py::test_no_commit_follows_one_that_failed",
    ),
    _mutant(
        "lanes are used although the pending batch failed",
        "round.py",
        "state.delivery.window is not None or backoff.failures_of(state):",
        "state.delivery.window is not None:",
        "integration/runner/test_lanes_laws.py::test_while_a_row_is_named_nothing_behind_it_begins",
    ),
    _mutant(
        "lanes are used although the pending batch was begun before",
        "tick.py",
        "may_be_wide(self.context, seen) and not seen.delivery.attempts",
        "may_be_wide(self.context, seen)",
        "integration/runner/test_lanes_laws.py::test_what_a_killed_owner_left_is_tried_alone_first",
    ),
    Mutant(
        "lanes are used whatever became of the pending batch",
        (
            Edit("tick/round.py", "state.delivery.window is not None or backoff.failures_of(state):", "False:"),
            Edit(
                "tick/tick.py",
                "wide = several and may_be_wide(self.context, seen) and not seen.delivery.attempts",
                "wide = True",
            ),
        ),
        "test_while_a_batch_fails_nothing_behind_it_begins",
        test="tests/integration/runner/test_lanes_laws.py::test_while_a_batch_fails_nothing_behind_it_begins",
    ),
    _mutant(
        "the calls that a tick may make do not count tries",
        "tick.py",
        "            if not self._may_go_on(delivery):  # the page took long, say\n",
        "            if not self._wanted(delivery):\n",
        "integration/runner/test_limited_ticks.py::test_tries_of_rows_aside_count_as_batches",
    ),
    _mutant(
        "tries use up the calls that a tick may make",
        "tick.py",
        "turns = tries is not None and (tries.failures > 1 or self._calls_are_limited)",
        "turns = tries is not None and tries.failures > 1",
        "integration/runner/test_limited_ticks.py::test_tries_and_batches_take_turns_tick_by_tick",
    ),
    _mutant(
        "a page that is being read is forgotten before it is waited for",
        "reader.py",
        "            self._ahead.end()\n            self._ahead = None\n",
        "            ahead, self._ahead = self._ahead, None\n            ahead.result()\n",
        "integration/runner/test_interrupts.py::test_ctrl_c_leaves_no_second_thread_on_the_source",
    ),
    _mutant(
        "a later row of a key is replayed before the earlier",
        "replay.py",
        "        if head.id != row.id:\n",
        "        if False:\n",
        "cli/test_quarantine_replay.py::test_a_later_row_of_a_key_is_not_replayed_before_the_earlier",
    ),
    _mutant(
        "a tick that leaves rows says that none is left",
        "tick.py",
        "delivery.give_back(drained=drained)",
        "delivery.give_back(drained=True)",
        "integration/worker/test_left_rows.py::test_rows_of_a_page_that_came_too_late_come_soon",
    ),
)
