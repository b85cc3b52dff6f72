"""The records of rows that a tick passes without success: written before the PUT that lists the rows, and settled after
the one that lists them no more (failures 4)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypedDict

from poller.errors import LeaseLost, StateCorrupt, StoreError
from poller.journal.quarantine.record import NewerRecord, QuarantineRecord, Settled
from poller.journal.quarantine.records import Entry, NoRecord
from poller.lease.tenure import Tenure
from poller.model.aside import RowFacts
from poller.model.document import DeliveryError, WaitingRow
from poller.observability import RowDeliveredLater, RowQuarantined, RowSetAside
from poller.tick.context import Context
from poller.tick.rows import RowOfPage

logger = logging.getLogger("poller")


class _By(TypedDict):
    fencing_token: int
    generation: int
    deadline: float


class Unrecorded(Exception):
    """A row has no record, so it must not be passed.

    Attributes:
        position: of the row in its page. why: in a sentence or two.
    """

    def __init__(self, position: int, why: str) -> None:
        super().__init__(why)
        self.position = position
        self.why = why


class Recorder:
    """Writes the records of one tenure."""

    def __init__(self, context: Context, tenure: Tenure) -> None:
        self._context = context
        self._tenure = tenure
        self._records = context.records

    # --- before the PUT --------------------------------------------------------------------------------------------

    def open(
        self,
        rows: Sequence[RowOfPage],
        *,
        errors: Mapping[str, DeliveryError] | None = None,
        rejected: Collection[str] = (),
        failures: int = 1,
        within: float | None = None,
    ) -> None:
        """Open the records of rows that are to be listed.

        Args:
            errors: why rows failed, by id; a row without one follows another. rejected: ids of rows that wait for a
                person at once. within: for how many seconds each is sent again if no answer comes; None: as long as the
                lease lasts.
        Raises: Unrecorded, also if the store does not take the record of one row: in an outage the next PUT fails, too;
            LeaseLost.
        """
        for row in rows:
            error = (errors or {}).get(row.id)
            entry = Entry(
                facts=RowFacts(row.id, row.pk, row.key, row.cursor),
                row=row.row,
                row_key=row.row_key,
                ordering_key=row.ordering_key,
                status="pending" if row.id in rejected else "aside",
                behind=error is None,
                failures=0 if error is None else failures,
                error=error,
                batch_id=None if error is None else error.batch_id,
                fencing_token=self._tenure.fencing_token,
                generation=self._tenure.state.checkpoint.generation,
            )
            self._tenure.check()
            left = self._tenure.remaining()
            deadline = self._context.runtime.monotonic() + (left if within is None else min(left, within))
            try:
                self._records.open(entry, deadline=deadline)
            except (NoRecord, NewerRecord) as refused:
                raise Unrecorded(row.position, refused.message) from refused
            except StoreError as unwritten:
                self._tenure.check()
                why = f"The record of row {row.row_key} was not written, so the row is not passed. {unwritten}"
                raise Unrecorded(row.position, why) from unwritten

    # --- after the PUT ---------------------------------------------------------------------------------------------

    def listed(self, rows: Sequence[RowOfPage], errors: Mapping[str, DeliveryError]) -> None:
        """Say which rows the PUT listed."""
        waits = {row.id for row in self._tenure.state.quarantine}
        for row in rows:
            error = errors.get(row.id)
            line = None if error is None else _line(error)
            facts = {"row": row.id, "key": row.row_key, "error": line, **self._tenure.facts()}
            if row.id in waits:
                self._context.emit(RowQuarantined(failures=1, strikes=0, **facts))
            else:
                self._context.emit(RowSetAside(behind=error is None, **facts))

    def superseded(self, ids: Collection[str]) -> None:
        """Newer versions of these rows take their turn."""
        for id_ in ids:
            self._settle(id_, "superseded")

    def delivered(self, row: WaitingRow, key: str | None) -> None:
        """A row that was aside was delivered; `key`: what `batch.key` says of it."""
        self._context.emit(RowDeliveredLater(row=row.id, key=key, failures=row.failures, **self._tenure.facts()))
        self._settle(row.id, "delivered")

    def failed_again(self, row: WaitingRow, error: DeliveryError, key: str | None = None) -> None:
        """A row that was aside failed once more; the document says whether it is poison."""
        tenure = self._tenure
        poison = next((one for one in tenure.state.quarantine if one.id == row.id), None)
        now = poison or next((one for one in tenure.state.aside if one.id == row.id), None)
        if now is None:
            return  # another process settled it meanwhile
        if poison is not None:
            facts = {"row": row.id, "key": key, "error": _line(error), **tenure.facts()}
            self._context.emit(RowQuarantined(failures=now.failures, strikes=now.strikes, **facts))
        with self._best_effort(row.id):
            self._records.failed_again(
                row.id,
                status="aside" if poison is None else "pending",
                failures=now.failures,
                strikes=now.strikes,
                error=error,
                batch_id=error.batch_id,
                **self._by(),
            )

    def _settle(self, id_: str, status: Settled) -> None:
        with self._best_effort(id_):
            self._records.settle(id_, status, **self._by())

    def _by(self) -> _By:
        return {
            "fencing_token": self._tenure.fencing_token,
            "generation": self._tenure.state.checkpoint.generation,
            "deadline": self._context.runtime.monotonic() + self._context.file.timing.tenure,
        }

    @contextmanager
    def _best_effort(self, id_: str) -> Iterator[None]:
        """What a record cannot be made to say, the state document says."""
        try:
            yield
        except (StoreError, StateCorrupt) as error:
            logger.warning("%s: the record of the row %s was not written: %s", self._context.name, id_, error)

    # --- others ----------------------------------------------------------------------------------------------------

    def read(self, id_: str) -> QuarantineRecord | None:
        """The record of a row that is tried again; None if it is not a record, or there is none. Raises: NewerRecord;
        StoreError, if the store does not give it out."""
        try:
            return self._records.read(id_)
        except NewerRecord:
            raise
        except StateCorrupt as error:
            logger.warning("%s: %s", self._context.name, error)
            return None

    def may_prune(self) -> bool:
        """True if it is time to look for records to remove."""
        return self._context.options.on_poison == "quarantine" and self._context.pruner.is_due()

    def prune(self) -> None:
        """Remove what was settled long enough. Raises: LeaseLost."""
        pruner, tenure = self._context.pruner, self._tenure
        listed = {row.id for row in (*tenure.state.aside, *tenure.state.quarantine)}
        try:
            pruner.prune(listed, check=tenure.check)
        except LeaseLost:
            raise
        except StoreError as error:
            logger.info("%s: old records were not removed: %s", self._context.name, error)


def _line(error: DeliveryError) -> str:
    """Type and text in one line."""
    return f"{error.type}: {error.message}" if error.message else error.type
