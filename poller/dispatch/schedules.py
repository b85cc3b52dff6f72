"""Whose schedule fell due. `dispatch/{app}.json` keeps how far this was looked at, so that a dispatcher that starts
knows whether 02:00 was.

A moment is done with when somebody worked after it, or there was nothing to do: a message that was sent is not enough,
since it may be lost. The document is written when a moment is done with that is followed by no other for more than a
minute. A moment that is not done with at that time is never passed by what is written: at worst it falls due twice.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from poller.errors import StoreError, WriteConflict
from poller.model.schedule import Schedule
from poller.model.stamps import stamp
from poller.ports import Found, StateStore

logger = logging.getLogger("poller")

LONG = timedelta(minutes=1)
"""A moment that is followed by another so soon is not kept: the next one makes up for it."""
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class FellDue:
    """A schedule fell due. `since`: its first moment that is not done with; `seen`: when it was last found to have
    fallen due; `long`: no other moment follows within `LONG`."""

    since: datetime
    seen: datetime
    long: bool


class Schedules:
    """The schedules of one app's pollers, by this machine's wall clock. Used by one thread at a time.

    Args:
        schedules: of each poller, as NCRONTAB. name: of the document.
    """

    def __init__(self, store: StateStore, name: str, schedules: Mapping[str, str]) -> None:
        self._store = store
        self._name = name
        made = {text: Schedule(text) for text in set(schedules.values())}
        self._schedules = {poller: made[text] for poller, text in schedules.items()}
        self._next: dict[str, datetime] = {}
        self._due: dict[str, FellDue] = {}
        self._tag: str | None = None
        self._kept: datetime | None = None
        self._keeps = False
        """Whether something is to be written."""

    @property
    def due(self) -> Mapping[str, FellDue]:
        """Of pollers whose schedule fell due, since when."""
        return self._due

    def look(self, now: datetime) -> None:
        """Find whose schedule has fallen due by now. Raises: StoreUnavailable, StoreDenied, at the first look."""
        if not self._next:
            self._begin(now)
        for poller, moment in self._next.items():
            if moment > now:
                continue
            following = self._next[poller] = self._schedules[poller].next_after(now)
            known = self._due.get(poller)
            since = moment if known is None else known.since
            self._due[poller] = FellDue(since, now, following - now > LONG)

    def done(self, poller: str, until: datetime) -> None:
        """All moments that were found up to a time are done with."""
        known = self._due.get(poller)
        if known is None:
            return
        if known.seen > until:
            self._due[poller] = FellDue(known.seen, known.seen, known.long)
            return
        del self._due[poller]
        self._keeps = self._keeps or known.long

    def keep(self, now: datetime) -> bool:
        """Write how far it was looked at, where that says something new; whether it was written. A store that does not
        take it is asked again at the next round."""
        if not self._keeps:
            return False
        waiting = [one.since - _INSTANT for one in self._due.values() if one.long]
        until = min([now, *waiting])
        if self._kept is not None and until <= self._kept:
            return False
        body = json.dumps({"version": 1, "looked_at": stamp(until)}).encode()
        try:
            written = self._store.write(self._name, body, if_tag=self._tag)
        except WriteConflict:
            self._tag, self._kept = self._read()  # another dispatcher wrote it; what it says counts at the next start
            return False
        except StoreError as error:
            logger.warning("dispatch: %s", error)
            return False
        self._tag, self._kept, self._keeps = written.tag, until, bool(waiting)
        return True

    def _begin(self, now: datetime) -> None:
        self._tag, kept = self._read()
        self._kept, self._keeps = kept, kept is None
        begin = now if kept is None else min(kept, now)
        self._next = {poller: schedule.next_after(begin) for poller, schedule in self._schedules.items()}

    def _read(self) -> tuple[str | None, datetime | None]:
        found = self._store.read(self._name)
        if not isinstance(found, Found):
            return None, None
        try:
            kept = datetime.fromisoformat(json.loads(found.body)["looked_at"])
            if kept.tzinfo is not None:
                return found.tag, kept
        except (ValueError, LookupError, TypeError, RecursionError):
            pass
        logger.warning("dispatch: %s is not ours to read, and is written anew", self._store.locate(self._name))
        return found.tag, None
