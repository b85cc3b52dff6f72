"""The health of an application as its store keeps it: computed by one of those who ask, read by the others.

`health/{app_name}.json` holds the last result, what looks remember of each poller, and who computes now. Whoever finds
the result too old claims it by a compare-and-swap, looks at documents and databases, and writes the new one. The others
answer with the last result meanwhile, or wait for the new one where there is none. A claim counts for a limited time,
so that one who died is replaced. Nobody writes where nobody asks. Moments are the store's clock.

It is no state document: one that cannot be read is replaced, and one that is lost costs a look.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from poller import forks
from poller.admin.health import Health, PollerHealth, worst_first
from poller.admin.health_look import failed, judged
from poller.admin.health_round import Looks, WiredApp
from poller.admin.kept_document import Claim, KeptDocument, parsed, written
from poller.errors import StoreDenied, StoreError, StoreUnavailable, WriteConflict
from poller.lease.server_clock import ServerClock
from poller.model.health_memory import Seen
from poller.observability.otel import recorded
from poller.ports import Found, StateStore, Unchanged

CLAIM = 30.0
"""For so many seconds one who computes is believed to be alive, or for `LONGER` times as long as the last result took;
for as long a result that is too old still serves."""
LONGER = 2.0
WAIT = 10.0
"""How many seconds to wait for another's result where there is none that serves."""
WAIT_STEP = 0.5
SHARE = 4.0
"""A look that took long is not made anew before so many times as long: looking must not become what a process does."""
LONGEST_TOOK = 60.0
"""Seconds: where a look took longer, or is said to have, its result and a claim count as if it took this long: who can
write the document could else have an old result served for an hour."""
AHEAD = 5.0
"""Seconds: a result that seems to come from farther ahead is of a clock that went back since."""
_TRIES = 4


@dataclass(frozen=True, slots=True)
class _Version:
    """The document as it was read; without a tag where there is none."""

    document: KeptDocument
    tag: str | None


class KeptHealth:
    """Where the health of one application is asked for. Safe to call from several threads."""

    def __init__(self, app: WiredApp, looks: Looks | None = None) -> None:
        self._app = app
        self._looks = looks or Looks()
        self._clock = ServerClock(app.runtime)
        self._name = _document_of(app.app_name)
        self._known: _Version | None = None
        self._own: tuple[float, Health] | None = None
        """Until when it serves, and the result, where the store takes none."""
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """In a child process: another thread of the parent may have held a lock."""
        self._lock = threading.Lock()
        self._alone = threading.Lock()

    def compute(self, names: Sequence[str]) -> Health:
        """The health of these pollers now, and what the next looks need of this one kept. Raises: ConfigError, for a
        store that cannot be made."""
        try:
            found = self._read()
        except StoreDenied:
            found = _Version(KeptDocument(), None)
        except StoreError as error:
            return self._store_away(names, error)
        health, seen = self._look(names, found.document.seen)
        self._keep(found, seen, health if set(names) >= set(self._app.pollers) else None)
        return health

    def kept(self, max_age: float) -> Health:
        """The health of all pollers, at most about `max_age` seconds old. Raises as `compute`."""
        names = list(self._app.pollers)
        try:
            return self._kept(names, max_age)
        except StoreDenied:
            return self._unkept(names, max_age)
        except StoreError as error:
            return self._store_away(names, error)

    # ------------------------------------------------------------------------------------------------ who computes

    def _kept(self, names: Sequence[str], max_age: float) -> Health:
        """Raises: StoreError."""
        runtime = self._app.runtime
        until = runtime.monotonic() + WAIT
        while True:
            found = self._read()
            health = found.document.listed()
            age = None if health is None else self._age(health.computed_at)
            took = min(LONGEST_TOOK, found.document.took_seconds)
            fresh = _fresh_for(max_age, took)
            if health is not None and age is not None and age < fresh:
                return health
            claim = found.document.claim
            taken = None if claim is None else self._age(claim.at)
            believed = max(CLAIM, LONGER * took)
            if taken is None or taken > believed:
                mine = self._claim(found)
                if mine is not None:
                    return self._renew(mine, names)
                continue  # another was quicker: look again
            if health is not None and age is not None and age <= fresh + believed:
                return health
            if runtime.monotonic() >= until:
                return self._unknown(names)
            runtime.sleep(WAIT_STEP)

    def _claim(self, found: _Version) -> _Version | None:
        """The document with our claim; None where another was quicker. Raises: StoreError, where it cannot be
        written."""
        claim = Claim(id=self._app.runtime.new_id(), at=self._clock.now())
        document = found.document.model_copy(update={"claim": claim})
        try:
            return self._write(document, found.tag)
        except WriteConflict:
            return None
        except StoreUnavailable:
            again = self._read()  # it may have been applied
            standing = again.document.claim
            if standing is not None and standing.id == claim.id:
                return again
            if again.tag == found.tag:
                raise StoreDenied("The store can be read, and not written.", document=self._name) from None
            return None

    def _renew(self, mine: _Version, names: Sequence[str]) -> Health:
        health, seen = self._look(names, mine.document.seen)
        self._keep(mine, seen, health, mine.document.claim)
        return health

    def _unkept(self, names: Sequence[str], max_age: float) -> Health:
        """Where the store may be read only: computed once for all threads of this process, and forgotten with it."""
        monotonic = self._app.runtime.monotonic
        with self._alone:
            if self._own is None or monotonic() > self._own[0]:
                began = monotonic()
                health = self.compute(names)
                self._own = began + _fresh_for(max_age, monotonic() - began), health
            return self._own[1]

    # ------------------------------------------------------------------------------------------------ what it says

    def _look(self, names: Sequence[str], before: Mapping[str, Seen]) -> tuple[Health, dict[str, Seen]]:
        began = self._clock.now()
        found, seen = list[PollerHealth](), dict[str, Seen]()
        for name, looked in self._looks.all(self._app, names, self._clock.now).items():
            health, seen[name] = judged(looked, before.get(name))
            found.append(health)
            recorded().health(name, late_seconds=health.late_seconds, healthy=health.healthy)
        return self._of(found, began), seen

    def _store_away(self, names: Iterable[str], error: StoreError) -> Health:
        """Nothing can be said of any poller, and none of them works."""
        now = self._clock.now()
        return self._of([judged(failed(name, error, now), None)[0] for name in names], now)

    def _unknown(self, names: Iterable[str]) -> Health:
        reason = f"It is being looked at, and the result has not come within {WAIT:g} s."
        found = [PollerHealth(name=name, healthy=False, reason=reason, next_step="ask again") for name in names]
        return self._of(found, self._clock.now())

    def _of(self, pollers: Iterable[PollerHealth], at: datetime) -> Health:
        return worst_first(self._app.app_name, at, pollers)

    def _age(self, at: datetime) -> float:
        """How many seconds ago that was; without end for what lies ahead."""
        age = (self._clock.now() - at).total_seconds()
        return float("inf") if age < -AHEAD else age

    # ------------------------------------------------------------------------------------------------ the document

    def _keep(
        self, base: _Version, seen: Mapping[str, Seen], health: Health | None, claim: Claim | None = None
    ) -> None:
        """Write a result, and what is remembered; `health` None: only that, of a look at some of the pollers. Where
        another wrote meanwhile: beside theirs, unless their result is the newer. `claim`: ours, which ends with it.
        Raises nothing: the result serves whom it was computed for."""
        with contextlib.suppress(StoreError):
            for _ in range(_TRIES):
                try:
                    self._write(self._with(base.document, seen, health, claim), base.tag)
                except WriteConflict:
                    base = self._read()
                    theirs = base.document.health
                    if health is not None and theirs is not None and theirs.computed_at > health.computed_at:
                        return
                else:
                    return

    def _with(
        self, document: KeptDocument, seen: Mapping[str, Seen], health: Health | None, claim: Claim | None
    ) -> KeptDocument:
        known = {name: one for name, one in document.seen.items() if name in self._app.pollers}
        changed: dict[str, object] = {"seen": {**known, **seen}}
        if health is not None:
            changed |= {"health": health, "took_seconds": min(600.0, self._age(health.computed_at))}
            changed |= {"unlisted": 0, "unlisted_unhealthy": 0}
        if document.claim == claim:
            changed["claim"] = None
        return document.model_copy(update=changed)

    def _read(self) -> _Version:
        """Raises: StoreError."""
        with self._lock:
            known = self._known
        runtime = self._app.runtime
        sent = runtime.monotonic()
        answer = self._app.store.read(self._name, unless=None if known is None else known.tag)
        with self._lock:
            self._clock.saw(answer.server_time, sent)
        if isinstance(answer, Unchanged) and known is not None:
            return known
        found = (
            _Version(parsed(answer.body), answer.tag) if isinstance(answer, Found) else _Version(KeptDocument(), None)
        )
        return self._knows(found)

    def _write(self, document: KeptDocument, tag: str | None) -> _Version:
        """Raises: WriteConflict, StoreError."""
        body, document = written(document)
        sent = self._app.runtime.monotonic()
        landed = self._app.store.write(self._name, body, if_tag=tag)
        with self._lock:
            self._clock.saw(landed.server_time, sent)
        return self._knows(_Version(document, landed.tag))

    def _knows(self, version: _Version) -> _Version:
        with self._lock:
            self._known = version if version.tag is not None else None
        return version


def _fresh_for(max_age: float, took: float) -> float:
    """For how many seconds a result serves that took so long."""
    return max(max_age, SHARE * min(LONGEST_TOOK, took)) if max_age else 0.0


def seen_before(store: StateStore, app_name: str, name: str) -> Seen | None:
    """What looks at the health of a poller remember; None where there was none. Raises: StoreError."""
    answer = store.read(_document_of(app_name))
    return parsed(answer.body).seen.get(name) if isinstance(answer, Found) else None


def _document_of(app_name: str) -> str:
    return f"health/{app_name}.json"
