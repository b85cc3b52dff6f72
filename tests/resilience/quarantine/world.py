"""What the processes share: time, a table, a store with compare-and-swap, and a fenced target."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Literal, TypeAlias

from poller.model.aside import RowFacts
from poller.model.cursor import Cursor
from poller.model.document import Checkpoint, Lease, State
from poller.sinks.ledger import LedgerRow

EPOCH = datetime(2026, 4, 7, tzinfo=UTC)
TTL = 10.0
Kind: TypeAlias = Literal["ok", "bad", "named", "crash", "later", "reject", "rejects"]
Place: TypeAlias = tuple[int, int]
START: Place = (-1, -1)


def place(cursor: Cursor | None) -> Place:
    """A cursor as a place that compares."""
    if cursor is None:
        return START
    tiebreaker = cursor.tiebreaker or {}
    return int(cursor.value), int(tiebreaker.get("id", -1))


@dataclass(frozen=True)
class Version:
    """A row as it was written once: what the table holds of it until it is written again."""

    pk: int
    stamp: int
    key: str

    @cached_property
    def place(self) -> Place:
        return self.stamp, self.pk

    @cached_property
    def facts(self) -> RowFacts:
        cursor = Cursor(kind="integer+pk", value=str(self.stamp), tiebreaker={"id": self.pk})
        return RowFacts(id=f"{self.pk}@{self.stamp}", pk=str(self.pk), key=self.key, cursor=cursor)

    @property
    def id(self) -> str:
        return self.facts.id


class Table:
    """Rows by primary key. A row that is written again moves to the end; rows written together share a stamp."""

    def __init__(self, version: type[Version] = Version) -> None:
        self.rows: dict[int, Version] = {}
        self.history: dict[str, Version] = {}
        self.kinds: dict[int, Kind] = {}
        """What the handler does with a row, whichever version: until its data or the handler is put right."""
        self._stamp = 0
        self._version = version

    def write(self, pks: Sequence[int], key: Callable[[int], str]) -> None:
        """Insert or update rows in one transaction."""
        self._stamp += 1
        for pk in pks:
            version = self._version(pk, self._stamp, key(pk))
            self.rows[pk] = self.history[version.id] = version

    def delete(self, pk: int) -> None:
        self.rows.pop(pk, None)

    def kind(self, id_: str) -> Kind:
        """What the handler does with the row of this version."""
        return self.kinds.get(self.history[id_].pk, "ok")

    def page(self, after: Cursor | None, limit: int) -> list[Version]:
        """The rows behind a cursor, in order."""
        behind = place(after)
        return sorted((row for row in self.rows.values() if row.place > behind), key=lambda row: row.place)[:limit]


@dataclass
class Record:
    """What `quarantine/.../{id}.json` holds; `tag` changes with every write."""

    status: str
    token: int
    tag: int


@dataclass
class Target:
    """A table behind `poller.sinks.sql`: one fence, what was applied, and which version of each row it holds."""

    token: int = 0
    last: int = 0
    entries: list[LedgerRow] = field(default_factory=list)
    rows: dict[int, tuple[int, Place]] = field(default_factory=dict)
    times: Counter[tuple[int, str]] = field(default_factory=Counter)


class World:
    """Everything that outlives a process.

    Attributes:
        now: seconds; all clocks agree here, leases are proved elsewhere (tests/resilience/simulation).
        outage: until when what the handler calls is down.
        stalls: how likely a process is held up past its lease before it settles a record.
        violation: the first law that was broken.
        seen: how often what happened.
    """

    def __init__(self, seed: int, *, logged: bool = False) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.table = Table()
        self.target = Target()
        self.records: dict[str, Record] = {}
        self.state = State(poller_name="p", checkpoint=Checkpoint(), lease=Lease(released_at=EPOCH))
        self.tag = 0
        self.written_at = 0.0
        self.outage = 0.0
        self.stalls = 0.0
        self.violation: str | None = None
        self.seen: Counter[str] = Counter()
        self.log: list[str] | None = [] if logged else None
        self._tags = 0

    # --- time --------------------------------------------------------------------------------------------------------

    def moment(self) -> datetime:
        return EPOCH + timedelta(seconds=self.now)

    # --- the store ---------------------------------------------------------------------------------------------------

    def swap(self, tag: int, state: State) -> bool:
        """A conditional PUT of the state document."""
        if tag != self.tag:
            return False
        self.tag += 1
        self.written_at = self.now
        self.state = state
        return True

    def free(self) -> bool:
        """Whether the lease may be taken."""
        return self.state.lease.owner_id is None or self.now >= self.written_at + TTL + 2.0

    def write_record(self, id_: str, status: str, token: int, tag: int | None) -> bool:
        """Write a record under If-Match, with `tag` None under If-None-Match."""
        found = self.records.get(id_)
        if (None if found is None else found.tag) != tag:
            return False
        self._tags += 1
        self.records[id_] = Record(status, token, self._tags)
        return True

    # --- what is reported --------------------------------------------------------------------------------------------

    def say(self, who: str, what: str) -> None:
        if self.log is not None:
            self.log.append(f"{self.now:8.2f}  {who:<8} {what}")

    def fail(self, message: str) -> None:
        """A law is broken. The first one counts."""
        if self.violation is None:
            self.violation = message
            self.say("LAW", message)
