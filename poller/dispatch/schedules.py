"""Whose schedule fell due. `dispatch/{app}.json` keeps how far this was looked at, so that a dispatcher that starts
knows whether 02:00 was.

A moment is done with when a worker worked after it, or there was nothing to do: a message that was sent is not enough,
since it may be lost. The document is written when a moment is done with that is followed by no other for more than a
minute. It names the pollers that are not done with such a moment at that time (`waiting`), so that a dispatcher that
starts serves these, and no other poller twice. `looked_at` is before all of them.

A wall clock may be set back, and may have been wrong before: then all schedules begin again at the time it says. At
worst a moment falls due twice.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from poller.errors import StoreError, WriteConflict
from poller.model.limits import read_json
from poller.model.schedule import Schedule
from poller.model.stamps import stamp
from poller.ports import Found, StateStore

logger = logging.getLogger("poller")

LONG = timedelta(minutes=1)
"""A moment that is followed by another so soon is not kept: the next one makes up for it."""
MOST_WAITING = 5_000
"""Of so many pollers at most the document names each."""
EARLIEST = 2000
"""The year before which no dispatcher wrote."""
BACK = timedelta(seconds=5)
"""A clock that is set back by less delays a moment by no more."""
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the document says. `until`: to when all schedules were looked at; `waiting`: of pollers that were not served
    by then, since when they are due."""

    until: datetime
    waiting: Mapping[str, datetime]

    def begin(self, poller: str, now: datetime) -> datetime:
        """After which moment the poller's schedule is looked at."""
        since = self.waiting.get(poller)
        return min(now, self.until, *([] if since is None else [since - _INSTANT]))


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
        self._looked: datetime | None = None
        self._keeps = False
        """True if something is to be written."""

    @property
    def due(self) -> Mapping[str, FellDue]:
        """Of pollers whose schedule fell due, since when."""
        return self._due

    def look(self, now: datetime) -> None:
        """Find whose schedule has fallen due by now. Raises: StoreUnavailable, StoreDenied, at the first look."""
        if self._looked is None:
            self._begin(now)
        elif now < self._looked - BACK:
            self._begin_anew(now)
        self._looked = now
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
        """Write how far it was looked at, if that says something new; whether it was written. A store that does not
        take it is asked again at the next round."""
        if not self._keeps:
            return False
        waiting = {poller: one.since for poller, one in sorted(self._due.items()) if one.long}
        oldest = min([now, *(since - _INSTANT for since in waiting.values())])
        said = {
            "version": 1,
            "looked_at": stamp(oldest),
            "until": stamp(now),
            "waiting": {poller: stamp(since) for poller, since in waiting.items()},
        }
        if len(waiting) > MOST_WAITING:
            del said["until"], said["waiting"]
        try:
            written = self._store.write(self._name, json.dumps(said).encode(), if_tag=self._tag)
        except WriteConflict:
            self._tag, _ = self._read()  # another dispatcher wrote it; what it says counts at the next start
            return False
        except StoreError as error:
            logger.warning("dispatch: %s", error)
            return False
        self._tag, self._keeps = written.tag, False
        return True

    def _begin(self, now: datetime) -> None:
        self._tag, kept = self._read()
        self._keeps = kept is None or kept.until > now  # a clock was ahead, and what it wrote would hide moments
        begin = _Kept(now, {}) if kept is None else kept
        self._next = {
            poller: schedule.next_after(begin.begin(poller, now)) for poller, schedule in self._schedules.items()
        }

    def _begin_anew(self, now: datetime) -> None:
        """The clock was set back. Those that are due stay so."""
        self._next = {poller: schedule.next_after(now) for poller, schedule in self._schedules.items()}
        self._due = {
            poller: FellDue(min(one.since, now), min(one.seen, now), one.long) for poller, one in self._due.items()
        }
        self._keeps = True

    def _read(self) -> tuple[str | None, _Kept | None]:
        found = self._store.read(self._name)
        if not isinstance(found, Found):
            return None, None
        try:
            said = read_json(found.body)
            oldest = _moment(said["looked_at"])
            if "until" not in said:
                return found.tag, _Kept(oldest, {})
            waiting = {poller: _moment(since) for poller, since in said["waiting"].items()}
            return found.tag, _Kept(_moment(said["until"]), waiting)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
            pass
        logger.warning("dispatch: %s cannot be read, and is written again", self._store.locate(self._name))
        return found.tag, None


def _moment(text: str) -> datetime:
    """Raises: ValueError, TypeError, OverflowError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or moment.astimezone(UTC).year < EARLIEST:
        raise ValueError("not a time of ours")
    return moment.astimezone(UTC)
