"""The records of one poller: opened before the PUT that passes their rows, settled after the one that lists them no
more.

Every change is one compare-and-swap, and every one may be made again: a process killed between two requests left a
whole record, and the next call finishes it. Records are documents of the store like any other (in `sql` rows of
`{prefix}_documents`, where `name LIKE 'quarantine/...'` finds them): they are read and written whole and by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from poller.errors import StateCorrupt, StoreError
from poller.journal.quarantine.reader import RecordReader
from poller.journal.quarantine.record import (
    ROOM,
    Act,
    NewerRecord,
    QuarantineRecord,
    Settled,
    Waiting,
    encode,
    is_id,
)
from poller.journal.quarantine.values import NotRecordable, to_json
from poller.lease.sending import Sending
from poller.lease.server_clock import ServerClock
from poller.model.aside import RowFacts
from poller.model.cursor import KeyValue
from poller.model.document import DeliveryError
from poller.model.escape import shown
from poller.model.limits import LARGEST_BODY, LONGEST_CURSOR, LONGEST_NAME, LONGEST_REASON
from poller.model.redact import first_line, shortened
from poller.model.timing import Timing
from poller.observability import Emitter, WriteResolved
from poller.ports import Found, Row, Runtime, StateStore


class NoRecord(StoreError):
    """A row cannot be kept in a record, so it must not be passed. Nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a record is opened with.

    Attributes:
        facts: as the document lists the row. row: as the source gave it, not as a handler may have changed it.
        row_key: what `batch.key(row)` says. ordering_key: its columns and their values, as text or integer.
        error: of the failure, None for a row that follows another. by, reason: of the person who set it aside.
        The others: as in `QuarantineRecord`.
    """

    facts: RowFacts
    row: Row
    row_key: str = ""
    ordering_key: Mapping[str, KeyValue | None] = field(default_factory=dict)
    status: Waiting = "aside"
    behind: bool = False
    failures: int = 0
    strikes: int = 0
    error: DeliveryError | None = None
    batch_id: str | None = None
    fencing_token: int
    generation: int
    by: str | None = None
    reason: str | None = None


class Quarantine(RecordReader):
    """Opens, reads and settles the records of one poller. Safe to use from several threads.

    Args:
        clock: the store's; one of its own where None.
        error_text: False keeps of an error its type only.
    """

    def __init__(
        self,
        store: StateStore,
        *,
        app_name: str,
        poller_name: str,
        runtime: Runtime,
        timing: Timing,
        clock: ServerClock | None = None,
        emit: Emitter | None = None,
        error_text: bool = True,
    ) -> None:
        super().__init__(store, app_name=app_name, poller_name=poller_name, runtime=runtime, timing=timing, clock=clock)
        self._emit = emit or Emitter(())
        self._error_text = error_text

    # --- one record ------------------------------------------------------------------------------------------------

    def open(self, entry: Entry, *, deadline: float) -> QuarantineRecord:
        """Keep a row before it is passed: create its record, or open again the one that is there.

        The record of a tenure with a higher token stays as it is while the row waits, if that comes back from it. A
        record that cannot be read is replaced: all that is needed is in `entry`.

        Args:
            deadline: on the runtime's monotonic clock; nothing is sent after it.

        Raises: NoRecord (the row is too large, or has no form in JSON), NewerRecord, OutcomeUnknown, StoreDenied;
            ValueError for an id that is not one.
        """
        if not is_id(entry.facts.id):
            raise ValueError("a row's id is 16 hexadecimal digits")
        try:
            fields = self._opened(entry)
        except NotRecordable as error:
            raise self._not_kept(entry, str(error)) from None

        def change(known: QuarantineRecord | None, now: datetime) -> QuarantineRecord | None:
            opened = Act(by=_cut(entry.by, LONGEST_NAME), at=now, reason=_reason(entry.reason))
            own = fields | {"opened": opened, "created_at": now, "updated_at": now, "settled": None}
            if known is None:
                return QuarantineRecord.model_construct(**own)
            ours = known.waits and known.generation == entry.generation
            if ours and known.fencing_token > entry.fencing_token and known.comes_back():
                return None
            same = ours and known.fencing_token == entry.fencing_token
            openings = known.openings if same else known.past()
            return known.model_copy(update=own | {"created_at": known.created_at, "openings": openings})

        self._refuse_unreadable(entry, QuarantineRecord.model_construct(**fields))
        written = self._change(entry.facts.id, change, deadline, creates=True)
        if written is None:
            raise AssertionError("unreachable: a record is there or is created")
        return written

    def failed_again(
        self,
        id_: str,
        *,
        status: Waiting,
        failures: int,
        strikes: int,
        error: DeliveryError | None,
        batch_id: str | None,
        fencing_token: int,
        generation: int,
        deadline: float,
    ) -> QuarantineRecord | None:
        """Say of a row that was tried again that it failed; the record is returned, None if there is none.

        Nothing changes where a later tenure set it aside or tried it. Args: as `open` and in `QuarantineRecord`.
        Raises: StateCorrupt, OutcomeUnknown, StoreDenied.
        """
        facts = {
            "status": status,
            "behind": False,
            "failures": failures,
            "strikes": strikes,
            "error": self._cleaned(error),
            "batch_id": _cut(batch_id, LONGEST_NAME),
            "fencing_token": fencing_token,
            "generation": generation,
        }

        def change(known: QuarantineRecord | None, now: datetime) -> QuarantineRecord | None:
            if known is None or _is_later(known, generation, fencing_token):
                return None
            if known.waits:
                same = all(getattr(known, name) == value for name, value in facts.items())
                return None if same else known.model_copy(update=facts | {"updated_at": now})
            again = {"openings": known.past(), "opened": Act(at=now), "settled": None, "updated_at": now}
            return known.model_copy(update=facts | again)

        return self._change(id_, change, deadline)

    def settle(
        self,
        id_: str,
        status: Settled,
        *,
        by: str | None = None,
        reason: str | None = None,
        fencing_token: int,
        generation: int,
        deadline: float,
    ) -> QuarantineRecord | None:
        """Say what became of a row that is listed no more; the record is returned, None if there is none.

        The first settlement stands, and one that a later tenure has opened since is not settled: it is returned as it
        is. Args: `by`, `reason`: of a person; the others as `open` and in `QuarantineRecord`.
        Raises: StateCorrupt, OutcomeUnknown, StoreDenied.
        """

        def change(known: QuarantineRecord | None, now: datetime) -> QuarantineRecord | None:
            if known is None or not known.waits or _is_later(known, generation, fencing_token):
                return None
            act = Act(by=_cut(by, LONGEST_NAME), at=now, reason=_reason(reason))
            return known.model_copy(update={"status": status, "settled": act, "updated_at": now})

        return self._change(id_, change, deadline)

    # --- the one way to write --------------------------------------------------------------------------------------

    def _change(
        self,
        id_: str,
        change: Callable[[QuarantineRecord | None, datetime], QuarantineRecord | None],
        deadline: float,
        *,
        creates: bool = False,
    ) -> QuarantineRecord | None:
        """Change a record by compare-and-swap, again on whatever is there meanwhile; a lost answer is looked for in
        the record (protocol 2). `change` returns None for a record that stays as it is. The record now."""
        if not is_id(id_):
            return None
        sending = Sending(
            self.store,
            self.name(id_),
            poller_name=self.poller_name,
            runtime=self.runtime,
            timing=self.timing,
            clock=self.clock,
            emit=self._emit,
        )
        found = None if creates else sending.reread(deadline)  # most rows have no record yet
        write_id: str | None = None
        while True:
            known = None if found is None else self._known(id_, found, replaces=creates)
            if known is not None and write_id in known.write_ids:
                self._emit(WriteResolved(poller=self.poller_name, at=self.runtime.utcnow()))
                return known
            wanted = change(known, self.clock.now())
            if wanted is None:
                return known
            write_id = self.runtime.new_id()
            wanted = wanted.with_write_id(write_id)
            body = encode(wanted)
            if body is None:
                raise self._too_large(id_)
            if sending.send(body, None if found is None else found.tag, deadline) is not None:
                return wanted
            found = sending.reread(deadline)

    def _known(self, id_: str, found: Found, *, replaces: bool) -> QuarantineRecord | None:
        """The record that is there; None for one that cannot be read and is replaced."""
        try:
            return self.decoded(id_, found.body)
        except NewerRecord:
            raise
        except StateCorrupt:
            if not replaces:
                raise
            return None

    # --- what a record says ----------------------------------------------------------------------------------------

    def _opened(self, entry: Entry) -> dict[str, Any]:
        values, kinds = to_json(entry.row)
        if len(entry.row_key) > LONGEST_CURSOR:
            raise NotRecordable(f"Its key has more than {LONGEST_CURSOR:,} characters.")
        return {
            "app_name": self.app_name,
            "poller_name": self.poller_name,
            "id": entry.facts.id,
            "pk": entry.facts.pk,
            "key": entry.facts.key,
            "row_key": entry.row_key,
            "cursor": entry.facts.cursor,
            "ordering_key": dict(entry.ordering_key),
            "row": values,
            "kinds": kinds,
            "status": entry.status,
            "behind": entry.behind,
            "failures": entry.failures,
            "strikes": entry.strikes,
            "error": self._cleaned(entry.error),
            "batch_id": _cut(entry.batch_id, LONGEST_NAME),
            "fencing_token": entry.fencing_token,
            "generation": entry.generation,
        }

    def _refuse_unreadable(self, entry: Entry, record: QuarantineRecord) -> None:
        """Raises: NoRecord where the row would not come back from its record."""
        try:
            body = encode(record, limit=LARGEST_BODY - ROOM)
            if body is None:
                raise self._not_kept(entry, f"Its record would have more than {LARGEST_BODY - ROOM:,} bytes.")
            there = self.decoded(entry.facts.id, body)
            there.values()
            if there.facts() != entry.facts:  # half of a surrogate pair, say
                raise self._not_kept(entry, "Its key or cursor does not come back from it.")
        except (StateCorrupt, ValueError) as error:
            why = error.message if isinstance(error, StateCorrupt) else "Its key is not Unicode."
            raise self._not_kept(entry, why) from None

    def _cleaned(self, error: DeliveryError | None) -> DeliveryError | None:
        """An error as it may be stored: one line each, bounded, without secrets."""
        if error is None:
            return None
        text = first_line(error.message) if self._error_text else ""
        batch_id = _cut(error.batch_id, LONGEST_NAME)
        return DeliveryError(type=shown(error.type, LONGEST_NAME), message=text, at=error.at, batch_id=batch_id)

    def _not_kept(self, entry: Entry, why: str) -> NoRecord:
        row = shown(entry.row_key or entry.facts.id)
        return NoRecord(
            f"The row {row} of {self.poller_name!r} cannot be kept in a record. {why}",
            document=self.name(entry.facts.id),
            next_step="It was not passed. Leave large columns, or the row, out of what is read (`query`, `filter`).",
        )

    def _too_large(self, id_: str) -> StoreError:
        return StoreError(
            f"The {self.store.locate(self.name(id_))} would have more than {LARGEST_BODY:,} bytes.",
            document=self.name(id_),
            next_step="Nothing was written. The poller never makes it so large: remove what does not belong to it.",
        )


def _is_later(known: QuarantineRecord, generation: int, fencing_token: int) -> bool:
    """True if a later tenure, or one behind a reset, set it aside or tried it."""
    return (known.generation, known.fencing_token) > (generation, fencing_token)


def _cut(text: str | None, limit: int) -> str | None:
    return None if text is None else shown(text, limit)


def _reason(text: str | None) -> str | None:
    return None if text is None else shortened(text, LONGEST_REASON)
