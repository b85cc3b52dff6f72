"""Setting a row aside by hand: a person's way past a row that fails, in every mode (failures, "The record and the
commands").

The row must lie ahead of the checkpoint. It is handed over no more until the checkpoint has passed it; then it is
retried automatically, as a row that failed is in the mode `quarantine`, and later rows of its ordering key wait behind
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from poller.admin.change_result import ChangedRow
from poller.admin.changes import Base, Change, Changes, Undo
from poller.admin.editor import Applied
from poller.admin.quarantine.records import every_row, records_of, settle
from poller.admin.refusals import Refused, WrongArgument, clean, shown
from poller.admin.wired import WiredPoller
from poller.errors import SourceError, SourceUnavailable
from poller.journal.quarantine.records import Entry
from poller.model import aside, backoff, transitions, window
from poller.model.changes import Transition
from poller.model.document import DeliveryError, State
from poller.model.document import OperatorChange as Record
from poller.tick.current_row import CurrentRow, current_row
from poller.tick.ordering import check_ordering_key, key_columns
from poller.tick.preflight import check_fingerprint


@dataclass(frozen=True)
class Add(Change):
    """Set aside the row with this primary key. Its record is written first, so that nothing is passed without one; a
    record alone counts for nothing.

    Attributes:
        pk: its key, by column. found: the row, once the table was asked.
    """

    pk: Mapping[str, str]
    found: CurrentRow | None = None

    kind = "quarantine add"
    strict = False
    typed = False

    def looked(self, on: Changes) -> tuple[Add, Base]:
        """Raises: WrongArgument (no key, or no such row), FingerprintMismatch, ConfigError (rows wait under another
        `ordering_key`), SourceError, StoreError."""
        poller = on.poller
        _check_key(poller, self.pk)
        copy = on.operator.look()
        check_fingerprint(poller.name, copy.state, poller.source)
        check_ordering_key(poller.name, copy.state, poller.source, poller.options.ordering_key)
        return replace(self, found=_read(poller, self.pk)), copy

    @property
    def row(self) -> CurrentRow:
        """The row, which was read."""
        assert self.found is not None  # noqa: S101 - `looked` comes first
        return self.found

    def transition(self, on: Changes) -> Transition:
        """Listed, and what was known of the row that failed is forgotten: the next tick goes on at once."""
        columns = key_columns(on.poller.source, on.poller.options.ordering_key)

        def added(state: State, record: Record, now: datetime) -> State:
            state = window.stored(state, None)
            delivery = state.delivery.model_copy(update={"attempts": 0, "last_error": None})
            state = backoff.at_once(state.model_copy(update={"delivery": delivery}))
            state = aside.add(aside.after_reset(state), self.row.facts, now=now)
            state = aside.keyed(state, columns)
            control = state.control.model_copy(update={"last_change": record})
            return transitions.freed(state.model_copy(update={"control": control}), now=now)

        return added

    def rows(self, on: Changes, state: State) -> Sequence[ChangedRow]:
        return [ChangedRow(id=self.row.facts.id, pk=self.row.cursor.tiebreaker or {}, status="aside")]

    def nothing(self, on: Changes, state: State) -> str | None:
        """Raises: Refused, if the row cannot be set aside; SourceError."""
        id_, name, options = self.row.facts.id, on.name, on.poller.options
        if id_ in aside.listed(state):
            return f"This row of {name} waits already, as {id_}."
        if self._is_passed(on, state):
            raise Refused(
                f"The checkpoint of {name!r} is behind this row already ({self.row.cursor}): it was delivered or set "
                "aside. Nothing was changed.",
                next_step=f"Which rows wait: poller quarantine list {name}",
            )
        again = id_ in every_row(state)
        if aside.room(state, options.limits) + len(self._older(state)) + again <= 0:
            raise Refused(
                f"{len(every_row(state)):,} rows of {name!r} wait, and at most {options.max_quarantined:,} may "
                "(max_quarantined). Nothing was changed.",
                next_step=f"Replay or discard some first: poller quarantine list {name}; or raise max_quarantined.",
            )
        return None

    def _older(self, state: State) -> list[str]:
        """Ids of listed versions of the row that give up their place to it."""
        return [row.id for row in aside.listed(state).values() if row.pk == self.row.facts.pk]

    def _is_passed(self, on: Changes, state: State) -> bool:
        """True if the checkpoint is at or behind the row, by the database's order."""
        if state.checkpoint.cursor is None:
            return False
        between = on.poller.source.count_between(state.checkpoint.cursor, self.row.cursor, cap=1)
        return between is not None and between[0] == 0

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        line = "It is not handed over until the checkpoint has passed it, and is then tried again automatically;"
        notes = [f"{line} later rows of its ordering key wait behind it."]
        if state.control.halted:
            notes.append(f"{on.name} stays halted. To go on: poller resume {on.name}")
        return notes

    def undo(self, state: State) -> Undo | None:
        return "relist"

    def before_write(self, on: Changes, state: State) -> None:
        """The record, before the write that lists the row. Raises: NoRecord, StoreError."""
        operator, row, records = on.operator, self.row, records_of(on.poller, on.operator)
        records.open(
            Entry(
                facts=row.facts,
                row=row.row,
                row_key=row.row_key,
                ordering_key=row.ordering_key,
                error=self._error(state),
                fencing_token=state.lease.fencing_token + 1,
                generation=state.checkpoint.generation,
                by=operator.by,
                reason=operator.reason,
            ),
            deadline=records.runtime.monotonic() + records.timing.tenure,
        )

    def finish(self, on: Changes, state: State, applied: Applied | None) -> Sequence[str]:
        """The records of the versions whose place it took say so."""
        if applied is None or applied.before is None:
            return ()
        records, older = records_of(on.poller, on.operator), self._older(applied.before.state)
        return settle(records, older, "superseded", state, by=on.operator)

    def _error(self, state: State) -> DeliveryError | None:
        """How the row failed, if it was found to be the one that does."""
        found = window.standing(state)
        mine = found is not None and (found.suspect.value, found.suspect.tiebreaker) == (
            self.row.cursor.value,
            self.row.cursor.tiebreaker,
        )
        return state.delivery.last_error if mine else None


def _check_key(poller: WiredPoller, pk: Mapping[str, str]) -> None:
    """Raises: WrongArgument, if it is not a text for each column of the key."""
    columns = poller.source.describe().pk_columns
    for name, value in pk.items():
        clean(value, "pk")
        if name not in columns:
            raise WrongArgument(f"pk: {shown(name)} is not a key column.", next_step=f"The key: {', '.join(columns)}.")
    missing = [name for name in columns if name not in pk]
    if missing:
        raise WrongArgument(f"pk: {', '.join(missing)} is missing.", next_step=f"The key: {', '.join(columns)}.")


def _read(poller: WiredPoller, pk: Mapping[str, str]) -> CurrentRow:
    """Raises: WrongArgument, if the table has no such row, or the key cannot hold the value; SourceError."""
    source = poller.source
    source.lag(None, cap=1)  # a table that cannot be read is no fault of the arguments'
    try:
        row = current_row(source, pk)
    except SourceUnavailable:
        raise
    except SourceError as error:
        raise WrongArgument(error.message, next_step=error.next_step) from None
    except OverflowError:
        raise WrongArgument("pk: a value is out of the column's range.") from None
    if row is None:
        raise WrongArgument(
            f"{poller.name!r} reads no row with this key: it is not there, has no value in the cursor column, or the "
            "`filter` or a backfill's range leaves it out.",
            next_step="Nothing was changed.",
        )
    return row
