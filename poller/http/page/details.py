"""What a poller's page says beyond its health, read from the store and put into words: never from a database.

What is not taken out here cannot be shown: no row, no key, no cursor, no address, no setting, and of an error its type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from poller.admin.history import HistoryRecord, read_history
from poller.admin.wired import WiredPoller, operator_of
from poller.errors import StateCorrupt, StoreError
from poller.http.page.words import When, number, when
from poller.journal.quarantine.reader import RecordReader
from poller.lease.state_file import Copy
from poller.model import aside
from poller.model.changes import kept_by
from poller.model.document import State, WaitingRow
from poller.model.escape import LONGEST_SENTENCE, cut
from poller.model.history_entry import HistoryEntry
from poller.model.redact import redact

MOST_ROWS = 20
"""So many of the rows that failed are shown, the oldest; of each a record is read."""
MOST_CHANGES = 20
"""So many records of the audit trail are shown, the newest."""
_BY_PEOPLE = frozenset(
    {
        *("pause", "resume", "cancel", "undo", "rebind", "import", "recheck", "clone-checkpoint"),
        *("reset-to-beginning", "reset-to-cursor", "reset-to-checkpoint"),
        *("quarantine add", "quarantine discard", "quarantine replay"),
    }
)
"""Changes whose reason a person has typed. That of a halt, a worker's, names a row by its key and quotes its error."""


@dataclass(frozen=True, slots=True)
class ShownLease:
    """The lease at the last look. `state`: whether a worker is at work, in a sentence."""

    state: str
    owner: str | None
    token: str
    since: When | None
    heartbeat: When | None
    expires: When | None


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that failed and waits.

    Attributes:
        id: a hash. error_type: of its last failure; None if that is not known.
    """

    id: str
    waits_for: str
    since: When | None
    failures: str
    next_try: str
    error_type: str | None


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A record of the audit trail."""

    kind: str
    by: str | None
    at: When | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What the store says of one poller.

    Attributes:
        now: by the store's clock. wrong: why the document was not read, in a sentence; then little else is known.
        exists: it has a document. paused, halted: as the document says now. lease: None where nothing is known of it.
        slots: the last ones, oldest first.
        rows: the first of those that failed, `waiting` of them in all; those without a type have no readable record.
        changes: newest first; None if the trail cannot be read.
    """

    now: datetime
    wrong: str | None = None
    exists: bool = False
    paused: bool = False
    halted: bool = False
    lease: ShownLease | None = None
    slots: Sequence[HistoryEntry] = ()
    rows: Sequence[FailedRow] = ()
    waiting: int = 0
    changes: Sequence[ShownChange] | None = ()


class DetailReader:
    """Reads the details of one poller. One call at a time.

    Args:
        poller: whose source is not used.
    """

    def __init__(self, poller: WiredPoller) -> None:
        self._poller = poller
        self._operator = operator_of(poller, "page")
        self._types: dict[tuple[str, int], str | None] = {}
        """By id and number of failures: a record changes with its row's next failure."""

    def __call__(self) -> Details:
        """Raises: StoreUnavailable, StoreDenied."""
        file = self._operator.file
        try:
            copy = file.read() or file.read_unless_deleted()
        except StateCorrupt:
            now, wrong = file.clock.now(), "Its state document cannot be read."
            return Details(now=now, wrong=wrong, exists=True, changes=self._changes(now))
        if copy is None:
            now = file.clock.now()
            return Details(now=now, changes=self._changes(now))
        return self._of(copy, copy.server_time or file.clock.now())

    def _of(self, copy: Copy, now: datetime) -> Details:
        state = copy.state
        waiting = [*_listed(aside.after_reset(state))]
        return Details(
            now=now,
            exists=True,
            paused=state.control.paused,
            halted=state.control.halted,
            lease=self._lease(copy, now),
            slots=[one.model_copy(update={"owner": _told(one.owner) or ""}) for one in state.history],
            rows=self._rows(waiting[:MOST_ROWS], now),
            waiting=len(waiting),
            changes=self._changes(now),
        )

    def _lease(self, copy: Copy, now: datetime) -> ShownLease:
        lease, keeper = copy.state.lease, _told(kept_by(copy.state))
        if copy.availability(self._poller.options.timing, self._poller.runtime.monotonic()).free:
            state = "Free: no worker holds it"
        elif keeper is not None:
            state = f"Kept for {keeper}: no worker starts"
        else:
            state = "A worker is at work"
        return ShownLease(
            state=state,
            owner=_told(lease.owner_id),
            token=number(lease.fencing_token),
            since=when(lease.acquired_at, now),
            heartbeat=when(lease.heartbeat_at, now),
            expires=when(lease.expires_at, now),
        )

    def _rows(self, waiting: Sequence[tuple[WaitingRow, bool]], now: datetime) -> list[FailedRow]:
        types = self._types_of([row for row, _ in waiting])
        return [
            FailedRow(
                id=row.id,
                waits_for="a person" if person else "its next try",
                since=when(row.since, now),
                failures=number(row.failures),
                next_try="none automatically" if person else _next_try(row, now),
                error_type=types.get((row.id, row.failures)),
            )
            for row, person in waiting
        ]

    def _types_of(self, rows: Sequence[WaitingRow]) -> Mapping[tuple[str, int], str | None]:
        """The error types of the last failure of each row. A record that cannot be read hides no other."""
        wanted = {(row.id, row.failures) for row in rows}
        known = {one: type_ for one, type_ in self._types.items() if one in wanted}
        missing = [one for one in wanted if one not in known]
        if missing:
            poller = self._poller
            reader = RecordReader(
                poller.store,
                app_name=poller.app_name,
                poller_name=poller.name,
                runtime=poller.runtime,
                timing=poller.options.timing,
            )
            try:
                records = reader.records([id_ for id_, _ in missing])
            except StoreError:
                return known
            for id_, failures in missing:
                record = records.get(id_)
                if record is not None and not isinstance(record, StateCorrupt):
                    known[id_, failures] = None if record.error is None else _told(record.error.type)
        self._types = known
        return known

    def _changes(self, now: datetime) -> list[ShownChange] | None:
        try:
            records = read_history(self._operator, MOST_CHANGES).records
        except StoreError:
            return None
        return [_change(one, now) for one in reversed(records)]


def _told(text: str | None) -> str | None:
    """A text from outside: without secrets of known shapes, and cut."""
    return None if text is None else cut(redact(text[:LONGEST_SENTENCE]))


def _listed(state: State) -> Iterator[tuple[WaitingRow, bool]]:
    """Those that wait for a person first."""
    yield from ((row, True) for row in state.quarantine)
    yield from ((row, False) for row in state.aside)


def _next_try(row: WaitingRow, now: datetime) -> str:
    """When a row is tried again automatically. One `behind` follows an earlier row of its ordering key."""
    if row.behind:
        return "after the row before it"
    retry = when(row.retry_at, now)
    return retry.age if retry is not None and retry.age.startswith("in ") else "now"


def _change(record: HistoryRecord, now: datetime) -> ShownChange:
    """A reason may quote a secret."""
    reason = redact(record.reason) if record.reason is not None and record.kind in _BY_PEOPLE else None
    return ShownChange(_told(record.kind) or "", _told(record.by), when(record.at, now), reason)
