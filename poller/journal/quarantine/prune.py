"""Removing the records of rows that were settled long enough."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta

from poller.errors import StateCorrupt, WriteConflict
from poller.journal.quarantine.reader import RecordReader
from poller.journal.quarantine.record import QuarantineRecord
from poller.ports import Found

PRUNE_EVERY = 3600.0
"""Seconds from one pruning to the next."""
LOOKED_AT_ONCE = 200
"""So many records are read by one pruning at most; the others' turn comes with the next."""
STRAY_FOR = timedelta(days=1)
"""For so long at least a record that nothing lists is kept: its row may be about to be listed."""


class Pruner:
    """Removes records of one poller. An interrupted run is continued by the next one.

    Args:
        ttl: how long a settled record is kept.
    """

    def __init__(self, records: RecordReader, ttl: timedelta) -> None:
        self._records = records
        self._ttl = ttl
        self._runtime = records.runtime
        self._pruned: float | None = None
        self._kept_until: dict[str, float] = {}
        """The moment until which, on the runtime's monotonic clock, a record need not be looked at."""

    def is_due(self) -> bool:
        """True if an hour has passed since the last pruning of this process."""
        return self._pruned is None or self._runtime.monotonic() - self._pruned >= PRUNE_EVERY

    def prune(self, listed: Collection[str], *, check: Callable[[], None]) -> int:
        """Remove records that were settled longer ago than the ttl, and those that waited so long (a day at least) and
        are not listed: a stale owner left them. How many were removed.

        A record that is opened meanwhile has another tag, and stays. One that cannot be read stays, too.

        Args:
            listed: the ids that the document lists, aside or pending; they stay, whatever their records say.
            check: called before each removal; raises where the lease is over, so that `listed` no longer counts.

        Raises: StoreUnavailable, StoreDenied; what `check` raises.
        """
        self._pruned = self._runtime.monotonic()
        ids = self._records.ids()
        known = set(ids)
        self._kept_until = {id_: until for id_, until in self._kept_until.items() if id_ in known}
        wanted = [id_ for id_ in ids if id_ not in listed and self._kept_until.get(id_, 0.0) <= self._pruned]
        removed = 0
        for id_ in wanted[:LOOKED_AT_ONCE]:
            removed += self._removed(id_, check)
        return removed

    def _removed(self, id_: str, check: Callable[[], None]) -> bool:
        found = self._records.found(id_)
        if found is None:
            return False
        try:
            record = self._records.decoded(id_, found.body)
        except StateCorrupt:
            self._kept_until[id_] = self._runtime.monotonic() + 24 * PRUNE_EVERY
            return False
        left = (max(self._ttl, STRAY_FOR) if record.waits else self._ttl) - self._age(record, found)
        if left > timedelta(0):
            self._kept_until[id_] = self._runtime.monotonic() + left.total_seconds()
            return False
        check()
        try:
            self._records.store.remove(self._records.name(id_), if_tag=found.tag, timeout=self._records.timing.attempt)
        except WriteConflict:
            return False  # it was opened again, or removed by another
        return True

    def _age(self, record: QuarantineRecord, found: Found) -> timedelta:
        """The time since it was changed: by the store's two times if it has them, which no client can write."""
        now, at = found.server_time, found.modified_at
        if now is None or at is None:
            now, at = self._records.clock.now(), record.updated_at
        return timedelta(0) if at is None else now - at
