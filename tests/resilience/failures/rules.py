"""What may never happen (failures.md), checked against the truth that only a simulation knows."""

from __future__ import annotations

from collections import Counter
from itertools import dropwhile
from typing import TYPE_CHECKING, TypeAlias

from poller.model import aside, backoff, window
from poller.model.document import State, WaitingRow
from tests.resilience.failures.versions import START, Place, Version, place

if TYPE_CHECKING:
    from tests.resilience.failures.call import Call
    from tests.resilience.failures.truth import Hand, Settings, Truth

Key: TypeAlias = tuple[int, str]
"""A row version in a generation."""
OPEN = ("aside", "pending")


class Rules:
    """The laws of one schedule.

    Attributes:
        rejected: ids that the handler rejected.
        excused: ids that a person discarded, or that a reset skipped.
        lanes: how many batches are handled at once.
    """

    lanes = 1

    def __init__(self, world: Truth, settings: Settings) -> None:
        self.world = world
        self.settings = settings
        self.rejected: set[str] = set()
        self.excused: set[str] = set()
        self.strict = settings.mode == "quarantine"
        """Every process is in this mode: a row reported done comes again only after a crash."""
        self.done: set[Key] = set()
        self.added = 0
        self._reset_to: Place = START
        self._done_under: set[tuple[int, str]] = set()
        self._settled: set[Key] = set()
        self._alone: Counter[str] = Counter()
        """Failures of a row alone, since it was delivered or a person resumed."""
        self._ever: Counter[str] = Counter()
        """The same, whoever resumed."""
        self._deliveries = 0
        self._at_failure: dict[Key, int] = {}
        self._handed: Counter[int] = Counter()
        """Batches by token."""
        self._batch_first: set[int] = set()

    # --- calls -------------------------------------------------------------------------------------------------------

    def handing(self, writer: Hand, call: Call) -> None:
        """A handler is called."""
        state = self.world.state
        if state.lease.fencing_token != writer.token or state.control.cancelled == writer.token:
            return  # it does not know yet that it is nobody any more
        if call.replays:
            return
        generation = call.generation
        for row in call.rows:
            if self.strict and (generation, row.id) in self._settled:
                self._fail(f"{row.id} was reported done, and is handed over again")
        if call.retries is not None:
            self._judge_try(writer, state, call.retries)
        else:
            self._handed[writer.token] += 1
            if backoff.waits_until(state, self.world.moment(), self.settings.limits.backoff) is not None:
                self._fail("a batch is handed over before its delay is over")
            self._judge_piece(state, call)
        self._judge_order(state, call)

    def _judge_try(self, writer: Hand, state: State, row: WaitingRow) -> None:
        found = next((one for one in state.aside if one.id == row.id), None)
        if found is None:
            self._fail(f"{row.id} is tried, and is not aside")
        elif found.generation != state.checkpoint.generation:
            self._fail(f"{row.id} is tried after a reset")
        elif found.retry_at is not None and found.retry_at > self.world.moment():
            self._fail(f"{row.id} is tried before its delay is over")
        if state.retrying != row.id:
            self._fail(f"{row.id} is tried unnamed")
        if writer.token in self._batch_first and not self._handed[writer.token]:
            self._fail(f"{row.id} is tried after a killed try, before a batch was handed over")

    def _judge_piece(self, state: State, call: Call) -> None:
        standing, checkpoint = state.delivery.window, state.checkpoint
        if standing and (standing.after, standing.generation) != (checkpoint.cursor, checkpoint.generation):
            self._fail("a window of another checkpoint counts")
        if standing is not None and standing.piece != call.rows[-1].cursor:
            self._fail(f"the piece up to {call.rows[-1].id} is handed over unnamed")
        if standing is not None and state.delivery.attempts:
            self._fail("attempts count while a window stands")
        listed = {one.pk: one for one in aside.listed(state).values()}
        for row in call.rows:
            if row.pk in listed:
                self._fail(f"{row.id} is handed over while {listed[row.pk].id} is listed")

    def _judge_order(self, state: State, call: Call) -> None:
        """No earlier row of the key waits, here or in the table."""
        before: set[str] = set()
        waiting = [one for one in (*state.aside, *state.quarantine) if one.generation == state.checkpoint.generation]
        for row in call.rows:
            before.add(row.id)
            earlier = [
                one.id for one in waiting if one.key == row.key and place(one.cursor) < place(row.cursor) and one.at
            ]
            if earlier:
                self._fail(f"{row.id} is handed over while {earlier} of its key waits")
            for version in self.world.table.rows.values():
                if version.facts.key == row.key and self._reset_to < version.place < place(row.cursor):
                    key = (call.generation, version.id)
                    known = key in self.done or version.id in before or version.id in self.excused
                    if not known and version.id not in {one.id for one in waiting}:
                        self._fail(f"{row.id} is handed over before {version.id} of its key")

    def returned(self, writer: Hand, call: Call) -> None:
        """A handler returned or raised, and its process lives."""
        for id_ in call.done:
            self.done.add((call.generation, id_))
            self._done_under.add((writer.token, id_))

    # --- writes ------------------------------------------------------------------------------------------------------

    def landed(self, writer: Hand, before: State, after: State, what: str, call: Call | None) -> None:
        """A worker's PUT of the document."""
        token = after.lease.fencing_token
        if before.control.cancelled == token and what != "cancelled":
            self._fail(f"{what} landed after the tenure was cancelled")
        if what == "acquire" and before.retrying is not None and self._rows_left(after):
            self._batch_first.add(token)
        passed = self._judge_passed(token, before, after)
        self._judge_gone(before, after, call, passed)
        self._judge_lists(before, after, persons=False)
        if what == "ended" and call is not None and call.failed_alone:
            self._alone[call.rows[0].id] += 1
            self._ever[call.rows[0].id] += 1
        if what in ("acquire", "begin", "ended"):
            self._judge_window(before, after, what, call)
        if what == "acquire" and before.retrying is not None:
            self._judge_killed(before, after)
        self._judge_halt(before, after, what, call)
        if what == "ended" and call is not None:
            self._judge_hold(writer, before, after, call)
        self._settle(before, after, call)

    def _rows_left(self, state: State) -> bool:
        """Whether a batch could be handed over: some row behind the checkpoint does not only follow."""
        listed = aside.listed(state)
        keys = {one.key for one in listed.values()}
        for row in self.world.table.page(state.checkpoint.cursor, self.settings.batch_size):
            if row.id not in listed and row.facts.key not in keys:
                return True
            if row.id not in listed and aside.room(state, self.settings.limits) <= 0:
                return False
        return False

    def _judge_passed(self, token: int, before: State, after: State) -> list[Version]:
        """The checkpoint passes only rows that are done under this tenure, or listed."""
        old, new = place(before.checkpoint.cursor), place(after.checkpoint.cursor)
        if after.checkpoint.generation != before.checkpoint.generation:
            self._fail("a worker changes the generation")
        if new < old:
            self._fail(f"a worker moves the checkpoint back from {old} to {new}")
        if new == old:
            return []
        listed = aside.listed(after)
        passed = [row for row in self.world.table.rows.values() if old < row.place <= new]
        for row in passed:
            if not self.is_done(token, before, row) and row.id not in listed:
                self._fail(f"the checkpoint passes {row.id}, which is neither done nor listed")
        return passed

    def is_done(self, token: int, before: State, row: Version) -> bool:
        """Whether a tenure may pass a row: it has done it. `before`: the document that it passes it by."""
        return (token, row.id) in self._done_under

    def _judge_gone(self, before: State, after: State, call: Call | None, passed: list[Version]) -> None:
        """What is listed leaves the list only for a reason."""
        old = _by_key(before)
        for key in old.keys() - _by_key(after).keys():
            row = old[key]
            if call is not None and row.id in call.done:
                continue
            newer = [one for one in self.world.table.history.values() if _supersedes(one, row)]
            relisted = row.generation < after.checkpoint.generation and row.id in aside.listed(after)
            if not relisted and not newer:
                self._fail(f"{row.id} is listed no longer, and nothing was done with it")

    def _judge_lists(self, before: State, after: State, *, persons: bool) -> None:
        """What is listed, once, with a record, and poison only for a reason."""
        rows = (*after.aside, *after.quarantine)
        if len({(row.generation, row.id) for row in rows}) != len(rows):
            self._fail("a row is listed twice")
        generation = after.checkpoint.generation
        if len({row.pk for row in rows if row.generation == generation}) < len(aside.listed(after)):
            self._fail("two versions of a row are listed")
        most = self.settings.limits.max_quarantined + self.settings.batch_size * self.lanes + self.added
        if len(rows) > most:
            self._fail(f"{len(rows)} rows are listed")
        old = _by_key(before)
        poison = {(row.generation, row.id) for row in before.quarantine}
        for row in after.quarantine:
            reason = row.id in self.rejected or row.generation < generation or persons
            struck = row.strikes >= self.settings.limits.max_attempts
            if (row.generation, row.id) not in poison and not reason and not struck:
                self._fail(f"{row.id} waits for a person after {row.strikes} strikes")
        for row in rows:
            former = old.get((row.generation, row.id))
            if former is not None and row.strikes > former.strikes:
                since = self._deliveries - self._at_failure.get((row.generation, row.id), 0)
                if since <= 0 or row.strikes > former.strikes + 1:
                    self._fail(f"{row.id} gets a strike, and nothing was delivered since its last failure")
        self.records_changed()

    def _judge_window(self, before: State, after: State, what: str, call: Call | None) -> None:
        """A window is the checkpoint's; what asks for another time does not count as an attempt."""
        found, checkpoint = after.delivery.window, after.checkpoint
        ours = found is None or (found.after, found.generation) == (checkpoint.cursor, checkpoint.generation)
        if not ours and (what != "acquire" or found != before.delivery.window):
            self._fail("a window of another checkpoint counts")
        later = call is not None and call.report.end == "later"
        if later and after.delivery.attempts != max(0, before.delivery.attempts - 1):
            self._fail("a call that asked for another time counts as an attempt")

    def _judge_killed(self, before: State, after: State) -> None:
        """The next owner counts a killed try."""
        old, new = _by_key(before), _by_key(after)
        for key, row in old.items():
            tried = row.id == before.retrying and row in before.aside and key in new
            if tried and (new[key].failures != row.failures + 1 or after.retrying == row.id):
                self._fail(f"the killed try of {row.id} does not count")

    def _judge_halt(self, before: State, after: State, what: str, call: Call | None) -> None:
        if not after.control.halted or before.control.halted:
            return
        rejected = call is not None and call.report.rejected
        alone = call is not None and len(call.rows) == 1 and self._alone[call.rows[0].id]
        if self.settings.mode != "halt":
            self._fail("a poller halts that is not set to halt")
        elif not rejected and (alone or 0) < self.settings.limits.max_attempts:
            self._fail(f"the poller halts after {alone} failures of a row alone")

    def _judge_hold(self, writer: Hand, before: State, after: State, call: Call) -> None:
        """A row that failed alone does not hold up others while few are aside, unless its record could not be written.
        In strict order none is."""
        mode = writer.settings.mode
        fresh = aside.listed(after).keys() - aside.listed(before).keys()
        if mode != "quarantine" and any(not row.behind for row in after.aside if row.id in fresh):
            self._fail(f"{fresh} are set aside in the mode {mode}")
        if mode != "quarantine" or not call.failed_alone:
            return
        row, limits = call.rows[0], self.settings.limits
        old, until = place(before.checkpoint.cursor), place(row.cursor)
        # Its page may be older than the table: what left meanwhile was counted as one that has to follow.
        passed = [one for one in self.world.table.history.values() if old < one.place <= until]
        if row.id in aside.listed(after) and len(before.aside) + len(before.quarantine) >= limits.max_quarantined:
            self._fail(f"{row.id} is listed although max_quarantined is reached")
        patient = limits.backoff.exhausted(self._ever[row.id])
        if row.id in aside.listed(after) and aside.failing(before) >= limits.max_aside and not patient:
            self._fail(f"{row.id} is set aside although max_aside is reached")
        few = aside.failing(before) < limits.max_aside and aside.room(before, limits) >= max(1, len(passed))
        if few and row.id not in aside.listed(after) and not self.lacks_record(row.id):
            self._fail(f"{row.id} failed alone, and holds up the rows behind it")

    def lacks_record(self, id_: str) -> bool:
        """Whether the process whose write is judged tried to write the record of this row in this tick, and does not
        know that the store took it: the row must not be passed then, and the next tick sets it aside."""
        return False

    def _settle(self, before: State, after: State, call: Call | None) -> None:
        if call is not None:
            self._deliveries += len(call.done)
            behind = {row.id for row in dropwhile(lambda row: not self.lacks_record(row.id), call.rows)}
            self._settled.update((call.generation, id_) for id_ in call.done if id_ not in behind)
            for id_ in call.done:
                self._alone[id_] = self._ever[id_] = 0
        old = _by_key(before)
        for key, row in _by_key(after).items():
            if key not in old or row.failures > old[key].failures:
                self._at_failure[key] = self._deliveries

    # --- people ------------------------------------------------------------------------------------------------------

    def person(self, what: str, before: State, after: State, ids: tuple[str, ...] = ()) -> None:
        """A person's PUT."""
        if what == "discard":
            self.excused.update(ids)
        if after.checkpoint.generation != before.checkpoint.generation:
            old, new = place(before.checkpoint.cursor), place(after.checkpoint.cursor)
            self._reset_to = new
            self.excused.update(row.id for row in self.world.table.rows.values() if old < row.place <= new)
            # Whatever waited waits for a person now, who may leave it.
            self.excused.update(row.id for row in (*before.aside, *before.quarantine))
        if what == "resume":
            self._alone.clear()
            if after.delivery.retry_at is not None:
                self._fail("resume does not try at once")
        if what == "cancel" and after.lease.owner_id is not None:
            standing = window.standing(after)
            if after.retrying is not None or (standing is not None and standing.piece is not None):
                self._fail("a cancelled call will count as a failure")
        if what == "add":
            self.added += 1
        if what != "discard":
            gone = {row.pk for row in (*before.aside, *before.quarantine)} - {
                row.pk for row in (*after.aside, *after.quarantine)
            }
            if gone:
                self._fail(f"{what} loses rows {gone}")
        self._judge_lists(before, after, persons=True)

    def records_changed(self) -> None:
        """Every listed row has its record, open."""
        state = self.world.state
        for row in (*state.aside, *state.quarantine):
            record = self.world.records.get(row.id)
            if record is None or record.status not in OPEN:
                self._fail(f"the record of {row.id} is {record.status if record else 'missing'}")

    def _fail(self, message: str) -> None:
        self.world.fail(message)


def _by_key(state: State) -> dict[Key, WaitingRow]:
    return {(row.generation, row.id): row for row in (*state.aside, *state.quarantine)}


def _supersedes(version: Version, row: WaitingRow) -> bool:
    newer: Place = version.place
    return version.facts.pk == row.pk and newer > place(row.cursor)
