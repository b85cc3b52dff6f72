"""Mutants of the rules of failing rows (`poller.model`), and of what is remembered of rows that were applied."""

from __future__ import annotations

from tests.resilience.mutants.mutant import Edit, Mutant, dying_of

RULES = (
    Mutant(
        "a row that is set aside gets no record",
        (Edit("model/verdict.py", "if verdict.moves else ()), *verdict.listed)", "if verdict.moves else ()),)"),),
        "the record of .* is",
        first=8,
    ),
    Mutant(
        "a named row is passed and not listed",
        (Edit("model/verdict.py", "    for row in verdict.listed:\n", "    for row in ():\n"),),
        "neither done nor listed",
    ),
    Mutant(
        "a row that follows is passed and not listed",
        (Edit("model/verdict.py", "    for row in follows(plan, passes):", "    for row in ():"),),
        "neither done nor listed",
    ),
    Mutant(
        "there is no limit of rows aside",
        (Edit("model/judging.py", "free = aside.failing(self._state) < self._limits.max_aside or", "free = True or"),),
        "although max_aside is reached",
        first=40,
    ),
    Mutant(
        "there is no limit of rows listed",
        (
            Edit(
                "model/judging.py",
                "return fits and self._room > len(follows(self._plan, self._upto(row)))",
                "return fits",
            ),
        ),
        "although max_quarantined is reached|rows are listed",
        first=47,
    ),
    Mutant(
        "a row that blocks is never set aside",
        (Edit("model/judging.py", "or self._limits.backoff.exhausted(failures)", "or False"),),
        "were not handed over",
        first=37,
    ),
    Mutant(
        "where order is strict, named rows are set aside too",
        (
            Edit(
                "model/judging.py",
                'if self._mode == "quarantine" and (report.end == "returned" or self._room > 0):',
                'if report.end == "returned" or self._room > 0:',
            ),
        ),
        "are set aside in the mode",
    ),
    Mutant(
        "a strike too few condemns",
        (
            Edit(
                "model/aside.py", "if row.strikes >= limits.max_attempts:", "if row.strikes + 1 >= limits.max_attempts:"
            ),
        ),
        "waits for a person after \\d strikes",
    ),
    Mutant(
        "a killed try does not count",
        (
            Edit(
                "model/aside.py",
                "    return failed_again(state, state.retrying, limits=limits, jitter=jitter, now=now)",
                "    return not_tried(state)",
            ),
        ),
        "the killed try of",
    ),
    Mutant(
        "a row that follows is tried before its key's head",
        (
            Edit(
                "model/aside.py",
                "    return [row for row in state.aside if first.get(row.key) is row and _is_due(row, now, limits)]",
                "    return [row for row in state.aside if row.key in first and _is_due(row, now, limits)]",
            ),
        ),
        "of its key waits",
    ),
    Mutant(
        "a row that waits for a person holds nothing up",
        (
            Edit(
                "model/handover.py",
                "parked = {row.id: row.key for row in listed.values() if row.at is not None}",
                "parked = {row.id: row.key for row in state.aside if row.at is not None}",
            ),
        ),
        "of its key waits",
    ),
    Mutant(
        "a newer version does not supersede",
        (
            Edit(
                "model/handover.py",
                "older = [other.id for other in listed.values() if other.pk == row.pk]",
                "older = list[str]()",
            ),
        ),
        "two versions of a row|handed over while",
        first=18,
    ),
    Mutant(
        "half of the page is handed over, not of what is left up to the suspect",
        (
            Edit(
                "model/handover.py",
                "    part = before[: window.half(len(before))]",
                "    part = before[: window.half(len(hands))]",
            ),
        ),
        "not handed over|was not delivered|wedged|failed alone",
    ),
    Mutant(
        "a killed piece is not suspected",
        (
            Edit(
                "model/window.py",
                '    return window.model_copy(update={"suspect": window.piece, "piece": None})',
                '    return window.model_copy(update={"piece": None})',
            ),
        ),
        "not handed over|was not delivered|wedged",
    ),
    Mutant(
        "attempts count while a window stands",
        (Edit("model/window.py", '        fields["attempts"] = 0', "        pass"),),
        "attempts count while a window stands",
    ),
    Mutant(
        "a reset forgets what was aside",
        (
            Edit(
                "model/transitions.py",
                "    moved = aside.after_reset(moved)",
                '    moved = moved.model_copy(update={"aside": ()})',
            ),
        ),
        "loses",
    ),
    Mutant(
        "resume waits",
        (
            Edit(
                "model/transitions.py",
                "restamped(backoff.at_once(state.model_copy(update=resumed)), now)",
                "restamped(state.model_copy(update=resumed), now)",
            ),
        ),
        "resume does not try at once",
    ),
    Mutant(
        "a cancelled tenure writes",
        (Edit("model/transitions.py", "        and found.control.cancelled != found.lease.fencing_token\n", ""),),
        "after the tenure was cancelled",
    ),
    Mutant(
        "a cancelled try counts as killed",
        (Edit("model/transitions.py", "state = aside.not_tried(window.not_begun(", "state = (window.not_begun("),),
        "a cancelled call will count",
        first=43,
    ),
    Mutant(
        "a row listed ahead is tried before it was passed",
        (
            Edit(
                "model/aside.py",
                "        if row.at is not None and (head is None or head.at is None or row.at < head.at):",
                "        if head is None or (row.at or 0) < (head.at or 0):",
            ),
        ),
        "before .* of its key|of its key waits",
    ),
    Mutant(
        "a halting poller counts the failures of another suspect",
        (
            Edit(
                "model/handover.py",
                "    if former is None or former.suspect != chosen.window.suspect:",
                "    if False:",
            ),
        ),
        "halts after",
        first=121,
    ),
)
"""On schedules whose rows fail."""

OF_RULES = (
    dying_of(
        "a killed row alone is handed over again and again",
        "model/window.py",
        '**({"suspect": piece} if alone else {})',
        "**{}",
        "unit/model/test_failing_rows.py::test_a_killed_row_alone_is_known_from_a_killed_piece",
    ),
    dying_of(
        "while many are aside, whole batches are handed over",
        "model/handover.py",
        "many = aside.failing(state) >= limits.max_aside or sorted_.room <= 0",
        "many = False",
        "unit/model/test_failing_rows.py::test_a_newer_version_makes_no_room_beyond_the_limit",
    ),
    dying_of(
        "a record is settled whoever opened it since",
        "journal/quarantine/records.py",
        "if known is None or not known.waits or _is_later(known, generation, fencing_token):",
        "if known is None or not known.waits:",
        "unit/journal/test_quarantine.py::test_a_stale_owner_changes_no_record_that_waits",
    ),
    dying_of(
        "the window's generation is not compared",
        "model/window.py",
        " or window.generation != checkpoint.generation:",
        ":",
        "unit/model/test_failures_fields.py::test_a_window_of_another_checkpoint_counts_for_nothing",
    ),
    dying_of(
        "what was applied is forgotten by equality of ends",
        "sinks/ledger.py",
        "entry.through <= standing.settled",
        "entry.through == standing.settled",
        "unit/sinks/test_ledger.py::test_an_entry_is_over_when_its_last_row_has_been_passed",
    ),
    dying_of(
        "what was applied is forgotten by a commit on its way",
        "model/applied.py",
        "    return state.checkpoint.position\n",
        "    return state.checkpoint.position + 8\n",
        "integration/runner/test_lanes_batches.py::test_a_sink_is_told_the_lane_and_what_has_landed",
    ),
    dying_of(
        "what was applied of rows that wait is forgotten",
        "sinks/ledger.py",
        "            carried.append(held)\n",
        "            pass\n",
        "unit/sinks/test_ledger.py::test_of_what_is_over_the_rows_that_wait_are_carried",
    ),
    dying_of(
        "failed rows are remembered as applied",
        "sinks/ledger.py",
        "if key not in applied and position not in named)",
        "if key not in applied)",
        "unit/sinks/test_ledger.py::test_a_row_that_failed_before_is_not_fresh",
    ),
)
"""Of what no schedule has, or only a rare one."""
