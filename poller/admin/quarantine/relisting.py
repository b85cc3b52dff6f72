"""Rows that wait by their records, if the document that listed them is gone: an export holds no list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poller.admin.counts import rows as rows_of
from poller.admin.editor import Operator
from poller.admin.quarantine.records import every_row, records_of
from poller.admin.wired import WiredPoller
from poller.journal.quarantine.record import QuarantineRecord
from poller.model import aside
from poller.model.document import State, WaitingRow
from poller.model.handover import MOST_LISTED
from poller.model.limits import LARGEST_BODY
from poller.model.stamps import stamp

_LIST = "poller quarantine list"


@dataclass(frozen=True)
class Relisting:
    """Rows whose records say that they wait, and that a document which is put back does not list.

    Attributes:
        rows: those that it lists from then on, for a person. left: so many more have no space there. unreadable: so
            many records more cannot be read.
    """

    rows: Sequence[WaitingRow] = ()
    left: int = 0
    unreadable: int = 0

    def notes(self, name: str) -> list[str]:
        """What a person should know of them."""
        notes = []
        if len(self.rows) == 1:
            notes.append(f"The record of 1 row says that it waits: listed again, for a person: {_LIST} {name}.")
        elif self.rows:
            many = f"The records of {rows_of(len(self.rows))} say that they wait"
            notes.append(f"{many}: listed again, for a person: {_LIST} {name}.")
        if self.rows:
            notes.append("One that was delivered just before the document went may be among them.")
        if self.left:
            notes.append(f"There is no space to list {rows_of(self.left)} more that wait by their records.")
        if self.unreadable:
            notes.append(f"{self.unreadable} record{'s' * (self.unreadable > 1)} of rows cannot be read.")
        return notes


def unlisted(poller: WiredPoller, operator: Operator, state: State) -> Relisting:
    """The rows that wait by their records and that `state` does not list. Raises: StoreUnavailable, StoreDenied."""
    records = records_of(poller, operator)
    listed = every_row(state)
    found = records.records([id_ for id_ in records.ids() if id_ not in listed])
    known = [one for one in found.values() if isinstance(one, QuarantineRecord)]
    waits = sorted((one for one in known if one.waits), key=_order)
    rows: list[WaitingRow] = []
    space = LARGEST_BODY // 2
    for record in waits:
        space -= aside.entry_size(record.cursor)
        if space < 0 or len(rows) + len(listed) >= MOST_LISTED:
            break
        rows.append(entry_of(record))
    return Relisting(rows, len(waits) - len(rows), len(found) - len(known))


def _order(record: QuarantineRecord) -> tuple[int, str, str]:
    """About that in which they were passed."""
    at = record.opened.at or record.created_at
    return record.generation, stamp(at) if at else "", record.id


def entry_of(record: QuarantineRecord) -> WaitingRow:
    """As a document lists it for a person."""
    return WaitingRow(
        id=record.id,
        pk=record.pk,
        key=record.key,
        cursor=record.cursor,
        generation=record.generation,
        since=record.opened.at,
        failures=record.failures,
        strikes=record.strikes,
    )
