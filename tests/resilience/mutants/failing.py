"""Mutants of how rows that fail are handled: of the tick around the rules, and of the rules that it goes by."""

from __future__ import annotations

from tests.resilience.mutants.mutant import Edit, Mutant

FAILING = (
    Mutant(
        "the record is written after the PUT that passes its row",
        (
            Edit("tick/ends.py", "[row for row in of_page(found.listed) if row.id in call.errors],", "[],"),
            Edit(
                "tick/ends.py",
                "        self._progress.reached = put.to or self._progress.reached\n",
                "        for call, one in self._ended:\n"
                "            self._recorder.open(\n"
                "                [row for row in of_page(one.verdict.listed) if row.id in call.errors],\n"
                "                errors=call.errors,\n"
                "                rejected=call.report.rejected,\n"
                "                failures=one.verdict.failures,\n"
                "            )\n"
                "        self._progress.reached = put.to or self._progress.reached\n",
            ),
        ),
        "the record of .* is missing",
    ),
    Mutant(
        "rows that follow are passed without a record",
        (Edit("tick/rounds.py", "for row in of_page(chosen.follows) if", "for row in of_page(()) if"),),
        "the record of .* is missing",
    ),
    Mutant(
        "a retry is not named before the call",
        (Edit("tick/retries.py", "        if not named:\n", "        if False:\n"),),
        "is tried unnamed",
    ),
    Mutant(
        "a record is settled before the PUT",
        (
            Edit(
                "tick/retries.py",
                "        self._committer.now(Put([Landing(Plan(), found, call.batch_id)]))\n",
                "        if call.failure is None:\n"
                "            self._recorder.delivered(row, call.key)\n"
                "        self._committer.now(Put([Landing(Plan(), found, call.batch_id)]))\n",
            ),
        ),
        "the record of .* is delivered",
    ),
    Mutant(
        "an acquire names nothing",
        (
            Edit(
                "tick/tick.py",
                "return handover.entered(self._as_taken(state, turn.jitter, now), turn.chosen, turn.tries)",
                "return self._as_taken(state, turn.jitter, now)",
            ),
        ),
        "is handed over unnamed|is tried unnamed|were not handed over",
    ),
    Mutant(
        "an acquire does not count a killed try",
        (
            Edit(
                "tick/tick.py",
                "return handover.entered(self._as_taken(state, turn.jitter, now), turn.chosen, turn.tries)",
                "return handover.entered(lanes.usable(state, ()), turn.chosen, turn.tries)",
            ),
        ),
        "the killed try of .* does not count",
    ),
    Mutant(
        "backoff is ignored",
        (Edit("tick/tick.py", "        if until is None:\n", "        if True:\n"),),
        "before its delay is over",
    ),
    Mutant(
        "a row is tried again right after a killed try",
        (
            Edit(
                "tick/tick.py",
                " or (state.retrying is not None and bool(chosen.passes))",
                "",
            ),
        ),
        "is tried after a killed try",
        first=143,
    ),
    Mutant(
        "what a handler named is done",
        (
            Edit(
                "tick/calls.py",
                "return Report(result.end, failed=ids(result.failed), rejected=ids(result.rejected))",
                "return Report()",
            ),
        ),
        "neither done nor listed",
    ),
    Mutant(
        "a row alone that was killed is called again at once",
        (Edit("tick/one_lane.py", "(chosen.killed or not chosen.rows)", "not chosen.rows"),),
        "not handed over|stays aside|not delivered",
    ),
    Mutant(
        "the piece of a window is not named before its call",
        (Edit("tick/rounds.py", "            if not begun:\n                self._before.begin(chosen)\n", ""),),
        "is handed over unnamed|while .* is listed",
    ),
    Mutant(
        "a strike needs no delivery",
        (Edit("model/aside.py", "row.strikes + (state.delivered > row.delivered)", "row.strikes + 1"),),
        "gets a strike, and nothing was delivered",
    ),
    Mutant(
        "a row is handed over although an earlier one of its key waits",
        (
            Edit(
                "model/handover.py",
                "held_by = {id_ for id_, key in parked.items() if key == row.key}.difference(older)",
                "held_by: set[str] = set()",
            ),
        ),
        "of its key waits|before .* of its key",
    ),
    Mutant(
        "an older version waits beside the newer one",
        (
            Edit(
                "model/handover.py",
                "aside.without(aside.after_reset(state), chosen.drops)",
                "aside.after_reset(state)",
            ),
        ),
        "while .* is listed|two versions of a row|the record of .* is superseded",
        first=18,
    ),
    Mutant(
        "a row aside is tried whenever there is time",
        (Edit("model/aside.py", "return _due_since(row, now, limits) <= now", "return True"),),
        "is tried before its delay is over",
    ),
    Mutant(
        "a poller that is to block halts",
        (
            Edit(
                "model/judging.py",
                'halts_at=self._limits.max_attempts if self._mode == "halt" else 0',
                "halts_at=self._limits.max_attempts",
            ),
        ),
        "halts that is not set to halt",
    ),
    Mutant(
        "what was aside before a reset is tried after it",
        (
            Edit(
                "model/aside.py",
                "stale = tuple(row for row in state.aside if not _is_current(state, row))",
                "stale = ()",
            ),
            Edit("model/aside.py", "return row.generation == state.checkpoint.generation", "return True"),
        ),
        "after a reset|is listed twice|wedged|stays aside|never delivered|two versions",
    ),
    Mutant(
        "a call that asked for another time counts as an attempt",
        (
            Edit(
                "model/verdict.py",
                "attempts = max(0, state.delivery.attempts - 1)",
                "attempts = state.delivery.attempts",
            ),
        ),
        "count as attempts|counts as an attempt",
        first=13,
    ),
    Mutant(
        "a listed row is passed by a write that nobody waits for",
        (Edit("model/handover.py", "len(self.rows) == len(self.passes) and", "bool(self.rows) and"),),
        "was reported done, and is handed over again|neither done nor listed",
        range(1014, 1019, 4),
    ),
    Mutant(
        "a failure is written beside a commit that is on its way",
        (
            Edit(
                "tick/ends.py",
                "        if call.failure is not None:\n            self._committer.settle()\n",
                "",
            ),
        ),
        "a window of another checkpoint counts|commits several calls, and not all of their rows were done",
        first=266,
    ),
    Mutant(
        "rows are handed over however long the lease, a record or a piece took to write",
        (Edit("tick/one_lane.py", "waits and last is not None and self._age(last) > KEPT_FOR", "False"),),
        "after it was read|after it left the table",
    ),
)
