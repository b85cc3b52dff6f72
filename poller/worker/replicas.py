"""Which of several processes looks at which poller, so that twenty of them do not all look at everything.

Leases decide who works; nothing here is needed for that. Each process renews a hint, `replicas/{app}/{id}`, every 30 s,
and reads those of the others every 15 s. All rank the live ones for each poller by rendezvous hashing
(the highest hash of process and poller, so only a process's own pollers change hands when it comes or goes); the first
looks, on the poller's schedule. The hint of a process names the pollers that it is
overdue with, by an interval of their schedule, or that fail there: the next one looks at those too. A hint that was not
renewed for 45 s counts as one that is overdue with everything; after 90 s it is dead, and the next process that sees it
removes it. Ages are differences of the store's own two times, so that no clocks are compared.

A hint may be wrong: its process hangs, its database is out of reach for it alone, a person put it there. So
every process also looks at every poller now and then, by chance: one that no process serves is found after about four
intervals. A wrong hint costs a probe, or that wait; never more. A process that cannot read or write hints looks at
everything. So does a process of less than 50 pollers, or that looks less than 300 times a minute: hints cost about 2
writes, 4 listings, and 2 reads per other process, each minute, and a killed process is followed a little later.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from poller import forks
from poller.errors import StoreError, WriteConflict
from poller.journal.configurations import Configurations
from poller.model.limits import NotBoundedJson, read_json
from poller.observability import Emitter, Observer
from poller.ports import Found, ListingStore, Missing, Runtime, StateStore, Timeout, unquoted
from poller.worker.crew import Crew

logger = logging.getLogger("poller")

RENEW = 30.0
"""Seconds between two writes of the own hint, a fifth of it chance."""
LOOK = 15.0
"""Seconds between two looks at the others', a fifth of it chance."""
SOONER = 10.0
"""Seconds after which the hint is written again where what is overdue has changed."""
LATE = 45.0
"""Seconds after which a hint that was not renewed no longer keeps others from looking."""
DEAD = 90.0
"""Seconds after which it is removed."""
FEWEST_POLLERS, FEWEST_LOOKS = 50, 300.0
"""So many pollers, and looks a minute by their schedules, from which on hints are worth their requests, and that a
killed process is followed a little later."""
MOST_OVERDUE = 200
"""Pollers that one hint names."""
LARGEST = 32_768
"""Bytes: no hint is larger."""
_AT_THE_END = Timeout(connect=1.0, read=2.0)
SELDOM = 4.0
"""Without any help of hints a poller is looked at after so many intervals of its schedule, on average."""
LONGEST = 300.0
"""Seconds within which that is so, on average, however long its interval is."""


@dataclass(slots=True)
class _Hint:
    """What is known of another process's hint. `age`: seconds, when it was read, at `read_at` on our clock; `since`:
    when this version was first seen there. `replica`: None if it makes no sense."""

    tag: str
    age: float
    read_at: float
    since: float
    replica: Replica | None

    def age_at(self, now: float) -> float:
        """By the store's times, or, if that says more, for how long it has not changed before our eyes."""
        return max(self.age + now - self.read_at, now - self.since)

    def may_have_changed(self, tag: str | None, now: float) -> bool:
        """True if it must be read again. `tag`: as it was listed; None: it was not, so a hint is read when it is
        due."""
        return self.age_at(now) >= 0.8 * RENEW if tag is None else tag != unquoted(self.tag)


class Replicas:
    """This process among those that run the same pollers of an application.

    Args:
        store: of the pollers' documents. app_name: of the application. runtime: time and chance.
        configurations: by which another one under this name is noticed, whatever the number of pollers. observers: are
            given the event of that.

    `begin`, `keep`, `left`, `wants` and `end` belong to the thread of the loop.
    """

    def __init__(
        self,
        store: StateStore,
        app_name: str,
        *,
        runtime: Runtime,
        configurations: Configurations | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._configurations = configurations
        self._emit = Emitter(observers)
        self._store = store
        self._prefix = f"replicas/{app_name}/"
        self._runtime = runtime
        self._pollers = ""
        self._worth_it = False
        self._hints: dict[str, _Hint] = {}
        self._ranking: Ranking | None = None
        self._failing = False
        self._busy = threading.Event()
        self._next_renewal = self._next_look = 0.0
        self._written_at = 0.0
        self._sent = b""
        self._overdue: tuple[str, ...] = ()
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """A child process is another replica."""
        self._busy = threading.Event()
        self._noticing = threading.Event()
        self._new_id()

    def _new_id(self) -> None:
        self.id = self._runtime.new_id()
        self._tag: str | None = None
        self._next_renewal = 0.0

    # --- for the loop ----------------------------------------------------------------------------------------------

    def begin(self, pollers: Iterable[str], looks_per_minute: float) -> None:
        """These are the pollers here. Processes share only with those that have the same."""
        names = sorted(pollers)
        self._pollers = hashlib.sha256(json.dumps(names).encode()).hexdigest()[:32]
        self._worth_it = len(names) >= FEWEST_POLLERS and looks_per_minute >= FEWEST_LOOKS

    def keep(self, crew: Crew, overdue: Callable[[], list[str]]) -> None:
        """Renew and look on a thread of the crew, if it is time: only a loop that goes round renews its hint."""
        if self._configurations is not None and self._configurations.due() and not self._noticing.is_set():
            self._notice(crew, self._configurations)
        if self.left() > 0 or self._busy.is_set():
            return
        names = tuple(sorted(overdue()[:MOST_OVERDUE]))
        self._busy.set()
        try:
            crew.do(lambda: self.step(names), "poller-replicas")
        except RuntimeError:  # no room for a thread
            self._busy.clear()
            self._next_renewal = self._next_look = self._runtime.monotonic() + SOONER

    def _notice(self, crew: Crew, configurations: Configurations) -> None:
        """On a thread of the crew, too: the store may not answer for a while."""

        def notice() -> None:
            try:
                configurations.keep(self._emit)
            finally:
                self._noticing.clear()

        self._noticing.set()
        try:
            crew.do(notice, "poller-configurations")
        except RuntimeError:  # no room for a thread: the next round tries
            self._noticing.clear()

    def left(self) -> float:
        """Seconds until there is something to do."""
        if not self._worth_it or self._busy.is_set():
            return float("inf")
        return max(0.0, min(self._next_renewal, self._next_look) - self._runtime.monotonic())

    def wants(self, poller: str, interval: Callable[[], float]) -> bool:
        """True if this process is one to look at the poller now. `interval`: seconds, of its schedule."""
        ranking = self._ranking
        if ranking is None or ranking.is_first(poller):
            return True
        return self._runtime.jitter(0.0, 1.0) < ranking.chance(interval())

    def end(self) -> None:
        """Remove the hint, so that others take over at once; no other is written."""
        self._worth_it = False
        tag, self._tag = self._tag, None
        if tag is not None:
            try:
                self._store.remove(self._prefix + self.id, if_tag=tag, timeout=_AT_THE_END)
            except StoreError as error:
                logger.debug("The hint of this process stays until it is dead: %s", error)

    # --- on a thread of the crew -----------------------------------------------------------------------------------

    def step(self, overdue: tuple[str, ...] = ()) -> None:
        """Renew the hint and look at the others', if it is time. Raises nothing."""
        try:
            now = self._runtime.monotonic()
            if now >= self._next_renewal or (overdue != self._overdue and now >= self._written_at + SOONER):
                self._renew(overdue)
                self._written_at = self._runtime.monotonic()
                self._next_renewal = self._written_at + self._runtime.jitter(0.8 * RENEW, RENEW)
            if now >= self._next_look:
                self._look()
                self._next_look = self._runtime.monotonic() + self._runtime.jitter(0.8 * LOOK, LOOK)
            if self._failing:
                logger.info("The hints of the other replicas can be read again.")
            self._failing = False
        except Exception as error:  # noqa: BLE001 - hints are not needed: without them everything is looked at
            self._ranking = None
            later = self._runtime.monotonic() + self._runtime.jitter(0.8 * RENEW, RENEW)
            self._next_renewal = self._next_look = self._written_at = later
            if not self._failing:
                logger.warning("Hints of replicas cannot be used, so this process looks at every poller: %s", error)
            self._failing = True
        finally:
            self._busy.clear()

    def _renew(self, overdue: tuple[str, ...]) -> None:
        """Write the hint. Raises: StoreError."""
        body = {"v": 1, "at": self._runtime.utcnow().isoformat(), "pollers": self._pollers, "overdue": overdue}
        sent = json.dumps(body).encode()
        try:
            self._tag = self._store.write(self._prefix + self.id, sent, if_tag=self._tag).tag
        except WriteConflict:
            found = self._store.read(self._prefix + self.id)
            if isinstance(found, Found) and found.body == self._sent:
                self._tag = found.tag  # an earlier write of ours, whose answer was lost
            else:
                self._new_id()  # removed as dead, or another process has this id
            self._tag = self._store.write(self._prefix + self.id, sent, if_tag=self._tag).tag
        finally:
            self._sent = sent
        self._overdue = overdue
        if not self._worth_it:
            self.end()  # it was called meanwhile

    def _look(self) -> None:
        """Read the others' hints that may have changed, and rank who is alive. Raises: StoreError."""
        hints: dict[str, _Hint] = {}
        for other, tag in self._listed():
            hint = self._hints.get(other)
            if hint is None or hint.may_have_changed(tag, self._runtime.monotonic()):
                hint = self._read(other, hint)
            if hint is None:
                continue
            if hint.age_at(self._runtime.monotonic()) >= DEAD and _is_id(other):
                self._remove(other, hint)
            else:
                hints[other] = hint
        self._hints = hints
        now = self._runtime.monotonic()
        alive = {
            other: Replica(hint.replica.pollers, hint.replica.overdue, late=hint.age_at(now) >= LATE)
            for other, hint in hints.items()
            if hint.replica is not None and hint.replica.pollers == self._pollers
        }
        if self._ranking is None or self._ranking.others != alive:
            self._ranking = Ranking(self.id, alive)

    def _listed(self) -> list[tuple[str, str | None]]:
        """The others' ids, and the tags of their hints, if the store lists these too. Raises: StoreError."""
        if isinstance(self._store, ListingStore):
            found: Iterable[tuple[str, str | None]] = ((one.name, one.tag) for one in self._store.listed(self._prefix))
        else:
            found = ((name, None) for name in self._store.names(self._prefix))
        named = ((name.removeprefix(self._prefix), tag) for name, tag in found)
        return [(other, tag) for other, tag in named if other != self.id]

    def _read(self, other: str, known: _Hint | None) -> _Hint | None:
        """Raises: StoreError."""
        answer = self._store.read(self._prefix + other, unless=None if known is None else known.tag)
        now = self._runtime.monotonic()
        if isinstance(answer, Missing):
            return None
        if isinstance(answer, Found):
            times = answer.server_time, answer.modified_at
            age = 0.0 if times[0] is None or times[1] is None else (times[0] - times[1]).total_seconds()
            return _Hint(answer.tag, max(0.0, age), now, now, _parsed(answer.body))
        return known

    def _remove(self, other: str, hint: _Hint) -> None:
        try:
            self._store.remove(self._prefix + other, if_tag=hint.tag)
        except StoreError as error:
            logger.debug("A dead replica's hint was not removed: %s", error)


def _is_id(name: str) -> bool:
    """True if a hint has that name; other documents there are left alone."""
    return len(name) == 32 and set(name) <= set("0123456789abcdef")


def _parsed(body: bytes) -> Replica | None:
    """What a hint says; None if it is none of ours."""
    try:
        data = read_json(body, LARGEST)
    except NotBoundedJson:
        return None
    if not isinstance(data, dict) or data.get("v") != 1 or not isinstance(data.get("pollers"), str):
        return None
    overdue = data.get("overdue")
    names = frozenset(name for name in overdue if isinstance(name, str)) if isinstance(overdue, list) else frozenset()
    return Replica(data["pollers"], names)


@dataclass(frozen=True, slots=True)
class Replica:
    """Another process, as its hint describes it.

    Attributes:
        pollers: a digest of the names of its pollers. overdue: the pollers that it has not come to.
        late: whether it has not renewed its hint for a while.
    """

    pollers: str
    overdue: frozenset[str] = frozenset()
    late: bool = False


@dataclass(slots=True)
class Ranking:
    """This process among others that are alive, by their ids. `_ahead`: for each poller who ranks before us."""

    me: str
    others: Mapping[str, Replica]
    _ahead: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def is_first(self, poller: str) -> bool:
        """True if every process that ranks before us is late, or overdue with it."""
        others = self.others
        return all(others[one].late or poller in others[one].overdue for one in self._before_us(poller))

    def chance(self, interval: float) -> float:
        """The chance with which who is not first looks all the same, at each moment of the poller's schedule.
        `interval`: seconds between two of them."""
        seldom = 1 / (SELDOM * (len(self.others) + 1))
        return min(1.0, max(seldom, interval / (LONGEST * max(1, len(self.others)))))

    def _before_us(self, poller: str) -> tuple[str, ...]:
        known = self._ahead.get(poller)
        if known is None:
            ours = score(self.me, poller)
            known = self._ahead[poller] = tuple(one for one in self.others if score(one, poller) > ours)
        return known


def score(replica: str, poller: str) -> bytes:
    """The number of this pair."""
    return blake2b(f"{replica}/{poller}".encode(), digest_size=8).digest()
