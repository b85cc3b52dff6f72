"""The state documents of an app, as the last LIST has them. A document is read again when its tag is another, and then
only once it rests: one that changed since the LIST before is being worked on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from poller.errors import StateCorrupt, StoreError
from poller.lease.server_clock import ServerClock
from poller.model import transitions
from poller.model.document import State, decode
from poller.model.expiry import availability
from poller.model.timing import Timing
from poller.ports import Found, ListingStore, Missing, Runtime, StateStore, unquoted

logger = logging.getLogger("poller")

AT_ONCE = 16
"""So many documents are read side by side: a process that starts reads all of them."""


@dataclass(frozen=True, slots=True)
class Known:
    """A document as it was read.

    Attributes:
        tag: unquoted. state: None if it is not readable. server_time, modified_at: as of `ports.Found`. at: when it
            was read, on the runtime's monotonic clock.
    """

    tag: str
    state: State | None
    server_time: datetime | None
    modified_at: datetime | None
    at: float

    def is_free(self, timing: Timing, now: float) -> bool:
        """True if its lease may be taken now: judged by the server's two times at the read, and what passed here
        since."""
        if self.state is None:
            return True
        passed = timedelta(seconds=max(0.0, now - self.at))
        return availability(
            self.state.lease,
            server_time=None if self.server_time is None else self.server_time + passed,
            modified_at=self.modified_at,
            unchanged_for=passed.total_seconds(),
            timing=timing,
        ).free

    def rested(self, now: float) -> float:
        """The seconds for which the document has not changed, for all that is known."""
        at_the_read = 0.0
        if self.server_time is not None and self.modified_at is not None:
            at_the_read = (self.server_time - self.modified_at).total_seconds()
        return max(0.0, at_the_read) + max(0.0, now - self.at)


Look = Literal["missing", "moving", "unread"]
"""Why there is nothing to judge: there is no document; it changed since the LIST before, so a worker is at work; it
could not be read."""


class Documents:
    """What is known of the documents of some pollers.

    Args:
        app_name: of the app. pollers: whose documents count; others (of backfills, of pollers that are not configured)
            are passed over.
    """

    def __init__(self, store: StateStore, app_name: str, pollers: Iterable[str], runtime: Runtime) -> None:
        if not isinstance(store, ListingStore):
            raise TypeError("this store has no listing")
        self._store = store
        self._listing: ListingStore = store
        self._prefix = f"state/{app_name}/"
        self._names = {f"{self._prefix}{poller}.json": poller for poller in pollers}
        self._runtime = runtime
        self.clock = ServerClock(runtime)
        self._listed: dict[str, str] | None = None
        """Tags at the last LIST, by poller; None before the first one."""
        self._modified: dict[str, datetime | None] = {}
        self._known: dict[str, Known] = {}
        self._looks: dict[str, Look] = {}
        self.reads = 0
        """The number of documents that the last look read."""

    def of(self, poller: str) -> Known | Look:
        """What is known of the poller's document."""
        return self._looks.get(poller) or self._known[poller]

    def tag(self, poller: str) -> str | None:
        """The tag of what is known of the document, which may be newer than the last LIST; None if there is none."""
        look = self.of(poller)
        return look.tag if isinstance(look, Known) else (self._listed or {}).get(poller)

    def is_old(self, poller: str) -> bool:
        """True if the last LIST says that the document was not written for a week."""
        modified_at = self._modified.get(poller)
        return modified_at is not None and self.clock.now() - modified_at >= transitions.WEEK

    def look(self) -> None:
        """One LIST, and one GET of each document that changed and rests now. Raises: StoreUnavailable, StoreDenied."""
        listed = {}
        for one in self._listing.listed(self._prefix):
            poller = self._names.get(one.name)
            if poller is not None:
                listed[poller] = one.tag
                self._modified[poller] = one.modified_at
        before, self._listed = self._listed, listed
        self._looks, to_read = {}, []
        for poller in self._names.values():
            tag, known = listed.get(poller), self._known.get(poller)
            if tag is None:
                self._known.pop(poller, None)
                self._looks[poller] = "missing"
            elif known is not None and known.tag == tag:
                continue
            elif before is not None and before.get(poller) != tag:
                self._looks[poller] = "moving"
            else:
                to_read.append(poller)
        self._read(to_read)

    def _read(self, pollers: list[str]) -> None:
        self.reads = len(pollers)
        if len(pollers) < 2:
            found = list(map(self._one, pollers))
        else:
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="poller-dispatch") as pool:
                found = list(pool.map(self._one, pollers))
        for poller, one in zip(pollers, found, strict=True):
            if isinstance(one, Known):
                self._known[poller] = one
            else:
                self._looks[poller] = one

    def _one(self, poller: str) -> Known | Look:
        name, sent = f"{self._prefix}{poller}.json", self._runtime.monotonic()
        try:
            found = self._store.read(name)
        except StoreError as error:
            logger.warning("dispatch: %s", error)
            return "unread"
        arrived = self._runtime.monotonic()
        self.clock.saw(found.server_time, sent)
        if isinstance(found, Missing):
            return "missing"
        if not isinstance(found, Found):
            return "unread"
        return Known(
            unquoted(found.tag), _state(found, poller, name, self._store.locate), found.server_time, found.modified_at,
            arrived,
        )  # fmt: skip


def _state(found: Found, poller: str, name: str, locate: Callable[[str], str]) -> State | None:
    """What it says, without what no caller asks here: a process keeps all of them."""
    try:
        state = decode(found.body, location=locate(name), document=name, poller_name=poller)
    except StateCorrupt:
        return None  # the worker says what is wrong
    return state.model_copy(update={"write_ids": (), "bound": _kind(state.bound)})


def _kind(bound: Mapping[str, object] | None) -> dict[str, object] | None:
    return None if bound is None else {"kind": bound.get("kind")}
