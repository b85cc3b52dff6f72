"""What one PUT of a tick says, as a value, and the document that it makes.

Whatever a tick has done reaches the document through `written`: rows that the checkpoint passes, rows that are listed,
what lanes did above it, what failed, and whether the lease is given back. A PUT whose answer is lost, or that an
operator's change overtook, is made again from the same value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from poller.model import aside, backoff, lanes, transitions
from poller.model.aside import Limits
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError, State
from poller.model.handover import Plan
from poller.model.history import noted
from poller.model.limits import LONGEST_REASON
from poller.model.verdict import Verdict, apply


@dataclass(frozen=True, slots=True)
class DoneCall:
    """A call, with how many rows it did in how many seconds."""

    batch_id: str
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Landing:
    """One verdict on its way into the document.

    Attributes:
        batch_id: what the document names as its last batch. error: of the call; without a time it gets the write's.
        blame: what failed, for the reason of a halt.
        after: the cursor before the rows that are passed. cursors: of those of them that were handed over or listed.
        calls: the calls that are wholly passed with them.
        memory, facts: of their page, as `transitions.commit`.
    """

    plan: Plan
    verdict: Verdict
    batch_id: str
    error: DeliveryError | None = None
    blame: str = "a row"
    after: Cursor | None = None
    cursors: Sequence[Cursor] = ()
    calls: Sequence[DoneCall] = ()
    memory: dict[str, Any] | None = field(default=None, repr=False)
    facts: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def to(self) -> Cursor | None:
        """The cursor behind the rows that are passed; None if the checkpoint stays."""
        passes = self.verdict.passes if self.verdict.moves else 0
        return self.plan.passes[passes - 1].cursor if passes else None

    @property
    def positions(self) -> int:
        """The number of positions that they take."""
        return self.plan.count(self.verdict.passes) if self.verdict.moves else 0


@dataclass(frozen=True, slots=True)
class Above:
    """What lanes have done above the checkpoint: of each the cursor up to which it has, the cursors of the rows, the
    calls that did them, and, if an ordering key is set, the ids of rows before the last of them that are not done."""

    ends: Sequence[Cursor | None]
    cursors: Sequence[Cursor] = ()
    calls: Sequence[DoneCall] = ()
    left: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Put:
    """All that one write says.

    Attributes:
        landings: in order. above: what lanes have done, if they end. failed: what failed in them, the weightiest last.
        release: the lease is given back. drained: no row is left.
    """

    landings: Sequence[Landing] = ()
    above: Above | None = None
    failed: Sequence[Landing] = ()
    release: bool = False
    drained: bool = False

    @property
    def gives_back(self) -> bool:
        """True if it gives the lease back."""
        return self.release or any(one.verdict.releases for one in (*self.landings, *self.failed))

    @property
    def batch_id(self) -> str:
        """The batch id of the last call that it says something of."""
        named = [*self.landings, *self.failed]
        known = [*(call.batch_id for call in self.calls), *(landing.batch_id for landing in named)]
        return known[-1] if known else ""

    @property
    def calls(self) -> Sequence[DoneCall]:
        """The calls that are over with it."""
        above = () if self.above is None else self.above.calls
        return [*(call for landing in self.landings for call in landing.calls), *above]

    @property
    def to(self) -> Cursor | None:
        """Where the checkpoint stands after it; None if it stays."""
        return next((one.to for one in reversed(self.landings) if one.to is not None), None)


def written(
    state: State, put: Put, *, limits: Limits, columns: Sequence[str], now: datetime, last: datetime | None = None
) -> State:
    """The document after the PUT. `columns`: of the ordering key. `last`: when the last row that it passes was stamped,
    None if the cursor is not a time."""
    for landing in put.landings:
        releases = put.release and put.above is None and landing is put.landings[-1]
        state = _landed(state, landing, limits=limits, release=releases, now=now)
    if put.above is not None:
        above = put.above
        state = lanes.kept(state, above.ends, columns, rows=len(above.cursors), left=above.left)
        state = _ended(state, put.failed, limits=limits, release=put.release, now=now)
    state = aside.keyed(state, columns)
    if put.drained:
        state = transitions.drained(state)
    if put.above is not None:
        state = lanes.fitting(state)
    calls = put.calls
    if not calls:
        return state
    return noted(
        state,
        rows=sum(call.rows for call in calls),
        batches=len(calls),
        handler_seconds=sum(call.seconds for call in calls),
        last=last,
        now=now,
    )


def _landed(state: State, landing: Landing, *, limits: Limits, release: bool, now: datetime) -> State:
    """With `release` (nothing else is to be done) or if the verdict says so, the lease is given back."""
    releases = release or landing.verdict.releases
    to = landing.to
    if to is not None:
        state = transitions.commit(
            state,
            cursor=to,
            batch_id=landing.batch_id,
            metadata={"row_count": landing.verdict.delivered},
            release=releases,
            now=now,
            memory=landing.memory,
            facts=landing.facts,
        )
    elif releases:
        state = transitions.release(state, give_back=False, now=now)
    else:
        state = transitions.renew(state, now=now)
    return _applied(state, landing, limits=limits, now=now)


def _ended(state: State, failed: Sequence[Landing], *, limits: Limits, release: bool, now: datetime) -> State:
    """Lanes stop: what the calls that failed in them change. With `release`, or if one of them says so, the lease is
    given back."""
    fails = any(one.verdict.releases for one in failed)
    if release or fails:
        state = transitions.release(state, give_back=not fails, now=now)
    else:
        state = transitions.renew(state, now=now)
    for one in failed:
        state = _applied(state, one, limits=limits, now=now)
    return state


def _applied(state: State, landing: Landing, *, limits: Limits, now: datetime) -> State:
    """What a call changes beside checkpoint and lease."""
    verdict, error = landing.verdict, landing.error
    state = apply(state, landing.plan, verdict, limits=limits, now=now)
    if verdict.failed and error is not None:
        error = error if error.at is not None else error.model_copy(update={"at": now})
        state = state.model_copy(update={"delivery": state.delivery.model_copy(update={"last_error": error})})
    failures = backoff.failures_of(state)
    if verdict.halts or 0 < verdict.halts_at <= failures:
        line = "" if error is None else f": {error.type}{f': {error.message}' if error.message else ''}"
        often = "was rejected" if verdict.halts else f"failed {transitions.times(failures)}"
        state = transitions.halt(state, reason=f"{landing.blame} {often}{line}"[:LONGEST_REASON], now=now)
    return state
