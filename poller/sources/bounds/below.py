"""A server that has not reached the checkpoint: the rows that it writes next lie below it, where no page looks.

A crash that lost commits, a restore or a fail-over takes a server back, and it hands out the same transaction ids and
numbers again. A checkpoint may also have been set ahead of the server. Either way rows would be skipped, so none is
read.

Delivered rows lie below their bound, and the bound below what had been handed out. So a server that only grew is never
below a checkpoint that a delivery wrote, however often it restarts: only committed rows are compared, and those
survive a plain restart and a crash with synchronous commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from poller.model.cursor import Cursor
from poller.ports import Bound
from poller.sources.bounds.base import BoundContext
from poller.sources.columns.moments import parse_utc

BY_SERVER = frozenset({"xid8+pk", "rowversion+pk"})
"""Kinds whose bound is one number of the server that only grows: samples of several processes agree."""


class BelowCheckpoint:
    """Compares each bound with the checkpoint.

    For numbers the hold stays until an operator moves the checkpoint: once the server has passed it again, nothing
    would show that rows lie below. So it is remembered with the bound. For timestamps it ends when the clock has passed
    the checkpoint, as with a clock that went back (`MonotonicBound`).
    """

    def __init__(self, context: BoundContext | None) -> None:
        self._context = context
        self._held: dict[str, str] | None = None

    def held(self, taken: Bound, after: Cursor | None, last: Bound | None) -> Bound | None:
        """The bound that lets no row through, where the server lies below the checkpoint `after`; else None.

        Args:
            last: the last bound in force, also one that another process remembered.
        """
        if self._context is None or after is None or self._context.kind == "timestamp+pk":
            return None
        if self._held is not None and self._held["checkpoint"] != after.value:
            self._held = None  # an operator moved the checkpoint
        fact = self._held or self._number(taken, after, last)
        if fact is None:
            return None
        return replace(
            taken, value=None, at=None, age_seconds=None, held_by=None, cold=False, below_checkpoint=True,
            reason=_handed_out_again(**fact),
        )  # fmt: skip

    def ahead_of_clock(self, taken: Bound, after: Cursor | None) -> str | None:
        """The message where the checkpoint lies ahead of the server's clock; else None. A start in the future is not a
        checkpoint: polling is to begin then."""
        if self._context is None or after is None or after.tiebreaker is None or taken.clock is None:
            return None
        if self._context.kind != "timestamp+pk":
            return None
        at = parse_utc(after.value, self._context.zone)
        if at is None or datetime.fromisoformat(taken.clock) >= at:
            return None
        return (
            f"the checkpoint {after.value} lies ahead of the database's clock, {taken.clock}: the clock went back, or"
            " the checkpoint was set ahead; rows wait until the clock has passed it, and those stamped meanwhile lie"
            " below the checkpoint, where `poller recheck` finds them (audit_window); `poller reset-to-cursor` to the"
            " last row before that time ends the wait"
        )

    def remember(self) -> dict[str, str] | None:
        """What another process needs to keep holding."""
        return self._held

    @staticmethod
    def read(memory: Mapping[str, Any] | None) -> dict[str, str] | None:
        """What another process remembered, None where it held nothing. Raises: KeyError, TypeError, for other data."""
        return {"checkpoint": str(memory["checkpoint"]), "next": str(memory["next"])} if memory else None

    def recall(self, held: dict[str, str] | None) -> None:
        """Keep holding where another process did."""
        self._held = self._held or held

    def fell(self, taken: Bound, last: Bound | None) -> bool:
        """Whether the server itself lies below the last bound, which is then too high."""
        if self._context is None or last is None:
            return False
        was, now = self._place(last.value), self._place(taken.next)
        if was is not None and now is not None and now < was:
            return True
        low = self._place(taken.value)
        return self._context.kind in BY_SERVER and was is not None and low is not None and low < was

    def _number(self, taken: Bound, after: Cursor, last: Bound | None) -> dict[str, str] | None:
        at, free = self._place(after.value), self._place(taken.next)
        if at is None or free is None:
            return None
        delivered = after.tiebreaker is not None  # else "at or after": nothing was delivered yet
        fact = {"checkpoint": after.value, "next": str(taken.next)}
        if free < at or (free == at and delivered):
            if delivered or self.fell(taken, last):
                self._held = fact
            return fact
        # The server has passed the checkpoint again, but transactions from below it are still open.
        was, low = self._place(None if last is None else last.value), self._place(taken.value)
        if self._context is None or self._context.kind not in BY_SERVER or was is None or low is None:
            return None
        if not (low <= at < was and delivered):
            return None
        self._held = {**fact, "next": str(taken.value)}
        return self._held

    def _place(self, text: str | None) -> Decimal | None:
        """The value as a number, for comparison; None where it is not a number."""
        if text is None or self._context is None:
            return None
        try:
            if self._context.kind == "rowversion+pk":
                return Decimal(int(text, 16))
            number = Decimal(text)
        except (ValueError, InvalidOperation):
            return None
        return number if number.is_finite() else None


def _handed_out_again(checkpoint: str, next: str) -> str:  # noqa: A002 - the name in the document
    return (
        f"the checkpoint {checkpoint} lies above what the server has handed out (its next value was {next} when this"
        " was noticed): the server went back (a crash that lost commits, a restore, a fail-over, TRUNCATE ... RESTART"
        " IDENTITY), or the checkpoint was set ahead; rows written since lie below the checkpoint, so none is read"
        " until an operator moves it: `poller reset-to-cursor` to the last row from before, or `poller"
        " reset-to-beginning`;"
        " `poller recheck` lists rows below it that were never delivered (audit_window), except those that have the key"
        " and number of a delivered one"
    )
