"""Taking back what was done to single rows: rows that were given up wait again, and a row that was set aside by hand is
read as any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from poller.admin.change_records import Undoing
from poller.admin.change_result import ChangedRow
from poller.admin.changes import Base, Changes, Undo
from poller.admin.editor import Applied
from poller.admin.quarantine.records import every_row, is_passed, records_of, settle, unlisting
from poller.admin.quarantine.relisting import entry_of
from poller.admin.refusals import Refused
from poller.journal.quarantine.record import QuarantineRecord
from poller.journal.quarantine.records import Entry
from poller.model import aside, transitions
from poller.model.changes import Transition
from poller.model.document import OperatorChange as Record
from poller.model.document import State, WaitingRow
from poller.tick.ordering import key_columns


@dataclass(frozen=True)
class _OfRows(Undoing):
    """Attributes: ids: of the rows."""

    ids: tuple[str, ...] = ()

    typed = False
    asks = False

    def undo(self, state: State) -> Undo | None:
        return None


@dataclass(frozen=True)
class Relist(_OfRows):
    """Undo a discard: its rows wait for a person again, as long as their records are kept.

    Attributes:
        records: of the rows, once they were read. settled: so many more were delivered since, or a newer version.
    """

    records: tuple[QuarantineRecord, ...] = ()
    settled: int = 0

    def looked(self, on: Changes) -> tuple[Relist, Base]:
        """Raises: Refused, if no record is left or there is no room; StoreError."""
        copy = on.operator.look()
        listed = every_row(copy.state)
        wanted = [id_ for id_ in self.ids if id_ not in listed]
        found = records_of(on.poller, on.operator).records(wanted)
        records = [one for one in found.values() if isinstance(one, QuarantineRecord)]
        kept = tuple(one for one in records if one.waits or one.status == "discarded")
        if records and not kept:
            raise Refused(
                f"The rows of {on.name!r} were delivered since, or a newer version was. Nothing was changed.",
                next_step=f"What became of them: poller quarantine show {on.name} --id {records[0].id}",
            )
        if wanted and not kept:
            raise Refused(
                f"No record of the {len(wanted):,} rows of {on.name!r} is left (quarantine_ttl). Nothing was changed.",
                next_step="Deliver them again from the table: poller backfill, or a reset.",
            )
        room = aside.room(copy.state, on.poller.options.limits)
        if len(kept) > room:
            raise Refused(
                f"{len(kept):,} rows of {on.name!r} would wait again, and max_quarantined leaves room for "
                f"{max(room, 0):,}. Nothing was changed.",
                next_step=f"Replay or discard others first: poller quarantine list {on.name}, or raise "
                "max_quarantined.",
            )
        return replace(self, records=kept, settled=len(records) - len(kept)), copy

    def nothing(self, on: Changes, state: State) -> str | None:
        done = super().nothing(on, state)
        return done or (None if self._again(state) else f"The rows of {on.name} wait already.")

    def transition(self, on: Changes) -> Transition:
        columns = key_columns(on.poller.source, on.poller.options.ordering_key)

        def relisted(state: State, record: Record, now: datetime) -> State:
            point = state.checkpoint
            here = {"at": point.position or 0, "generation": point.generation, "since": now}
            again = [  # rows from before a reset stay that (failures 10)
                entry_of(one).model_copy(update=here if one.generation >= point.generation else {"since": now})
                for one in self._again(state)
            ]
            first = not aside.waiting(state)
            state = state.model_copy(update={"quarantine": (*state.quarantine, *again)})
            state = aside.keyed(state, columns) if first else state
            control = state.control.model_copy(update={"last_change": record})
            return transitions.freed(state.model_copy(update={"control": control}), now=now)

        return relisted

    def _again(self, state: State) -> list[QuarantineRecord]:
        """Those that are not listed, nor a version of them."""
        listed = every_row(state)
        rows = {row.pk for row in listed.values()}
        return [one for one in self.records if one.id not in listed and one.pk not in rows]

    def rows(self, on: Changes, state: State) -> Sequence[ChangedRow]:
        return [ChangedRow(id=one.id, pk=one.cursor.tiebreaker or {}, status="pending") for one in self._again(state)]

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        again = self._again(state)
        notes = [
            *super().notes(on, state),
            "They wait for a person again; later rows of their ordering keys may have been delivered meanwhile.",
        ]
        if self.settled:
            many = "1 row was" if self.settled == 1 else f"{self.settled:,} rows were"
            notes.append(f"{many} delivered since, or a newer version was: not listed again.")
        left = len([id_ for id_ in self.ids if id_ not in every_row(state)]) - len(again) - self.settled
        return [*notes, f"Of {left:,} more the record is gone, or another version waits."] if left else notes

    def before_write(self, on: Changes, state: State) -> None:
        """The records are opened again before the write that lists their rows. Raises: NoRecord, StoreError."""
        records = records_of(on.poller, on.operator)
        for one in self._again(state):
            records.open(
                Entry(
                    facts=one.facts(),
                    row=one.values(),
                    row_key=one.row_key,
                    ordering_key=one.ordering_key,
                    status="pending",
                    behind=one.behind,
                    failures=one.failures,
                    strikes=one.strikes,
                    error=one.error,
                    batch_id=one.batch_id,
                    fencing_token=state.lease.fencing_token + 1,
                    generation=min(one.generation, state.checkpoint.generation),
                    by=on.operator.by,
                    reason=on.operator.reason,
                ),
                deadline=records.runtime.monotonic() + records.timing.tenure,
            )


@dataclass(frozen=True)
class Unlist(_OfRows):
    """Undo setting a row aside by hand, while the checkpoint has not passed it: it is read as any other."""

    def looked(self, on: Changes) -> tuple[Unlist, Base]:
        """Raises: Refused, if the checkpoint has passed it; StoreError."""
        copy = on.operator.look()
        for id_, row in every_row(copy.state).items():
            if id_ in self.ids and is_passed(copy.state, row):
                raise Refused(
                    f"The checkpoint of {on.name!r} has passed the row {id_}: it waits, and is not read again. Nothing "
                    "was changed.",
                    next_step=f"Hand it over: poller quarantine replay {on.name} --id {id_}; or give it up: discard.",
                )
        return self, copy

    def _which(self, state: State) -> list[WaitingRow]:
        return [row for id_, row in every_row(state).items() if id_ in self.ids and not is_passed(state, row)]

    def nothing(self, on: Changes, state: State) -> str | None:
        done = super().nothing(on, state)
        return done or (None if self._which(state) else f"No such row of {on.name} is set aside before the checkpoint.")

    def transition(self, on: Changes) -> Transition:
        return unlisting(self._which)

    def rows(self, on: Changes, state: State) -> Sequence[ChangedRow]:
        return [ChangedRow(id=row.id, pk=row.cursor.tiebreaker or {}, status="aside") for row in self._which(state)]

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        return [*super().notes(on, state), "It is read again as any other row when its turn comes."]

    def finish(self, on: Changes, state: State, applied: Applied | None) -> Sequence[str]:
        """Their records say that they wait no longer."""
        if applied is None or applied.before is None:
            return ()
        records, ids = records_of(on.poller, on.operator), [row.id for row in self._which(applied.before.state)]
        return settle(records, ids, "superseded", state, by=on.operator)
