"""Mutants of several lanes, of pages read ahead and of grouped commits."""

from __future__ import annotations

from tests.resilience.mutants.mutant import Edit, Mutant

LANES = (
    Mutant(
        "the watermark passes a row that is not done",
        (
            Edit(
                "tick/dealt_page.py",
                "return min((at for at in (left, named) if at >= 0), default=len(self.became))",
                "return max(self.became.rfind(DONE) + 1, self.passed)",
            ),
        ),
        "whose handler did not succeed",
    ),
    Mutant(
        "a second commit is sent beside the first",
        (
            Edit("tick/committer.py", "        if works:\n            return\n", ""),
            Edit("tick/committer.py", "        self._at_work.acquire()\n", ""),
            Edit("tick/committer.py", "            self._at_work.release()\n", "            pass\n"),
        ),
        "a commit that never landed",
        first=27,
    ),
    Mutant(
        "rows wait in a lane in the wrong order",
        (
            Edit(
                "tick/board.py",
                "self._waiting[lane].append(Run(page, some))",
                "self._waiting[lane].append(Run(page, some[::-1]))",
            ),
        ),
        "come next there",
    ),
    Mutant(
        "a page that was read before another took the lease is handed over",
        (
            Edit(
                "tick/reader.py",
                "read = self._read(after, limit, again=False)\n",
                "read = self._held or self._read(after, limit, again=False)\n",
            ),
        ),
        "behind row|come next there",
        first=11,
    ),
    Mutant(
        "what lanes have done covers rows of other lanes",
        (Edit("tick/board.py", "ends[lane] = row.cursor", "ends = [row.cursor] * len(self._waiting)"),),
        "says that lanes have done",
    ),
    Mutant(
        "a batch of another lane is begun although the call before failed",
        (
            Edit("tick/lanes.py", "wanted = not failed and not under", "wanted = not under"),
            Edit("tick/step.py", "seen.wanted and not seen.failed and", "seen.wanted and"),
        ),
        "come next there",
        first=19,
    ),
)
"""On schedules without failing rows."""

OLD = "after it was read|after it left the table"
WAITING = range(4, 400, 10)
"""Schedules whose handlers are slow (`tests.resilience.failures.plan.draw`)."""

LANES_FAILING = (
    Mutant(
        "a row that was named is passed before it is listed",
        (
            Edit(
                "tick/dealt_page.py",
                "return min((at for at in (left, named) if at >= 0), default=len(self.became))",
                "return left if left >= 0 else len(self.became)",
            ),
        ),
        "neither done nor listed",
        first=67,
    ),
    Mutant(
        "what lanes have done covers a row that failed",
        (Edit("tick/board.py", "ends[lane] = row.cursor", "ends = [row.cursor] * len(self._waiting)"),),
        "says that lanes have done",
        first=24,
    ),
    Mutant(
        "rows that wait in a lane are never read again",
        (Edit("tick/board.py", "return [page for page in pages if page.read_at < oldest]", "return []"),),
        OLD,
        WAITING,
    ),
    Mutant(
        "a row that waits is read again and handed over as it was",
        (
            Edit(
                "tick/round.py",
                "(page.again.get(at, (page.rows, at)) for at in places)",
                "((page.rows, at) for at in places)",
            ),
        ),
        OLD,
        WAITING,
    ),
    Mutant(
        "a row that left its cursor while it waited is handed over",
        (
            Edit(
                "tick/dealt_page.py",
                "there = [at for at in waiting if at in found]",
                "there = waiting = [at for at in waiting if at in found]",
            ),
        ),
        OLD,
        WAITING,
    ),
)
"""On schedules whose rows fail."""

_WAITED = "tests/integration/runner/test_read_ahead.py::"
_AS_NOW = "test_rows_that_wait_in_a_lane_are_handed_over_as_they_are_now"

OF_TESTS = (
    Mutant(
        "a row that still stands is passed over when it is read again",
        (
            Edit(
                "tick/dealt_page.py",
                "gone = [at for at in waiting if at not in found]",
                "gone = [at for at in waiting if at not in found or at == waiting[-1]]",
            ),
        ),
        _AS_NOW,
        test=f"{_WAITED}{_AS_NOW}[a row is updated-by the key columns]",
    ),
    Mutant(
        "a row that came between those that wait is passed unseen",
        (
            Edit(
                "tick/rows.py",
                "            if at is None:\n                return None\n",
                "            if at is None:\n                continue\n",
            ),
        ),
        _AS_NOW,
        test=f"{_WAITED}{_AS_NOW}[a row appears between-by the key columns]",
    ),
    Mutant(
        "lanes list more rows than the document has space for",
        (Edit("tick/board.py", "fit = sum(1 for size in sizes if size <= space)", "fit = len(sizes)"),),
        "test_lanes_have_no_more_rows_in_hand_than_can_be_listed",
        test="tests/integration/runner/test_long_cursors.py"
        "::test_lanes_have_no_more_rows_in_hand_than_can_be_listed[more rows than the document has space for]",
    ),
    Mutant(
        "a record that cannot be read counts as a failure of its row",
        (Edit("tick/retries.py", 'failure, Report("later", seconds=self._wait(row, unread)))', "failure)"),),
        "test_a_record_that_cannot_be_read_holds_up_its_key_only",
        test="tests/integration/runner/test_retries.py"
        "::test_a_record_that_cannot_be_read_holds_up_its_key_only[unavailable-1]",
    ),
    Mutant(
        "an older version of a row in another lane is not waited for",
        (Edit("tick/board.py", "            else:\n                return count\n", ""),),
        "test_no_version_overtakes_an_older_one_whatever_its_key",
        test="tests/integration/runner/test_lanes_order.py::test_no_version_overtakes_an_older_one_whatever_its_key",
    ),
    Mutant(
        "a bound serves again after a reconnect",
        (
            Edit(
                "sources/current_bound.py",
                "made_for is not known or lent is not self._database.lent()",
                "made_for.cursor != known.cursor",
            ),
        ),
        "test_a_bound_does_not_outlive_it",
        test="tests/integration/bounds/test_again.py::test_a_bound_does_not_outlive_it",
    ),
)
"""Of what no schedule has, or only a rare one."""
