"""Around every strategy: the bound never moves back, and a clock that did is waited for (sources.md, "Rules")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from poller.model.cursor import Cursor
from poller.ports import Bound
from poller.sources.bounds.base import BoundContext, BoundStrategy
from poller.sources.bounds.below import BelowCheckpoint
from poller.sources.columns.moments import remembered

_GUARDS = frozenset({"exact", "observed", "observed-strict"})
"""A bound of one of these kinds may follow one of another."""


class MonotonicBound:
    """Keeps the last bound and the highest clock seen.

    `highest_clock` may come from an earlier process. While the server's clock is lower (a fail-over), its writers stamp
    rows below the last bound again. Then the last bound is only a limit: the bound in force is the lower of it and the
    strategy's, and no row is read while the strategy knows none. This ends when the strategy's bound has reached the
    last one; a clock that has caught up is not enough, since an earlier transaction may still be open.
    """

    def __init__(self, strategy: BoundStrategy, context: BoundContext | None = None) -> None:
        self._strategy = strategy
        self._context = context
        self._last: Bound | None = None
        self._limits = False
        """Whether the last bound only limits."""
        self.highest_clock: str | None = None
        self._below = BelowCheckpoint(context)

    @property
    def kind(self) -> str:
        """The strategy's."""
        return self._strategy.kind

    def sample(self, connection: Connection, after: Cursor | None = None) -> Bound:
        """The strategy's bound, or a lower one with the reason why it did not advance; no value where the server has
        not reached the checkpoint `after`."""
        taken = self._strategy.sample(connection)
        if taken.kind == "none":
            return taken
        held = self._below.held(taken, after, self._last)
        if held is not None:
            return held
        self._limits = self._limits or self._below.fell(taken, self._last)
        bound = self._in_force(taken)
        ahead = None if bound.clock_went_back else self._below.ahead_of_clock(taken, after)
        return bound if ahead is None else replace(bound, below_checkpoint=True, reason=ahead)

    def _in_force(self, taken: Bound) -> Bound:
        if taken.clock is not None:
            if self.highest_clock is not None and _before(taken.clock, self.highest_clock):
                self._limits = True
                return replace(self._limited(taken, _behind(taken.clock, self.highest_clock)), clock_went_back=True)
            self.highest_clock = taken.clock
        if taken.value is None:
            reason = taken.reason or "not known yet"
            return self._limited(taken, reason) if self._limits else self._kept(taken, reason)
        if self._last is not None and _moves_back(self._last, taken):
            reason = taken.reason or "it would have moved back"
            return self._limited(taken, reason) if self._limits else self._kept(taken, reason)
        self._last, self._limits = taken, False
        return taken

    def remember(self) -> dict[str, Any] | None:
        """What a commit stores: the highest clock, the bound in force, the strategy's samples; None for no bound."""
        if self._strategy.kind == "none":
            return None
        last = self._last
        memory = {
            "kind": self._strategy.kind,
            "clock": self.highest_clock,
            "value": last.value if last and last.at is None else None,
            "at": last.at.isoformat() if last and last.at else None,
            "limits": self._limits or None,
            "samples": self._strategy.remember(),
            "below": self._below.remember(),
        }
        return {name: value for name, value in memory.items() if value is not None}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Continue from what another process remembered; what this one knows better stays.

        Raises, before anything is changed: ValueError, TypeError, KeyError, AttributeError, OverflowError, for data
        that no such process wrote.
        """
        clock, kind, last = memory.get("clock"), str(memory.get("kind")), self._last
        seen = remembered(clock) if clock else None
        newer = seen is not None and (self.highest_clock is None or remembered(self.highest_clock) < seen)
        if last is None and (kind == self._strategy.kind or {kind, self._strategy.kind} <= _GUARDS):
            last = self._recalled(memory)
        below = self._below.read(memory.get("below"))
        samples = memory.get("samples") if kind == self._strategy.kind else None
        self._strategy.recall({**(samples or {}), "clock": clock})  # a shared sample may be older than that
        self._last, self._limits = last, self._limits or bool(memory.get("limits"))
        self.highest_clock = clock if newer else self.highest_clock
        self._below.recall(below)

    def _recalled(self, memory: Mapping[str, Any]) -> Bound | None:
        if memory.get("at") and self._context is not None:
            at = remembered(memory["at"])
            return Bound(kind=self._strategy.kind, value=self._context.render(at), at=at)
        value = memory.get("value")
        if not value or self._context is None:
            return None
        return Bound(kind=self._strategy.kind, value=self._context.remembered(value))

    def _kept(self, taken: Bound, reason: str) -> Bound:
        last = self._last
        if last is None:
            return replace(taken, value=None, at=None, age_seconds=None, reason=reason)
        age = taken.age_seconds
        if last.at is not None and taken.clock is not None:
            age = max(0.0, (datetime.fromisoformat(taken.clock) - last.at).total_seconds())
        return replace(last, age_seconds=age, clock=taken.clock, held_by=taken.held_by, reason=reason, cold=taken.cold)

    def _limited(self, taken: Bound, reason: str) -> Bound:
        """The lower of the last bound and the sampled one; no value where either is not known."""
        last = self._last
        if last is None or taken.value is None:
            return replace(taken, value=None, at=None, age_seconds=None, reason=reason)
        return replace(taken, reason=reason) if _moves_back(last, taken) else self._kept(taken, reason)


def _behind(clock: str, highest: str) -> str:
    return (
        f"the database's clock went back: {clock} < {highest}; rows wait until it has passed that, and those stamped"
        " meanwhile may lie below the checkpoint, where `poller recheck` finds them (audit_window); if it was wrong"
        " before and is right now, `poller reset-to-cursor` to the last row before that ends it"
    )


def _before(one: str, other: str) -> bool:
    return datetime.fromisoformat(one) < datetime.fromisoformat(other)


def _moves_back(last: Bound, new: Bound) -> bool:
    """By instant where both have one; numbers (xid8, sequences) as numbers; hex of one width (rowversion) as text.
    Only the database knows the order of other texts; those are values seen in the table (`inclusive`), which only
    grow."""
    if new.inclusive:
        return False
    if last.at is not None and new.at is not None:
        return new.at < last.at or (new.at == last.at and str(new.value) < str(last.value))
    if last.value is None or new.value is None:
        return False
    if last.value.isdigit() and new.value.isdigit():
        return int(new.value) < int(last.value)
    return new.value < last.value
