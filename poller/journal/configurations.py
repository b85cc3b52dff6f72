"""Which configurations work under one name, so that two apps that were given one `app_name` by mistake are noticed.

They take each other's leases and, with `[functions] mode = "queue"`, each other's messages. A dispatcher, a
`poller run` and the timers of a file say by a hint, `configurations/{app}/{digest}.json`, which configuration they
have: all processes of one configuration share it, and one of them renews it every five minutes. A deployment has two
for a while, so two are noticed only when both were renewed 15 minutes after the later one came. A hint that was not
renewed for 12 minutes is of one that works no longer. Ages are differences of the store's own times.

Nothing rests on hints: a wrong one is a warning too many, or one that is missing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from poller.config import AppConfig
from poller.config.types import is_name
from poller.errors import StoreDenied, StoreError, WriteConflict
from poller.model.limits import read_json
from poller.model.stamps import stamp
from poller.observability import PollerEvent, TwoApps
from poller.ports import Found, Runtime, StateStore

logger = logging.getLogger("poller")

RENEW = timedelta(minutes=5)
TOGETHER = timedelta(minutes=15)
"""A deployment that takes longer is taken for two apps."""
GONE = timedelta(minutes=12)
FORGOTTEN = timedelta(days=1)
"""A hint that was not renewed during that time is removed."""
MOST_NAMES, MOST_HINTS, MOST_LISTED, LARGEST = 500, 20, 1_000, 100_000
"""Pollers that a hint names; hints that are read beside the own one; documents that are listed for them; bytes of a
hint."""

_DIGEST = re.compile("[0-9a-f]{32}")
_ROWS = {"schema_name", "table", "query", "cursor_column", "pk_columns", "filter"}


@dataclass(frozen=True, slots=True)
class Hint:
    """A configuration that works. `since`: since when it is renewed; `renewed`: when it was last; `pollers`: its first
    `MOST_NAMES`."""

    digest: str
    since: datetime
    renewed: datetime
    pollers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """Other configurations that work beside ours: since when they do, and which pollers only they have."""

    app_name: str
    since: datetime
    only_there: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What is wrong."""
        few = ", ".join(self.only_there[:5]) + (", ..." if len(self.only_there) > 5 else "")
        pollers = f"; only that one has {few}" if few else ""
        return (
            f"Another configuration has worked under the name {self.app_name} beside this one since "
            f"{stamp(self.since)}{pollers}."
        )

    next_step = (
        "If it is another app, give one of them another app_name; if it is the same, deploy one configuration to all "
        "of its processes."
    )


def digest_of(config: AppConfig) -> str:
    """What distinguishes a configuration: its pollers, their handlers, and which rows they read. No secret."""
    pollers = {
        name: [
            own.handler,
            own.source.model_dump(mode="json", include=_ROWS, exclude_none=True),
        ]
        for name, own in config.pollers.items()
    }
    return hashlib.sha256(json.dumps(pollers, sort_keys=True, default=str).encode()).hexdigest()[:32]


class Configurations:
    """The configurations of one app, as a process of one of them sees them. Used by one thread at a time."""

    def __init__(self, store: StateStore, config: AppConfig, runtime: Runtime) -> None:
        self._store = store
        self._app_name = config.app_name
        self._prefix = f"configurations/{config.app_name}/"
        self._digest = digest_of(config)
        self._pollers = tuple(sorted(config.pollers))
        self._runtime = runtime
        self._next = float("-inf")
        self._reported: Beside | None = None

    def due(self) -> bool:
        """True if it is time for `keep`."""
        return self._runtime.monotonic() >= self._next

    def keep(self, emit: Callable[[PollerEvent], None]) -> None:
        """Renew the hint if no process of this configuration did, and emit an event if another works beside it: once
        until that ends. Raises nothing."""
        self._next = self._runtime.monotonic() + self._runtime.jitter(0.8, 1.0) * RENEW.total_seconds()
        try:
            self._renew()
            found = self.beside()
        except StoreError as error:
            logger.info("Whether another configuration works under this name is not known: %s", error)
            return
        if found is not None and self._reported is None:
            emit(
                TwoApps(
                    poller=self._pollers[0],
                    at=self._runtime.utcnow(),
                    app=self._app_name,
                    since=found.since,
                    only_there=list(found.only_there),
                    error=f"{found.sentence} {found.next_step}",
                )
            )
        self._reported = found

    def beside(self) -> Beside | None:
        """The others, if any works beside this one for longer than a deployment takes. Writes nothing.

        Raises: StoreUnavailable, StoreDenied.
        """
        hints = {one.digest: one for one in self._hints()}
        ours = hints.pop(self._digest, None)
        if ours is None:
            return None
        began = [(one, max(one.since, ours.since)) for one in hints.values()]
        others = [(one, since) for one, since in began if min(one.renewed, ours.renewed) - since >= TOGETHER]
        if not others:
            return None
        known = set(self._pollers)
        there = {name for one, _ in others for name in one.pollers if name not in known}
        return Beside(self._app_name, min(since for _, since in others), tuple(sorted(there)))

    def _renew(self) -> None:
        name = self._name(self._digest)
        found = self._store.read(name)
        now = found.server_time
        if now is None:  # a store without a clock: ages are not known
            return
        hint, tag = None, None
        if isinstance(found, Found):
            hint, tag = self._parsed(self._digest, found), found.tag
            if hint is not None and now - hint.renewed < RENEW * 0.8:
                return
        since = now if hint is None or now - hint.renewed >= GONE else hint.since
        said = {"v": 1, "since": stamp(since), "pollers": self._pollers[:MOST_NAMES]}
        with suppress(WriteConflict):  # another process of this configuration did
            self._store.write(name, json.dumps(said).encode(), if_tag=tag)

    def _hints(self) -> list[Hint]:
        """Of configurations that work."""
        listed = map(self._digest_in, islice(self._store.names(self._prefix), MOST_LISTED))
        others = (digest for digest in listed if digest is not None and digest != self._digest)
        alive = []
        for digest in [self._digest, *islice(others, MOST_HINTS)]:
            name = self._name(digest)
            found = self._store.read(name)
            if not isinstance(found, Found) or found.server_time is None or found.modified_at is None:
                continue
            age = found.server_time - found.modified_at
            if age >= FORGOTTEN:
                self._forget(name, found.tag)
            hint = self._parsed(digest, found)
            if hint is not None and age < GONE:
                alive.append(hint)
        return alive

    def _name(self, digest: str) -> str:
        return f"{self._prefix}{digest}.json"

    def _digest_in(self, name: str) -> str | None:
        """The digest in the name of a hint; None for another document, which is left alone."""
        digest = name.removeprefix(self._prefix).removesuffix(".json")
        return digest if _DIGEST.fullmatch(digest) and name == self._name(digest) else None

    def _forget(self, name: str, tag: str) -> None:
        with suppress(WriteConflict, StoreDenied):
            self._store.remove(name, if_tag=tag)

    @staticmethod
    def _parsed(digest: str, found: Found) -> Hint | None:
        """What a hint says; None if it is not ours to read."""
        try:
            said = read_json(found.body, LARGEST)
            if not isinstance(said, dict) or said["v"] != 1 or found.modified_at is None:
                return None
            since = datetime.fromisoformat(said["since"])
            names = tuple(name for name in said["pollers"][:MOST_NAMES] if isinstance(name, str) and is_name(name))
            return Hint(digest, min(since, found.modified_at), found.modified_at, names)
        except (ValueError, TypeError, LookupError):
            return None
