"""Putting a state document back where there is none, or none that can be read (protocol 12).

It is not known whether a worker still trusts the document that is gone: so the lease is kept under the operator's name
for a full ttl, and the fencing token goes on above every one that left a trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from poller.admin.editor import Applied, Operator
from poller.errors import StateCorrupt, StoreError
from poller.journal.quarantine.reader import RecordReader
from poller.lease.state_file import Conflict, Copy
from poller.model.changes import Transition
from poller.model.changes import keep as keep_for
from poller.model.document import VERSION, OperatorChange, State, decode
from poller.model.limits import HIGHEST_TOKEN, NotBoundedJson, read_json
from poller.ports import Found

RECORDS_SEARCHED = 1000
"""So many of the newest audit records are searched for the highest token."""
BACKUPS_SEARCHED = 20


class Recovery:
    """A document of one poller that is missing or unreadable.

    Attributes:
        body: the bytes that are there, None if there are none.
        existed: whether the poller had a document before.
        highest_token, highest_generation: the highest fencing token, and generation of a checkpoint, that left a trace:
            in those bytes, the audit trail, the backups, the records of rows.
    """

    def __init__(self, operator: Operator) -> None:
        """Look. Raises: StateCorrupt (a newer version's document: it is never overwritten), StoreError (it is there
        and can be read)."""
        self._operator = operator
        file = operator.file
        self._found = file.store.read(file.name, timeout=file.timing.attempt)
        self.body = self._found.body if isinstance(self._found, Found) else None
        if _version(self.body) > VERSION:
            raise StateCorrupt(
                f"The {file.location} has version {_version(self.body)}; this poller writes version {VERSION}.",
                document=file.name,
                next_step="Upgrade poller on this machine; the document was left as it is.",
                what="newer",
            )
        if self.body is not None and _readable(self.body, file.name, file.poller_name):
            raise StoreError(
                f"The {file.location} can be read again: another put it back meanwhile.",
                document=file.name,
                next_step=f"Nothing was changed. Look at it: poller status {file.poller_name}",
            )
        self.existed = self.body is not None or next(file.traces(), None) is not None
        found = list(self._counts()) if self.existed else []
        self.highest_token = max((token for token, _ in found), default=0)
        self.highest_generation = max((generation for _, generation in found), default=0)

    def apply(
        self, kind: str, start: State, transition: Transition, *, keep: bool = True, undid: str | None = None
    ) -> Applied:
        """Write what `transition` makes of `start` in the place of the bytes that were looked at, which are kept as a
        backup. Not `keep`: the lease is free at once, since the document never existed. `undid`: for the record, which
        change it takes back.

        Raises: StoreError, also where the document was changed meanwhile.
        """
        operator, file = self._operator, self._operator.file
        runtime, found = file.runtime, self._found
        kept = None if self.body is None else operator.back_up(self.body)
        base = None
        if isinstance(found, Found):
            now = runtime.monotonic()
            base = Copy(start, found.body, found.tag, found.server_time, found.modified_at, now, now)
        held = operator.keeps_for(start.lease) if keep else 0.0

        def kept_free(state: State, change: OperatorChange, now: datetime) -> State:
            after = transition(state, change, now)
            return keep_for(after, change, ttl=held, now=now) if held else after

        write = operator.recorded(kind, kept_free, runtime.new_id(), {"backup": kept, "undid": undid})
        try:
            after = file.write(base, write, deadline=runtime.monotonic() + file.timing.tenure, create=start).state
        except Conflict as changed:
            raise StoreError(
                f"The {file.location} was changed by another while this tried to.",
                document=file.name,
                next_step="Nothing was changed. Look at it again: poller status " + file.poller_name,
            ) from changed
        made = after.control.last_change
        assert made is not None  # noqa: S101 - recorded() wrote it
        operator.copy_to_trail(made)
        return Applied(
            before=None,
            after=after,
            change=made,
            backup=kept,
            losses=0,
            held=held + file.timing.margin if held else 0.0,
        )

    def _counts(self) -> Iterator[tuple[int, int]]:
        """Fencing tokens and generations, wherever they stand."""
        store, operator, file = self._operator.store, self._operator, self._operator.file
        yield _counts_in(self.body)
        for record in operator.audit.entries(limit=RECORDS_SEARCHED):
            for part in (record.get("before"), record.get("after")):
                if isinstance(part, dict):
                    yield _count(part, "fencing_token"), _count(part, "generation")
        for name in list(store.names(operator.backups))[-BACKUPS_SEARCHED:]:
            found = store.read(name)
            if isinstance(found, Found):
                yield _counts_in(found.body)
        names = {"app_name": file.app_name, "poller_name": file.poller_name}
        records = RecordReader(store, **names, runtime=file.runtime, timing=file.timing, clock=file.clock)
        for row in records.records().values():
            if not isinstance(row, StateCorrupt):
                yield min(row.fencing_token, HIGHEST_TOKEN), min(row.generation, HIGHEST_TOKEN)


def _parsed(body: bytes | None) -> dict[str, Any]:
    try:
        data = read_json(body or b"")
    except NotBoundedJson:
        return {}
    return data if isinstance(data, dict) else {}


def _readable(body: bytes, name: str, poller_name: str) -> bool:
    try:
        decode(body, location=name, poller_name=poller_name)
    except StateCorrupt:
        return False
    return True


def _version(body: bytes | None) -> int:
    version = _parsed(body).get("version")
    return version if isinstance(version, int) and not isinstance(version, bool) else 0


def _counts_in(body: bytes | None) -> tuple[int, int]:
    """The fencing token and the generation of a document's bytes."""
    data = _parsed(body)
    lease, checkpoint = data.get("lease"), data.get("checkpoint")
    return (
        _count(lease, "fencing_token") if isinstance(lease, dict) else 0,
        _count(checkpoint, "generation") if isinstance(checkpoint, dict) else 0,
    )


def _count(part: dict[str, Any], name: str) -> int:
    """One that no worker can have had is not one: what goes on above it could not grow."""
    count = part.get(name)
    if not isinstance(count, int) or isinstance(count, bool):
        return 0
    return count if 0 <= count <= HIGHEST_TOKEN else 0
