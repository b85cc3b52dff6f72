"""Setting a row aside by hand: a person's way past a row that fails, in every mode (failures, "The record and the
commands").

The row must lie ahead of the checkpoint. It is handed over no more until the checkpoint has passed it; then it is tried
again by itself, as a row that failed is in the mode `quarantine`, and later rows of its ordering key wait behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from poller.admin.change_result import ChangedRow, ChangeOutput
from poller.admin.changes import StateEditor
from poller.admin.conversation import Conversation
from poller.admin.plans import Plan
from poller.admin.quarantine.records import every_row, records_of, settle
from poller.admin.refusals import Refused, WrongArgument, clean, shown
from poller.admin.request import Request
from poller.admin.wired import WiredPoller
from poller.delivery.current_row import CurrentRow, current_row
from poller.delivery.ordering import check_ordering_key, key_columns
from poller.delivery.preflight import check_fingerprint
from poller.errors import SourceError, SourceUnavailable
from poller.journal.quarantine.records import Entry, Quarantine
from poller.model import aside, backoff, transitions, window
from poller.model.document import Change, DeliveryError, State

KIND = "quarantine add"


def add(
    poller: WiredPoller,
    pk: Mapping[str, str],
    request: Request | None = None,
    conversation: Conversation | None = None,
) -> ChangeOutput:
    """Set aside the row with this primary key. Its record is written first, so that nothing is passed without one; a
    record alone counts for nothing.

    Raises: WrongArgument (no key, or no such row), Refused (behind the checkpoint, no room, not confirmed), LeaseHeld,
        FingerprintMismatch, ConfigError (rows wait under another `ordering_key`), NoRecord, WriteConflict, StoreError,
        SourceError.
    """
    editor = StateEditor(poller, request, conversation)
    _check_key(poller, pk)
    with poller.alone():
        copy = editor.operator.look()
        check_fingerprint(poller.name, copy.state, poller.source)
        check_ordering_key(poller.name, copy.state, poller.source, poller.options.ordering_key)
        row = _read(poller, pk)
        records = records_of(poller, editor.operator)
        adding = _Adding(poller, row, records, editor)
        output = editor.carry_out(adding.plan(), copy)
        if not output.changed or output.after is None:
            return output
        token, generation = output.after.fencing_token, output.after.generation
        operator = editor.operator
        notes = settle(
            records,
            adding.older,
            "superseded",
            by=operator.by,
            reason=operator.reason,
            fencing_token=token,
            generation=generation,
        )
        return output.model_copy(update={"notes": [*output.notes, *notes]})


def _check_key(poller: WiredPoller, pk: Mapping[str, str]) -> None:
    """Raises: WrongArgument, where it is not a text for each column of the key."""
    columns = poller.source.describe().pk_columns
    for name, value in pk.items():
        clean(value, "pk")
        if name not in columns:
            raise WrongArgument(f"pk: {shown(name)} is not a key column.", next_step=f"The key: {', '.join(columns)}.")
    missing = [name for name in columns if name not in pk]
    if missing:
        raise WrongArgument(f"pk: {', '.join(missing)} is missing.", next_step=f"The key: {', '.join(columns)}.")


def _read(poller: WiredPoller, pk: Mapping[str, str]) -> CurrentRow:
    """Raises: WrongArgument, where the table has no such row, or the key cannot hold the value; SourceError."""
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


class _Adding:
    """One row on its way into the list.

    Attributes:
        older: ids of listed versions of the row that give up their place to it.
    """

    def __init__(self, poller: WiredPoller, row: CurrentRow, records: Quarantine, editor: StateEditor) -> None:
        self._poller = poller
        self._row = row
        self._records = records
        self._editor = editor
        self.older: list[str] = []

    def plan(self) -> Plan:
        """The change, before it is made."""
        return Plan(
            kind=KIND,
            transition=self._added,
            nothing=self._nothing,
            notes=self._notes,
            rows=lambda _: [ChangedRow(id=self._row.facts.id, pk=self._row.cursor.tiebreaker or {}, status="aside")],
            strict=False,
            typed=False,
            restorable=False,
            before_write=self._open,
        )

    def _added(self, state: State, change: Change, now: datetime) -> State:
        """Listed, and what was known of the row that failed is forgotten: the next tick goes on at once."""
        state = window.stored(state, None)
        delivery = state.delivery.model_copy(update={"attempts": 0, "last_error": None})
        state = backoff.at_once(state.model_copy(update={"delivery": delivery}))
        state = aside.add(aside.parking_ended(state), self._row.facts, now=now)
        state = aside.keyed(state, key_columns(self._poller.source, self._poller.options.ordering_key))
        control = state.control.model_copy(update={"last_change": change})
        return transitions.freed(state.model_copy(update={"control": control}), now=now)

    def _nothing(self, state: State) -> str | None:
        """Why there is nothing to do. Raises: Refused, where the row cannot be set aside; SourceError."""
        id_, name = self._row.facts.id, self._poller.name
        if id_ in aside.listed(state):
            return f"This row of {name} waits already, as {id_}."
        if self._is_passed(state):
            raise Refused(
                f"The checkpoint of {name!r} is behind this row already ({self._row.cursor}): it was delivered or set "
                "aside. Nothing was changed.",
                next_step=f"Which rows wait: poller quarantine list {name}",
            )
        again = id_ in every_row(state)
        if aside.room(state, self._poller.options.limits) + len(self._older(state)) + again <= 0:
            most = self._poller.options.max_quarantined
            raise Refused(
                f"{len(every_row(state)):,} rows of {name!r} wait, and at most {most:,} may (max_quarantined). Nothing "
                "was changed.",
                next_step=f"Replay or discard some first: poller quarantine list {name}; or raise max_quarantined.",
            )
        return None

    def _older(self, state: State) -> list[str]:
        return [row.id for row in aside.listed(state).values() if row.pk == self._row.facts.pk]

    def _is_passed(self, state: State) -> bool:
        """Whether the checkpoint stands at or behind the row, by the database's order."""
        source = self._poller.source
        if state.checkpoint.cursor is None:
            return False
        between = source.count_between(state.checkpoint.cursor, self._row.cursor, cap=1)
        return between is not None and between[0] == 0

    def _notes(self, state: State) -> list[str]:
        line = "It is handed over no more until the checkpoint has passed it, and is then tried again by itself; later"
        notes = [f"{line} rows of its ordering key wait behind it."]
        if state.control.halted:
            notes.append(f"{self._poller.name} stays halted. To go on: poller resume {self._poller.name}")
        return notes

    def _open(self, state: State) -> None:
        """The record, before the write that lists the row. Raises: NoRecord, StoreError."""
        operator, row = self._editor.operator, self._row
        self.older = self._older(state)
        self._records.open(
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
            deadline=self._records.runtime.monotonic() + self._records.timing.tenure,
        )

    def _error(self, state: State) -> DeliveryError | None:
        """How the row failed, where it was found to be the one that does."""
        found = window.standing(state)
        mine = found is not None and (found.suspect.value, found.suspect.tiebreaker) == (
            self._row.cursor.value,
            self._row.cursor.tiebreaker,
        )
        return state.delivery.last_error if mine else None
