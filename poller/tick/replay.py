"""Handing over rows that wait because a person says so: under the lease, one row per call, from its record or as the
table has it now; the checkpoint does not move, and the mode does not matter.

The rows of an ordering key go oldest first, and stop at the first that fails: a later one would overtake it. A row that
fails stays where it is, pending or aside.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from poller.errors import StateCorrupt, StoreError
from poller.handler.call import Handler
from poller.model import aside
from poller.model.aside import RowFacts
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError, State, WaitingRow
from poller.model.handover import Plan
from poller.model.put import Landing, Put, written
from poller.model.verdict import Verdict
from poller.observability.otel import recorded
from poller.ports import Bound, Page, Row
from poller.tick.calls import Call, Calls
from poller.tick.context import Context
from poller.tick.current_row import CurrentRow, current_row
from poller.tick.errands import errand, look_around
from poller.tick.leased import LeasedDelivery, Purpose
from poller.tick.progress import Progress
from poller.tick.recorder import Recorder
from poller.tick.retries import killed

logger = logging.getLogger("poller")

REPLAY = Purpose("replay", run="replay-")
"""Rows that wait."""
Version: TypeAlias = Literal["recorded", "current", "as-it-was"]
"""From its record if the table still has that version; as the table has it now; from its record whatever happened."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one row.

    Attributes:
        done: the handler took it, and it waits no longer. error: how it failed, or why it was not handed over.
        refused: it was not handed over: another version is there, or an earlier row of its key still waits.
        why: of one that was refused, without a cursor or a place: for pages.
    """

    row: WaitingRow
    done: bool = False
    error: str | None = None
    refused: bool = False
    why: str = ""


@dataclass
class Replay:
    """What a person asked for, and what came of it.

    Attributes:
        ids: the rows, in the order in which they are handed over. version: of each of them.
        results: of the rows that were looked at, in that order.
        stopped: why the rows after these were not looked at.
    """

    ids: Sequence[str]
    version: Version = "recorded"
    results: list[Replayed] = field(default_factory=list)
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class _Content:
    """A row to hand over."""

    row: Row
    cursor: Cursor
    facts: RowFacts


class _Refused(Exception):
    """This row is not handed over. `why`: the text, without a cursor or a place."""

    def __init__(self, text: str, *, why: str = "") -> None:
        super().__init__(text)
        self.why = why or text


def replay(context: Context, wanted: Replay, handler: Handler, *, by: str, reason: str | None = None) -> None:
    """See `poller.admin.quarantine.replay`. `wanted.results` says what became of each row, also where this raises."""
    jitter = context.runtime.jitter(0.0, 1.0)

    def begins(state: State, now: datetime) -> State:
        """An attempt of an owner that was killed counts now (failures 5)."""
        state = aside.count_interrupted_try(state, limits=context.options.limits, jitter=jitter, now=now)
        return aside.after_reset(state)

    def record(_: LeasedDelivery) -> None:
        """The audit trail says who did it, and how far it came."""
        done = [one.row.id for one in wanted.results if one.done]
        if any(not one.refused for one in wanted.results):
            after = {"replayed": len(done), "rows": done}
            context.audit.add("quarantine replay", by=by, reason=reason, before=None, after=after)

    with errand(context, handler, REPLAY, begins=begins, record=record) as (delivery, before):
        replaying = _Replaying(context, delivery, wanted, by, reason)
        killed(replaying.recorder, before)
        replaying.run()


class _Replaying:
    """One replay, under its lease."""

    def __init__(self, context: Context, delivery: LeasedDelivery, wanted: Replay, by: str, reason: str | None) -> None:
        self.recorder = Recorder(context, delivery.tenure)
        self._context = context
        self._delivery = delivery
        self._tenure = delivery.tenure
        self._wanted = wanted
        self._by = by
        self._reason = reason
        self._progress = Progress()
        self._calls = Calls(context, delivery, self._progress)
        self._stopped_keys: set[str] = set()
        self._handed: set[str] = set()

    def run(self) -> None:
        """Row by row, until all were looked at, or nothing more may begin. Raises: LeaseLost, CommitError, StoreError,
        SourceError."""
        for number, id_ in enumerate(self._wanted.ids):
            if number:
                look_around(self._tenure)
            state = self._tenure.state
            row = next((one for one in (*state.aside, *state.quarantine) if one.id == id_), None)
            if row is None:
                continue  # another process settled it
            if self._tenure.paused:
                self._wanted.stopped = f"{self._context.name} was paused"
            if self._wanted.stopped is not None:
                return
            self._wanted.results.append(self._one(state, row))

    def _one(self, state: State, row: WaitingRow) -> Replayed:
        try:
            self._refuse_out_of_turn(state, row)
            content = self._content(state, row)
        except _Refused as refused:
            self._stopped_keys.add(row.key)
            return Replayed(row, error=str(refused), refused=True, why=refused.why)
        if content.facts.id in self._handed:  # two versions of one row, as the table has it now
            return self._done(row, self._delivery.new_batch_id())
        page = Page((content.row,), (content.cursor,), Bound("none", reason="a row that waited"))
        batch = self._delivery.batch(
            page, None, passes=0, untried=self._progress.failed is None, attempt=row.failures + 1, replay=True
        )
        call = self._calls.run(batch, (content.facts,))
        if call is None:
            limit = self._context.options.handler_limit.total_seconds()
            self._wanted.stopped = f"a row took longer than handler_timeout ({limit:g} s), so its lease is not renewed"
            return Replayed(row, error="It was not handed over.", refused=True, why="The lease ended before.")
        if call.failure is None:
            self._handed.add(content.facts.id)
            done = self._done(row, call.batch_id)
            recorded().call_returned(self._context.name)
            return done
        return self._failed(row, content, call)

    def _done(self, row: WaitingRow, batch_id: str) -> Replayed:
        """It waits no longer."""
        options = self._context.options
        put = Put([Landing(Plan(), Verdict(tried=row.id, worked=True), batch_id)])

        def change(state: State, now: datetime) -> State:
            return written(state, put, limits=options.limits, columns=options.ordering_key, now=now)

        self._tenure.commit(change, batch_id=batch_id, ends=False)
        recorded().row_settled(self._context.name, "replayed")
        self._say(row, None)
        return Replayed(row, done=True)

    def _failed(self, row: WaitingRow, content: _Content, call: Call) -> Replayed:
        """It stays where it is, and the later rows of its key behind it."""
        line = "" if call.failure is None else call.failure.line
        self._stopped_keys.add(row.key)
        if call.report.end == "later":
            self._wanted.stopped = "the handler asks to be called later"
        else:
            error = call.errors.get(content.facts.id) or DeliveryError(type="Error", batch_id=call.batch_id)
            self._say(row, error)
        return Replayed(row, error=line)

    def _say(self, row: WaitingRow, error: DeliveryError | None) -> None:
        """In the record: that it was replayed, or how it failed. What it cannot be made to say, the document says."""
        records, token = self._context.records, self._tenure.fencing_token
        deadline = self._context.runtime.monotonic() + self._context.file.timing.tenure
        pending = any(one.id == row.id for one in self._tenure.state.quarantine)
        try:
            if error is None:
                records.settle(
                    row.id,
                    "replayed",
                    by=self._by,
                    reason=self._reason,
                    fencing_token=token,
                    generation=row.generation,
                    deadline=deadline,
                )
            else:
                records.failed_again(
                    row.id,
                    status="pending" if pending else "aside",
                    failures=row.failures,
                    strikes=row.strikes,
                    error=error,
                    batch_id=error.batch_id,
                    fencing_token=token,
                    generation=row.generation,
                    deadline=deadline,
                )
        except StoreError as unwritten:
            logger.warning("%s: the record of the row %s was not written: %s", self._context.name, row.id, unwritten)

    # --- what is handed over ---------------------------------------------------------------------------------------

    def _refuse_out_of_turn(self, state: State, row: WaitingRow) -> None:
        """Raises: _Refused, if an earlier row of its key waits, or the checkpoint has not passed it."""
        if row.key in self._stopped_keys:
            raise _Refused("An earlier row of its ordering key still waits.")
        if row.generation != state.checkpoint.generation:
            if self._wanted.version == "recorded":
                raise _Refused("It is from before the last reset: say which version is meant, current or as it was.")
            return
        if row.at is None:
            raise _Refused("The checkpoint has not passed it yet.")
        head = aside.heads(state)[row.key]
        if head.id != row.id:
            raise _Refused(f"An earlier row of its ordering key waits, {head.id}: replay that one first.")

    def _content(self, state: State, row: WaitingRow) -> _Content:
        """The version that is meant. Raises: _Refused, also if the store does not give the record out; SourceError."""
        if self._wanted.version == "current":
            return self._current(state, row)
        try:
            record = self._context.records.read(row.id)
            values = None if record is None else record.values()
        except StateCorrupt as error:
            rest = "Replay the table's version (current), or discard it."
            raise _Refused(f"{error.message} {rest}", why=f"Its record cannot be read. {rest}") from None
        except StoreError as error:  # in an outage the next PUT fails, too
            raise _Refused(
                f"Its record cannot be read. {error}", why="The store does not give its record out."
            ) from None
        if record is None or values is None:
            raise _Refused("Its record is missing. Replay the table's version (current), or discard it.")
        if self._wanted.version == "recorded":
            self._refuse_another_version(row)
        return _Content(values, row.cursor, record.facts())

    def _refuse_another_version(self, row: WaitingRow) -> None:
        """Raises: _Refused, if the table has this version no longer. A row that a snapshot read is followed by its
        changes, which replace none."""
        if row.cursor.read is not None:
            return
        now = self._look(row)
        if now is None or now.facts.id != row.id:
            there = "no such row" if now is None else "a newer version of it"
            place = "" if now is None else f", at {now.cursor}"
            rest = ": say which version is meant, current or as it was."
            raise _Refused(f"The table has {there}{place}{rest}", why=f"The table has {there}{rest}")

    def _current(self, state: State, row: WaitingRow) -> _Content:
        if row.cursor.read is not None:
            raise _Refused("A snapshot read it, and changes of it follow: replay it as it was, or discard it.")
        now = self._look(row)
        if now is None:
            raise _Refused("The table has no such row any more: replay it as it was, or discard it.")
        if now.facts.id == row.id and row.generation == state.checkpoint.generation:
            return _Content(now.row, now.cursor, now.facts)  # the checkpoint has passed it
        listed = aside.listed(state)
        if now.facts.id in listed:
            raise _Refused(f"The table's version waits itself, as {now.facts.id}: replay that one, and discard this.")
        if any(other.key == now.facts.key and other.id != row.id for other in listed.values()):
            raise _Refused("A row of the ordering key that it has now waits: replay that one first.")
        if self._is_ahead(state, now.cursor):
            raise _Refused(
                "The checkpoint has not passed the table's version yet: a tick will deliver it. Discard this one."
            )
        return _Content(now.row, now.cursor, now.facts)

    def _look(self, row: WaitingRow) -> CurrentRow | None:
        self._delivery.begin_page()
        pk = {name: str(value) for name, value in (row.cursor.tiebreaker or {}).items()}
        return current_row(self._context.source, pk)

    def _is_ahead(self, state: State, cursor: Cursor) -> bool:
        """True if the checkpoint is not at or behind a cursor, by the database's order."""
        source, checkpoint = self._context.source, state.checkpoint.cursor
        if checkpoint is None:
            return True
        between = source.count_between(checkpoint, cursor, cap=1)
        return between is None or between[0] > 0
