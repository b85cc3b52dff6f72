"""Reading the records of one poller: one by its id, or many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from poller.errors import StateCorrupt
from poller.journal.quarantine.record import QuarantineRecord, decode, is_id, name_of
from poller.lease.server_clock import ServerClock
from poller.model.timing import Timing
from poller.ports import Found, Runtime, StateStore

READ_AT_ONCE = 8
"""So many records are read at the same time."""


class RecordReader:
    """Reads the records of one poller. Safe to use from several threads.

    Args:
        clock: the store's; one of its own where None.
    """

    def __init__(
        self,
        store: StateStore,
        *,
        app_name: str,
        poller_name: str,
        runtime: Runtime,
        timing: Timing,
        clock: ServerClock | None = None,
    ) -> None:
        self.prefix = f"quarantine/{app_name}/{poller_name}/"
        self.store = store
        self.app_name = app_name
        self.poller_name = poller_name
        self.runtime = runtime
        self.timing = timing
        self.clock = clock or ServerClock(runtime)

    def read(self, id_: str) -> QuarantineRecord | None:
        """One record; None if there is none, or the id is not one.

        Raises: StateCorrupt, StoreUnavailable, StoreDenied.
        """
        found = self.found(id_) if is_id(id_) else None
        return None if found is None else self.decoded(id_, found.body)

    def ids(self) -> list[str]:
        """Ids of the records that there are, in order. Raises: StoreUnavailable, StoreDenied."""
        begin, end = len(self.prefix), -len(".json")
        found = (name[begin:end] for name in self.store.names(self.prefix) if name.endswith(".json"))
        return [one for one in found if is_id(one)]

    def records(self, ids: Sequence[str] | None = None) -> dict[str, QuarantineRecord | StateCorrupt]:
        """Records by id, of these ids or of all: several are read at a time, and one that cannot be read does not hide
        the others. Ids without a record are left out. Raises: StoreUnavailable, StoreDenied."""

        def look(id_: str) -> QuarantineRecord | StateCorrupt | None:
            try:
                return self.read(id_)
            except StateCorrupt as error:
                return error

        chosen = self.ids() if ids is None else list(dict.fromkeys(ids))
        if not chosen:
            return {}
        with ThreadPoolExecutor(max_workers=min(READ_AT_ONCE, len(chosen))) as pool:
            read = zip(chosen, pool.map(look, chosen), strict=True)
            return {id_: record for id_, record in read if record is not None}

    def name(self, id_: str) -> str:
        """A record's name in the store."""
        return name_of(self.app_name, self.poller_name, id_)

    def found(self, id_: str) -> Found | None:
        """What is in a record's place, by one GET. Raises: StoreUnavailable, StoreDenied."""
        sent = self.runtime.monotonic()
        answer = self.store.read(self.name(id_), timeout=self.timing.attempt)
        self.clock.saw(answer.server_time, sent)
        return answer if isinstance(answer, Found) else None

    def decoded(self, id_: str, body: bytes) -> QuarantineRecord:
        """The record with these bytes. Raises: StateCorrupt, NewerRecord."""
        location = self.store.locate(self.name(id_))
        return decode(body, app_name=self.app_name, poller_name=self.poller_name, id_=id_, location=location)
