"""The audit trail: takeovers, lost leases, halts, streaks of failures and every operator's change, with who, when,
before and after.

Best effort, and never in a commit's path: a record that cannot be written is reported and dropped. An operator's change
is in the document that it changed, too (`control.last_change`), and the next writer copies it here; it is lost only
if that writer is an operator whose copy the store refuses as well, and then the log names it. Copies carry the change's
id, so that two of them are one.

The trail is also what shows that a document existed: a missing one with a trail was deleted (protocol 12).
So the record of a document's creation is copied like an operator's change, and each process looks once whether there is
a trail.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

from poller.errors import StoreError
from poller.journal.background import BackgroundWriter
from poller.model import backoff
from poller.model.changes import CREATED, SEEN, summary
from poller.model.document import OperatorChange, State
from poller.model.limits import LONGEST_LINE, LONGEST_NAME, NotBoundedJson, read_json
from poller.model.redact import error_line
from poller.model.stamps import stamp
from poller.model.when import span
from poller.observability import AuditFailed
from poller.ports import Runtime, StateStore

logger = logging.getLogger("poller")

COPIES_SEARCHED = (20, 200)
"""Among so many of the newest records a change is looked for before it is copied: mostly it is one of a few, and every
process that starts looks once."""
LOOK_AGAIN = 3600.0
"""Seconds after which a process whose first look failed looks again: a store that refuses records is not asked each
tick."""
PAIR = 300.0
"""Seconds; of the streaks of failures that begin within that time the first is recorded: `failing`, and `recovered` at
its end."""
MOST_IDS = 100
"""So many rows are named in a record that would be longer than a trail's line; with how many there are in all."""
LONGEST_TEXT = 1_000
"""Characters of each text in a record that would be longer than a trail's line."""
RECORDS_WAITING = 1000
"""So many records wait for a slow store; what does not fit is reported and dropped."""


class AuditTrail:
    """Appends to and reads `audit/{app_name}/{poller_name}.jsonl`: one JSON object a line.

    Args:
        emit: gets the event for each record that is dropped; default: the log.
        now: the store's clock, for the records' own times; default: this machine's.
    """

    def __init__(
        self,
        store: StateStore,
        *,
        app_name: str,
        poller_name: str,
        runtime: Runtime,
        emit: Callable[[AuditFailed], None] | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self.name = f"audit/{app_name}/{poller_name}.jsonl"
        self._store = store
        self._poller = poller_name
        self._runtime = runtime
        self._emit = emit or _logged
        self._now = now or runtime.utcnow
        self._copied: str | None = None
        self._looks_at = float("-inf")
        """When to look whether there is a trail, on the runtime's monotonic clock."""
        self._failing: float | None = None
        """When the streak began that was recorded, on that clock; None if the poller does not fail."""
        self._streak_after = float("-inf")
        """When the next streak is recorded."""
        self._writer = BackgroundWriter(runtime, "poller-audit", room=RECORDS_WAITING)

    def add(self, kind: str, **facts: Any) -> None:
        """Write one record from a thread beside the work. Returns at once and raises nothing."""
        record = {"id": self._runtime.new_id(), "kind": kind, "at": stamp(self._now()), **facts}
        self._put(lambda: self._store.append(self.name, _line(record)), record)

    def first_look(self, state: State, *, by: str) -> None:
        """Make sure that the trail shows this document to exist: once in a process, and after a failure an hour later.
        The document's newest change is copied; a document without one gets a record that it was seen. As `add`."""
        now = self._runtime.monotonic()
        if now < self._looks_at:
            return
        self._looks_at = now + LOOK_AGAIN
        change = state.control.last_change
        if change is None:
            change = OperatorChange(
                id=self._runtime.new_id(), kind=SEEN, by=by[:LONGEST_NAME], at=self._now(), after=summary(state)
            )
        self._copied = change.id

        def write() -> None:
            self.copy_now(change)
            self._looks_at = float("inf")

        self._put(write, change.record())

    def turned(self, before: State, after: State, *, by: str) -> None:
        """Note that a poller began to fail, or that a commit ended it, by its document before a tick and after it. One
        that an operator resumed goes on failing, or not, with its next call. As `add`."""
        failed, fails = backoff.fails(before), backoff.fails(after)
        now, error = self._runtime.monotonic(), after.delivery.last_error
        if fails and not failed and error is not None and now >= self._streak_after:
            self._failing, self._streak_after = now, now + PAIR
            self.add("failing", by=by, reason=error.type, before=None, after={"error": error.type})
        elif failed and not fails and before.checkpoint.cursor != after.checkpoint.cursor:
            began, self._failing = self._failing, None
            if began is None and now < self._streak_after:
                return  # its beginning was not recorded
            self._streak_after = max(self._streak_after, now + PAIR)
            lasted = None if began is None else span(now - began)
            self.add("recovered", by=by, reason=f"it failed for {lasted}" if lasted else None, before=None, after=None)

    def look_again(self) -> None:
        """The next tick looks again whether there is a trail: a rule may have deleted it meanwhile."""
        self._looks_at = float("-inf")

    def copy(self, change: OperatorChange | None) -> None:
        """Copy the newest change out of the document, if this process has not seen to that. As `add`."""
        if change is None or change.id == self._copied:
            return
        if self._put(lambda: self.copy_now(change), change.record()):
            self._copied = change.id

    def copy_now(self, change: OperatorChange) -> None:
        """Copy a change unless it stands here already; one that only shows that there was a document, unless anything
        does. Raises: StoreUnavailable, StoreDenied."""
        if change.kind in (CREATED, SEEN) and self.name in self._store.names(self.name):
            return
        for limit in COPIES_SEARCHED if change.kind not in (CREATED, SEEN) else ():
            entries = self.entries(limit=limit)
            if any(entry.get("id") == change.id for entry in entries):
                return
            if len(entries) < limit:
                break
        self._store.append(self.name, _line(change.record()))

    def entries(self, *, limit: int | None = None) -> list[dict[str, Any]]:
        """The newest records, oldest first, each id once. Raises: StoreUnavailable, StoreDenied."""
        return self.read(limit=limit)[0]

    def read(self, *, limit: int | None = None) -> tuple[list[dict[str, Any]], int]:
        """The same, and how many lines among them are no records: cut short by a crash, too long, or not ours."""
        found: dict[str, dict[str, Any]] = {}
        skipped = 0
        for number, line in enumerate(self._store.lines(self.name, limit=limit)):
            try:
                record = read_json(line.encode("utf-8", "replace"))
            except NotBoundedJson:
                record = None
            if isinstance(record, dict):
                found.setdefault(str(record.get("id", number)), record)
            else:
                skipped += 1
        return list(found.values()), skipped

    def settle(self, seconds: float) -> None:
        """Wait for records under way, but no longer than this in all."""
        self._writer.settle(seconds)

    def _put(self, write: Callable[[], None], record: dict[str, Any]) -> bool:
        def failed(reason: str) -> None:
            event = AuditFailed(poller=self._poller, at=self._runtime.utcnow(), error=reason, record=_named(record))
            self._emit(event)

        def run() -> None:
            try:
                write()
            except StoreError as error:
                failed(error.message)
            except Exception as error:  # noqa: BLE001 - nothing of this may end the thread, or print what it quotes
                failed(f"{type(error).__name__}: {error_line(error)}")

        if self._writer.put(run):
            return True
        failed("The store is slower than the records, and no more of them may wait.")
        return False


def _logged(event: AuditFailed) -> None:
    """For an operator, who has no observers."""
    said = (event.poller, event.error, event.record)
    logger.warning("%s: a record of the audit trail was not written: %s (%s)", *said)


def _named(record: dict[str, Any]) -> str:
    """A record for the log, which may be all that is left of it."""
    said = {"of": record.get("id"), "at": record.get("at"), "by": record.get("by"), "backup": record.get("backup")}
    return " ".join([str(record["kind"]), *(f"{name} {value}" for name, value in said.items() if value)])


def _line(record: dict[str, Any]) -> str:
    """The record as a line that is read as a whole: where it quotes long texts, cursors above all, they are shortened.
    The document and its backups have them in full."""
    line = json.dumps(record, ensure_ascii=False)
    if len(line) > LONGEST_LINE:
        line = json.dumps(_with_few_rows(_shortened(record)), ensure_ascii=False)
    if len(line) > LONGEST_LINE:
        short = {name: value for name, value in _shortened(record).items() if not isinstance(value, dict | list)}
        line = json.dumps(short, ensure_ascii=False)
    return line


def _with_few_rows(record: dict[str, Any]) -> dict[str, Any]:
    """A change names the rows that it unlisted; the document that it changed, and its backup, have all of them."""
    after = record.get("after")
    if not isinstance(after, dict):
        return record
    ids = after.get("unlisted")
    if not isinstance(ids, list) or len(ids) <= MOST_IDS:
        return record
    return {**record, "after": {**after, "unlisted": ids[:MOST_IDS], "unlisted_in_all": len(ids)}}


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}..."
    if isinstance(value, dict):
        return {name: _shortened(inner) for name, inner in value.items()}
    return [_shortened(inner) for inner in value] if isinstance(value, list) else value
