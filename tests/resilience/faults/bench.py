"""A real state file and real tenures over a `BlobStore` that speaks through the proxy, and the truth behind it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from poller.errors import StoreUnavailable
from poller.lease import Copy, StateFile, Tenure
from poller.model import transitions
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError, State, decode
from poller.model.timing import Timing
from poller.observability import Emitter, PollerEvent
from poller.ports import Found, Runtime, StateStore, Timeout
from poller.runtime import SystemRuntime
from poller.stores import BlobStore
from tests.resilience.faults.proxy import FaultProxy
from tests.support.azurite import Azurite
from tests.support.documents import SOURCE, hold_to_schemas

NAME = "state/shop/orders.json"
PATIENT = Timeout(connect=30, read=30)
"""For a request whose answer a test waits for, however slow the machine is."""


class Unhurried(Timing):
    """A lease that no slow machine lets run out, with the short attempts of one of 6 s: silence costs a second."""

    __slots__ = ()

    @property
    def attempt(self) -> Timeout:
        """See `Timing.attempt`."""
        return Timing(ttl=6, heartbeat=1.5).attempt


class Brisk(SystemRuntime):
    """The real runtime, with a tenth of the pause before each resend: faults are injected by the dozen."""

    def jitter(self, low: float, high: float) -> float:
        return super().jitter(low, high) / 10


class Passing(Brisk):
    """And with time that a test lets pass."""

    def __init__(self) -> None:
        super().__init__()
        self._passed = 0.0

    def passes(self, seconds: float) -> None:
        """So much later it is from now on."""
        self._passed += seconds

    def monotonic(self) -> float:
        return super().monotonic() + self._passed


def cursor(number: int) -> Cursor:
    return Cursor(kind="timestamp+pk", value="2026-04-01T00:00:00.000000Z", tiebreaker={"id": number})


FAILURE = DeliveryError(type="ValueError", message="no", batch_id="batch_1")


def _read(file: StateFile) -> Copy | None:
    """As the next ticks would where a read does not come through: a machine may be busy for a second or more."""
    for _ in range(30):
        with contextlib.suppress(StoreUnavailable):
            return file.read()
    return file.read()


@dataclass
class Bench:
    """One document behind the proxy, in a blob, in a table, or in what `open_at` opens at an address (`address`: past
    the proxy). `file` and `tenure` make more users of it; each has a memory of its own. `ttl`: of the lease, if a test
    is about its end."""

    azurite: Azurite | None
    proxy: FaultProxy
    container: str
    ttl: float | None = None
    events: list[PollerEvent] = field(default_factory=list)
    tables: bool = False
    open_at: Callable[[str], StateStore] | None = None
    address: str = ""
    stores: dict[bool, StateStore] = field(default_factory=dict)

    def store(self, *, direct: bool = False) -> StateStore:
        """Through the proxy, or past it. One of each: clients take time to make, and nothing is remembered in them."""
        if direct not in self.stores:
            self.stores[direct] = self._open(direct)
        return self.stores[direct]

    def _open(self, direct: bool) -> StateStore:
        if self.open_at is not None:
            return self.open_at(self.address if direct else f"http://127.0.0.1:{self.proxy.port}")
        return self._table(direct) if self.tables else self._blobs(direct)

    def _blobs(self, direct: bool) -> StateStore:
        assert self.azurite is not None
        speaks_to = self.azurite if direct else self.proxy
        return BlobStore.from_connection_string(speaks_to.connection_string, self.container)

    def _table(self, direct: bool) -> StateStore:
        from poller.stores import TableStore

        assert self.azurite is not None
        speaks_to = self.azurite.connection_string_with_tables
        if not direct:
            speaks_to = self.azurite.tables_via(self.proxy.endpoint)
        return TableStore.from_connection_string(speaks_to, self.container)

    def file(self, *, direct: bool = False, runtime: Runtime | None = None) -> StateFile:
        return StateFile(
            self.store(direct=direct),
            app_name="shop",
            poller_name="orders",
            runtime=runtime or Brisk(),
            timing=Timing(self.ttl, self.ttl / 4) if self.ttl else Unhurried(ttl=600, heartbeat=150),
            emit=Emitter([self.events.append]),
        )

    def acquire(self, file: StateFile | None = None, owner: str = "shop/first/1") -> Tenure:
        file = file or self.file()
        copy = _read(file)
        return Tenure.acquire(
            file, copy, owner_id=owner, source=SOURCE, start=None, takeover=False, emit=Emitter([self.events.append])
        )

    def truth(self) -> State:
        """The document as the server has it, held against its schema."""
        found = self.store(direct=True).read(NAME, timeout=PATIENT)
        assert isinstance(found, Found)
        hold_to_schemas([(NAME, found.body)])
        return decode(found.body, location=NAME)

    def emitted(self, name: str) -> int:
        """How many events of that name there were."""
        return sum(event.name == name for event in self.events)

    def close(self) -> None:
        for store in self.stores.values():
            store.close()


def commit(tenure: Tenure, to: Cursor, *, batch_id: str = "batch_1", release: bool) -> None:
    """The PUT after a call that did every row."""
    tenure.commit(
        lambda state, now: transitions.commit(
            state, cursor=to, batch_id=batch_id, metadata={}, release=release, now=now
        ),
        batch_id=batch_id,
        ends=release,
    )


def fail(tenure: Tenure) -> None:
    """The PUT after a call that failed as a whole."""

    def failed(state: State, now: datetime) -> State:
        released = transitions.release(state, give_back=False, now=now)
        return released.model_copy(update={"delivery": released.delivery.model_copy(update={"last_error": FAILURE})})

    tenure.put(failed, ends=True)
