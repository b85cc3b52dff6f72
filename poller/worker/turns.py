"""Whose turn it is: many pollers, a few ticks at once, none kept waiting by others. Pure: time is an argument.

A poller is *due* at a moment; once that has passed it waits for a turn. Turns go to the poller that has been due for
the longest time; of several that are due since one moment, by chance and never in a fixed order. At most `slots` ticks
run at once, and at most half of them (at least one) on one database server, so that a server that hangs leaves the
other half to the others; one that has waited in its handler for a moment does not wait for its server, and is not
counted there. With no more pollers than slots each has one to itself, and the half does not apply.

A tick that has had its turn for `slice` seconds while another poller waits that could take its place is asked to end;
as many are asked as wait, the longest running first. It is due again at once, behind those that waited. One that does
not end soon (its handler hangs, say) keeps its place from none: it goes on in *overtime*, in a slot of its own. There
are `OVERTIME` times as many of those as slots, so that threads and batches in memory stay few; at most half are for one
server. Where all are in use, a tick that does not end keeps its slot, until it has run for far longer than it may: then
its lease has expired, and it counts for nothing any more.

Simulated in tests/unit/worker/test_turns.py: 100 pollers with 8 sources that hang, 1,000 that are always busy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeAlias, TypeVar

K = TypeVar("K")

GRACE = 1.0
"""Seconds: so long a call lasts before its tick counts as waiting in its handler, and so long a tick that was asked to
end keeps its place."""
OVERTIME = 4
"""For each slot so many ticks may go on beyond their slice while others wait."""


@dataclass(eq=False, slots=True)
class _Member(Generic[K]):
    """A poller. `due`: since or until when it waits; None while it runs. `began`: of its turn; `asked`: when it was
    asked to end. `counts`: whether it has one of the slots; `reads`: whether it may wait for its server; `hung`:
    whether it ran for longer than it may."""

    key: K
    server: Hashable
    longest: float
    due: float | None = None
    began: float = 0.0
    asked: float | None = None
    counts: bool = False
    reads: bool = False
    hung: bool = False
    gone: bool = False

    @property
    def is_late(self) -> bool:
        """True if it goes on in overtime."""
        return not self.counts and not self.hung


_Queue: TypeAlias = list[tuple[float, float, int, _Member[K]]]
"""A heap: when it is due, chance, a number of its own, the poller."""


class Turns(Generic[K]):
    """The pollers of one process.

    Args:
        slots: the most ticks at once.
        slice: seconds of a turn while others wait.
        draw: a random number, for the order of those that are due since the same moment.
        postponed: asked once a poller is due: a later moment at which it is due instead, or None.
        in_handler: for how many seconds the tick of a poller has done nothing but wait for a call of its handler.

    All moments are seconds on one clock.
    """

    def __init__(
        self,
        slots: int,
        *,
        draw: Callable[[], float],
        slice: float = float("inf"),  # noqa: A002 - as the option is called
        postponed: Callable[[K], float | None] = lambda _: None,
        in_handler: Callable[[K], float] = lambda _: 0.0,
    ) -> None:
        self.slots = slots
        self._slice = slice
        self._draw = draw
        self._postponed = postponed
        self._in_handler = in_handler
        self._members: dict[K, _Member[K]] = {}
        self._running: dict[K, _Member[K]] = {}
        self._taken = 0
        self._on_server: dict[Hashable, int] = defaultdict(int)
        self._numbers = count()
        self._later: _Queue[K] = []
        """Those whose moment has not come."""
        self._ready: _Queue[K] = []
        """Those that wait for a turn."""
        self._parked: dict[Hashable, _Queue[K]] = {}
        """Those that wait for a turn on a server that has as many as it may."""
        self._waiting: dict[Hashable, int] = {}
        """The pollers of each server that wait, parked or not."""

    # --- coming and going ------------------------------------------------------------------------------------------

    def join(self, key: K, server: Hashable, due: float, *, longest: float = float("inf")) -> None:
        """A poller that is due at `due`. `longest`: seconds after which its turn no longer counts."""
        member = _Member(key, server, longest)
        self._members[key] = member
        self._push(self._later, member, due)

    def put_back(self, key: K, due: float) -> None:
        """Its turn is over; the next is due at `due`."""
        self._end_turn(key)
        self._push(self._later, self._members[key], due)

    def leave(self, key: K) -> None:
        """It comes no more, whether it has a turn or waits for one."""
        member = self._members.pop(key)
        member.gone = True
        if key in self._running:
            self._end_turn(key)
        if len(self._members) == self.slots:
            for server in list(self._parked):
                self._unpark(server, everybody=True)

    def clock_was_set(self, now: float, due_of: Callable[[K], float]) -> None:
        """To an earlier time: those whose moment has not come are due at another."""
        for member in self._running.values():
            member.began = min(member.began, now)
            member.asked = None if member.asked is None else min(member.asked, now)
        members = [member for *_, member in self._later if not member.gone]
        self._later = []
        for member in members:
            self._push(self._later, member, due_of(member.key))

    # --- turns -----------------------------------------------------------------------------------------------------

    def start(self, now: float) -> K | None:
        """Who has a turn from now on; None if none waits, or none that waits may have one. To be called until it
        returns None."""
        self._look(now)
        while self._ready and self._taken < self.slots:
            member = self._pop(self._ready)
            if member is None:
                continue
            if self._is_full(member.server):
                self._push(self._parked.setdefault(member.server, []), member, member.due or 0.0)
                continue
            self._counted(member.server, -1)
            member.due, member.began, member.asked, member.hung = None, now, None, False
            self._running[member.key] = member
            self._count(member, counts=True, reads=True)
            return member.key
        return None

    def to_yield(self, now: float) -> list[K]:
        """The ticks that are asked, just now, to make room for others."""
        asked = [member for member in self._in_the_way(now) if member.asked is None]
        for member in asked:
            member.asked = now
        return [member.key for member in asked]

    def let_go(self, now: float) -> list[K]:
        """Give the slots of ticks that do not end to others; which of them, just now, ran for longer than they may."""
        for member in self._in_the_way(now):
            if member.asked is not None and now >= member.asked + GRACE and self._has_overtime(member.server):
                self._count(member, counts=False, reads=False)
        hung = [one for one in self._running.values() if not one.hung and now >= one.began + one.longest]
        for member in hung:
            member.hung = True
            self._count(member, counts=False, reads=False)
        return [member.key for member in hung]

    # --- what is asked of it ---------------------------------------------------------------------------------------

    def next_moment(self, now: float) -> float | None:
        """When time alone changes something: the next poller is due, or a turn may have to end. None: never."""
        moments = [self._later[0][0]] if self._later else []
        if self._waiting:
            counting = [member for member in self._running.values() if member.counts]
            moments += [member.began + member.longest for member in counting]
            # A poller whose slice is over and which was not asked is in no other's way until one comes or goes, and
            # time makes no room for overtime.
            moments += [end for member in counting if (end := member.began + self._slice) > now]
            moments += [end for one in counting if one.asked is not None and (end := one.asked + GRACE) > now]
            if any(one.reads and one.server in self._parked for one in counting):
                moments.append(now + GRACE)
        return min(moments, default=None)

    def overdue(self, now: float) -> Iterator[tuple[K, float]]:
        """Those that wait for a turn, and those in overtime, with since when."""
        for queue in (self._ready, *self._parked.values()):
            yield from ((member.key, due) for due, _, _, member in queue if due <= now and not member.gone)
        yield from ((member.key, member.began) for member in self._running.values() if not member.counts)

    @property
    def overtime(self) -> list[K]:
        """Those that run, and keep no slot from others."""
        return [member.key for member in self._running.values() if not member.counts]

    @property
    def running(self) -> int:
        """The number that has a turn, those in overtime and those that hang included."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """The number that is due and has none."""
        return sum(self._waiting.values())

    def resting(self) -> list[K]:
        """Those without a turn."""
        return [key for key in self._members if key not in self._running]

    # --- inside ----------------------------------------------------------------------------------------------------

    def _look(self, now: float) -> None:
        """Whose moment has come waits for a turn."""
        while self._later and self._later[0][0] <= now:
            member = self._pop(self._later)
            if member is None:
                continue
            later = self._postponed(member.key)
            if later is not None and later > now:
                self._push(self._later, member, later)
            else:
                self._counted(member.server, 1)
                self._push(self._ready, member, member.due or 0.0)
        if self._waiting:
            self._look_at_handlers()

    def _end_turn(self, key: K) -> None:
        self._count(self._running.pop(key), counts=False, reads=False)

    def _look_at_handlers(self) -> None:
        """Who waits in its handler does not wait for its server; who comes back does."""
        for member in self._running.values():
            if member.counts:
                self._count(member, counts=True, reads=self._in_handler(member.key) < GRACE)

    def _count(self, member: _Member[K], *, counts: bool, reads: bool) -> None:
        """Count its slot, and the one of its server."""
        self._taken += counts - member.counts
        change = reads - member.reads
        member.counts, member.reads = counts, reads
        if not change:
            return
        self._on_server[member.server] += change
        if not self._on_server[member.server]:
            del self._on_server[member.server]
        if change < 0:
            self._unpark(member.server)

    def _has_overtime(self, server: Hashable) -> bool:
        most = self.slots * OVERTIME
        late = [one for one in self._running.values() if one.is_late]
        return len(late) < most and sum(one.server == server for one in late) < max(1, most // 2)

    def _in_the_way(self, now: float) -> list[_Member[K]]:
        """Those whose slice is over and whose place another could take who waits: as many as wait."""
        self._look(now)
        over = [one for one in self._running.values() if one.counts and now >= one.began + self._slice]
        wanted = dict(self._waiting) if over else {}
        found: list[_Member[K]] = []
        for member in sorted(over, key=lambda one: (one.asked is None, one.began)):
            server = self._served_by(member, wanted)
            if server is not None:
                wanted[server] -= 1
                found.append(member)
        return found

    def _unpark(self, server: Hashable, *, everybody: bool = False) -> None:
        parked = self._parked.get(server, [])
        while parked:
            member = self._pop(parked)
            if member is not None:
                self._push(self._ready, member, member.due or 0.0)
                if not everybody:
                    break
        if not parked:
            self._parked.pop(server, None)

    def _is_full(self, server: Hashable) -> bool:
        if len(self._members) <= self.slots:
            return False
        return self._on_server.get(server, 0) >= max(1, self.slots // 2)

    def _served_by(self, member: _Member[K], wanted: dict[Hashable, int]) -> Hashable | None:
        """The server of one that waits and could have this one's place; None: none could."""
        if wanted.get(member.server) and (member.reads or not self._is_full(member.server)):
            return member.server
        return next((server for server, left in wanted.items() if left > 0 and not self._is_full(server)), None)

    def _counted(self, server: Hashable, change: int) -> None:
        left = self._waiting.get(server, 0) + change
        if left:
            self._waiting[server] = left
        else:
            self._waiting.pop(server, None)

    def _push(self, queue: _Queue[K], member: _Member[K], due: float) -> None:
        member.due = due
        heappush(queue, (due, self._draw(), next(self._numbers), member))

    def _pop(self, queue: _Queue[K]) -> _Member[K] | None:
        """The first; None if that has left."""
        *_, member = heappop(queue)
        if member.gone:
            if queue is not self._later:
                self._counted(member.server, -1)
            return None
        return member
