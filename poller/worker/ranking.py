"""Who of several processes is the first to look at a poller: rendezvous hashing. Pure.

Each pair of process and poller has a number, the hash of both; the process with the highest is the first. When a
process comes or goes, only its own pollers change hands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

SELDOM = 4.0
"""Without any help of hints a poller is looked at after so many intervals of its schedule, on average."""
LONGEST = 300.0
"""Seconds within which that is so, on average, however long its interval is."""


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
