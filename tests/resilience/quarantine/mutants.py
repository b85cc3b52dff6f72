"""Wrong changes of the rules, and of the order in which the loop applies them: what is changed, and which law notices.

`old` stands in its file exactly once, so that a mutant cannot silently miss the code it is about. That a window's place
is compared, which few schedules show, is asserted in `tests/unit/model/test_failures_fields.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong change.

    Attributes:
        name: what is wrong with it.
        file: under `poller/`, or `loop` for the reference loop.
        old, new: what is replaced by what.
        dies_of: a pattern of the law that is broken; another end is no proof.
    """

    name: str
    file: str
    old: str
    new: str
    dies_of: str


MUTANTS = (
    # --- records and lists -------------------------------------------------------------------------------------------
    Mutant(
        "a record is written after the PUT that passes its row",
        "loop",
        """        for row in opened:
            yield from self.open_record(row)
        world.say""",
        "        world.say",
        "the record of .* is missing",
    ),
    Mutant(
        "a row that is set aside gets no record",
        "model/verdict.py",
        "if verdict.moves else ()), *verdict.listed)",
        "if verdict.moves else ()),)",
        "the record of .* is",
    ),
    Mutant(
        "a row that follows gets no record",
        "model/verdict.py",
        "return (*(follows(plan, verdict.passes) if verdict.moves else ()), *verdict.listed)",
        "return verdict.listed",
        "the record of .* is",
    ),
    Mutant(
        "a record that nothing lists is believed",
        "loop",
        "        return self.world.table.page(self.state.checkpoint.cursor, self.settings.batch_size)",
        """        rows = self.world.table.page(self.state.checkpoint.cursor, self.settings.batch_size)
        return [row for row in rows if self.tag_of(row.id) is None]""",
        "neither done nor listed|were not handed over|never delivered|wedged|before .* of its key",
    ),
    Mutant(
        "a record is settled whoever wrote it since",
        "loop",
        "        if tag is not None and self.world.write_record(id_, status, self.token, tag):",
        "        if tag is not None and self.world.write_record(id_, status, self.token, self.tag_of(id_)):",
        "the record of .* is (delivered|superseded)",
    ),
    Mutant(
        "a named row is passed and not listed",
        "model/verdict.py",
        "    for row in verdict.listed:\n",
        "    for row in ():\n",
        "neither done nor listed",
    ),
    Mutant(
        "a row that follows is passed and not listed",
        "model/verdict.py",
        "    for row in follows(plan, passes):",
        "    for row in ():",
        "neither done nor listed",
    ),
    Mutant(
        "there is no limit of rows aside",
        "model/judging.py",
        "free = aside.failing(self._state) < self._limits.max_aside or",
        "free = True or",
        "although max_aside is reached",
    ),
    Mutant(
        "there is no limit of rows listed",
        "model/judging.py",
        "return fits and self._room > len(follows(self._plan, self._upto(row)))",
        "return fits",
        "although max_quarantined is reached|rows are listed",
    ),
    Mutant(
        "while many are aside, whole batches are handed over",
        "model/handover.py",
        "many = aside.failing(state) >= limits.max_aside or sorted_.room <= 0",
        "many = False",
        "rows are listed",
    ),
    Mutant(
        "a row that blocks is never set aside",
        "model/judging.py",
        "or self._limits.backoff.exhausted(failures)",
        "or False",
        "were not handed over",
    ),
    Mutant(
        "where order is strict, named rows are set aside too",
        "model/judging.py",
        'if self._mode == "quarantine" and (report.end == "returned" or self._room > 0):',
        'if report.end == "returned" or self._room > 0:',
        "are set aside in the mode",
    ),
    # --- strikes -----------------------------------------------------------------------------------------------------
    Mutant(
        "each failure is a strike",
        "model/aside.py",
        "row.strikes + (state.delivered > row.delivered)",
        "row.strikes + 1",
        "nothing was delivered since its last failure",
    ),
    Mutant(
        "a strike too few condemns",
        "model/aside.py",
        "if row.strikes >= limits.max_attempts:",
        "if row.strikes + 1 >= limits.max_attempts:",
        r"waits for a person after \d strikes",
    ),
    Mutant(
        "a killed try does not count",
        "model/aside.py",
        "    return failed_again(state, state.retrying, limits=limits, jitter=jitter, now=now)",
        "    return not_tried(state)",
        "the killed try of",
    ),
    Mutant(
        "after a killed try the next is tried before a batch",
        "model/aside.py",
        "    if batch_first:",
        "    if False:",
        "before a batch was handed over",
    ),
    Mutant(
        "a row is tried before its delay is over",
        "model/aside.py",
        "return _due_since(row, now, limits) <= now",
        "return True",
        "is tried before its delay is over",
    ),
    Mutant(
        "a halting poller counts the failures of another suspect",
        "model/handover.py",
        "    if former is None or former.suspect != chosen.window.suspect:",
        "    if False:",
        "halts after",
    ),
    Mutant(
        "a call that asks for another time counts",
        "model/verdict.py",
        "attempts = max(0, state.delivery.attempts - 1)",
        "attempts = state.delivery.attempts",
        "counts as an attempt",
    ),
    # --- order -------------------------------------------------------------------------------------------------------
    Mutant(
        "a row that follows is tried before its key's head",
        "model/aside.py",
        "    return [row for row in state.aside if first.get(row.key) is row and _is_due(row, now, limits)]",
        "    return [row for row in state.aside if row.key in first and _is_due(row, now, limits)]",
        "of its key waits",
    ),
    Mutant(
        "a later row of a parked key is handed over",
        "model/handover.py",
        "held_by = {id_ for id_, key in parked.items() if key == row.key}.difference(older)",
        "held_by = set[str]()",
        "of its key waits",
    ),
    Mutant(
        "a row that waits for a person holds nothing up",
        "model/handover.py",
        "parked = {row.id: row.key for row in listed.values() if row.at is not None}",
        "parked = {row.id: row.key for row in state.aside if row.at is not None}",
        "of its key waits",
    ),
    Mutant(
        "a row listed ahead is tried before it was passed",
        "model/aside.py",
        "        if row.at is not None and (head is None or head.at is None or row.at < head.at):",
        "        if head is None or (row.at or 0) < (head.at or 0):",
        "before .* of its key|of its key waits",
    ),
    Mutant(
        "an older version is superseded after the newer one was handed over",
        "model/handover.py",
        "    state = aside.without(aside.after_reset(state), chosen.drops)",
        "    state = aside.after_reset(state)",
        "is handed over while .* is listed|two versions of a row|is superseded",
    ),
    Mutant(
        "a newer version does not supersede",
        "model/handover.py",
        "older = [other.id for other in listed.values() if other.pk == row.pk]",
        "older = list[str]()",
        "two versions of a row|handed over while",
    ),
    # --- the window --------------------------------------------------------------------------------------------------
    Mutant(
        "the window's generation is not compared",
        "model/window.py",
        " or window.generation != checkpoint.generation:",
        ":",
        "a window of another checkpoint counts",
    ),
    Mutant(
        "half of the page is handed over, not of what is left up to the suspect",
        "model/handover.py",
        "    part = before[: window.half(len(before))]",
        "    part = before[: window.half(len(hands))]",
        "not handed over|was not delivered|wedged|failed alone",
    ),
    Mutant(
        "a killed piece is not suspected",
        "model/window.py",
        '    return window.model_copy(update={"suspect": window.piece, "piece": None})',
        '    return window.model_copy(update={"piece": None})',
        "not handed over|was not delivered|wedged",
    ),
    Mutant(
        "a killed row alone is handed over again and again",
        "model/window.py",
        '**({"suspect": piece} if alone else {})',
        "**{}",
        "not handed over|was not delivered|wedged|halts after",
    ),
    Mutant(
        "attempts count while a window stands",
        "model/window.py",
        '        fields["attempts"] = 0',
        "        pass",
        "attempts count while a window stands",
    ),
    # --- resets, resume, cancel --------------------------------------------------------------------------------------
    Mutant(
        "what was aside before a reset is tried after it",
        "model/aside.py",
        "    return row.generation == state.checkpoint.generation",
        "    return True",
        "is tried after a reset|two versions|listed twice",
    ),
    Mutant(
        "a reset forgets what was aside",
        "model/transitions.py",
        "    moved = aside.after_reset(moved)",
        '    moved = moved.model_copy(update={"aside": ()})',
        "loses",
    ),
    Mutant(
        "resume waits",
        "model/transitions.py",
        "restamped(backoff.at_once(state.model_copy(update=resumed)), now)",
        "restamped(state.model_copy(update=resumed), now)",
        "resume does not try at once",
    ),
    Mutant(
        "a cancelled tenure writes",
        "model/transitions.py",
        "        and found.control.cancelled != found.lease.fencing_token\n",
        "",
        "after the tenure was cancelled",
    ),
    Mutant(
        "a cancelled try counts as killed",
        "model/transitions.py",
        "state = aside.not_tried(window.not_begun(",
        "state = (window.not_begun(",
        "a cancelled call will count",
    ),
    # --- the fenced target -------------------------------------------------------------------------------------------
    Mutant(
        "what was applied is forgotten by equality of ends",
        "sinks/ledger.py",
        "entry.through <= standing.settled",
        "entry.through == standing.settled",
        "which cannot come again",
    ),
    Mutant(
        "what was applied is forgotten by a commit on its way",
        "model/applied.py",
        "    return state.checkpoint.position\n",
        "    return state.checkpoint.position + 8\n",
        "the target applies",
    ),
    Mutant(
        "what was applied of rows that wait is forgotten",
        "sinks/ledger.py",
        "            carried.append(held)\n",
        "            pass\n",
        "the target applies",
    ),
    Mutant(
        "failed rows are remembered as applied",
        "sinks/ledger.py",
        "if key not in applied and position not in named)",
        "if key not in applied)",
        "the target holds",
    ),
)
