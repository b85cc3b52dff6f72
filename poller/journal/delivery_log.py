"""What was delivered, for looking back: 8-byte hashes of (key, cursor) pairs in side documents of the store
(sources.md, "Rows that appear under the cursor").

`seen/{app_name}/{poller_name}/{hour}.jsonl`, one line per committed batch: the interval of the order that it covers and
the hashes of its rows. One document an hour, so that what lies before the window is simply not read; nothing here is
ever deleted (a lifecycle rule on `seen/` may). Best effort, in one thread beside the work and outside the budget of
requests: a record that is lost, also because the store is slower than the batches, makes its interval unknown, never
its rows late.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from poller.errors import StoreError
from poller.journal.background import BackgroundWriter
from poller.model.cursor import Cursor
from poller.model.limits import NotBoundedJson, read_json
from poller.model.stamps import stamp
from poller.observability import AuditFailed, Emitter
from poller.ports import Runtime, StateStore

WIDTH = 8
"""Bytes of a hash: among a million rows two share one with a chance of 1 in 37 million."""
ROWS_PER_LINE = 10_000
ROWS_WAITING = 20_000
"""The most rows whose records wait for a slow store (some 20 MB); what does not fit is lost."""
RECORD_COSTS = 20
"""The least number of rows that a record counts as."""


def hash_of(cursor: Cursor) -> bytes:
    """The hash of one version of one row: its cursor's text and its key."""
    key = json.dumps(cursor.tiebreaker, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(f"{cursor.value}\0{key}".encode(), digest_size=WIDTH).digest()


@dataclass(frozen=True, slots=True)
class Interval:
    """A part of the order within which every row was delivered that was there then.

    Attributes:
        low: exclusive (without a tiebreaker inclusive, as everywhere); None is the beginning. high: inclusive.
    """

    low: Cursor | None
    high: Cursor


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What the records of a window say: intervals, joined where one ends as the next begins, and the hashes of all rows
    that were delivered."""

    intervals: Sequence[Interval]
    hashes: frozenset[bytes]


class DeliveryLog:
    """Writes and reads the records of one poller. `window` None: it writes nothing."""

    def __init__(
        self,
        store: StateStore,
        *,
        app_name: str,
        poller_name: str,
        window: timedelta | None,
        runtime: Runtime,
        emit: Emitter,
    ) -> None:
        self.prefix = f"seen/{app_name}/{poller_name}/"
        self.window = window
        self._store = store
        self._poller = poller_name
        self._runtime = runtime
        self._emit = emit
        self._writer = BackgroundWriter(runtime, "poller-seen", room=ROWS_WAITING)

    def add(self, low: Cursor | None, cursors: Sequence[Cursor], *, covers: bool = True) -> None:
        """Record a batch from a thread beside the work. Returns at once and raises nothing.

        Args:
            low: where the batch began. cursors: one per row. covers: False for rows delivered out of their order.
        """
        if self.window is None or not cursors:
            return
        at = self._runtime.utcnow()

        def write() -> None:
            try:
                self.add_now(at, low, cursors, covers=covers)
            except StoreError as error:
                self._lost(error.message)

        if not self._writer.put(write, max(len(cursors), RECORD_COSTS)):
            self._lost("the store is slower than the batches, and no more records may wait.")

    def _lost(self, reason: str) -> None:
        error = f"what was delivered was not recorded for rechecks: {reason}"
        self._emit(AuditFailed(poller=self._poller, at=self._runtime.utcnow(), error=error))

    def add_now(self, at: datetime, low: Cursor | None, cursors: Sequence[Cursor], *, covers: bool) -> None:
        """Record a batch. Raises: StoreUnavailable, StoreDenied."""
        for begin in range(0, len(cursors), ROWS_PER_LINE):
            part = cursors[begin : begin + ROWS_PER_LINE]
            line: dict[str, Any] = {"at": stamp(at)}
            if covers:
                line["from"] = None if low is None else low.model_dump(mode="json")
                line["to"] = part[-1].model_dump(mode="json")
            line["hashes"] = base64.b64encode(b"".join(map(hash_of, part))).decode()
            self._store.append(f"{self.prefix}{at:%Y%m%d%H}.jsonl", json.dumps(line, ensure_ascii=False))
            low = part[-1]

    def read(self, since: datetime) -> Deliveries:
        """What was recorded since then. Raises: StoreUnavailable, StoreDenied."""
        intervals: list[Interval] = []
        ending: dict[str, int] = {}
        hashes: set[bytes] = set()
        for line in sorted(self._lines(since), key=lambda line: str(line["at"])):
            try:
                packed = base64.b64decode(line["hashes"])
                low = None if line.get("from") is None else Cursor.model_validate(line["from"])
                high = None if line.get("to") is None else Cursor.model_validate(line["to"])
            except (KeyError, ValueError, TypeError):
                continue  # cut short by a crash, or not ours: its interval is unknown
            hashes.update(packed[i : i + WIDTH] for i in range(0, len(packed), WIDTH))
            if high is None:
                continue
            joined = None if low is None else ending.pop(low.model_dump_json(), None)
            if joined is None:
                intervals.append(Interval(low, high))
                joined = len(intervals) - 1
            else:
                intervals[joined] = Interval(intervals[joined].low, high)
            ending[high.model_dump_json()] = joined
        return Deliveries(intervals, frozenset(hashes))

    def _lines(self, since: datetime) -> Iterator[dict[str, Any]]:
        first = f"{self.prefix}{since:%Y%m%d%H}.jsonl"
        for name in self._store.names(self.prefix):
            if name < first:
                continue
            for text in self._store.lines(name):
                try:
                    line = read_json(text.encode("utf-8", "replace"))
                except NotBoundedJson:
                    continue
                if isinstance(line, dict) and str(line.get("at", "")) >= stamp(since):
                    yield line

    def settle(self, seconds: float) -> None:
        """Wait for records under way, but no longer than this in all."""
        self._writer.settle(seconds)
