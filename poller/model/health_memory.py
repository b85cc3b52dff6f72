"""What looks at the health of a poller find, and what later ones remember of it; `poller.model.health` judges it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field

from poller.model.stamps import Stamp

GRAIN = 1.0
"""Seconds by which a row may seem to be above a bound that it was below: it is aged a moment later."""
SLACK = 60.0
"""Seconds: what is stamped farther ahead of the store's clock is of a clock that was wrong, and counts for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a look found in the database.

    Attributes:
        readable: whether a row below the bound waits. above: whether rows wait, and all of them above the bound.
        age: of the oldest row that waits, by the database's clock; None where the cursor is not a time.
        bound_age: how far the bound lies behind the database's clock. held: whether somebody holds it back.
        below_checkpoint: the server has not come as far as the checkpoint.
    """

    readable: bool
    above: bool = False
    age: float | None = None
    bound_age: float | None = None
    held: bool = False
    below_checkpoint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one look found.

    Attributes:
        now: the store's clock. exists: whether there is a document.
        blocked: the quarantine is full. trouble: the document could not be read, or is of another source.
        committed_at: when the checkpoint moved last, was made or reset. generation: of the checkpoint.
        began: nothing was committed since the document was made or reset, so `committed_at` is when that was.
        changed_at: an operator's last change. retry_at: when the next call may be made after one that failed; it may
            have passed.
        aside_due_at: since when a row that is set aside may be tried again; None where none may. aside_due: how many
            may.
        at_work_since: since when a worker has held the live lease, in the first try of a batch; None where nobody does.
        rows: None where the database was not asked, or did not answer.
    """

    now: datetime
    exists: bool = True
    paused: bool = False
    halted: bool = False
    blocked: bool = False
    trouble: bool = False
    committed_at: datetime | None = None
    generation: int = 0
    began: bool = False
    changed_at: datetime | None = None
    retry_at: datetime | None = None
    aside_due_at: datetime | None = None
    aside_due: int = 0
    at_work_since: datetime | None = None
    rows: Rows | None = None

    @property
    def progress(self) -> datetime | None:
        """The last thing that counts as progress; the end of a pause after a failure may lie ahead."""
        known = [at for at in (self.committed_at, self.changed_at, self.retry_at) if at is not None]
        return max(known, default=None)


class Seen(BaseModel):
    """What looks remember of a poller for later ones; moments by the store's clock.

    Attributes:
        clear_at: the last look at which no row was readable. waiting_since: since when rows were, in an unbroken run of
            looks. above_since: since when rows waited and none was readable.
        run_since, run_below: the first look since `clear_at` that saw rows, and its bound: a row stamped before that
            could be read then. Of a later look, once the rows below that bound are delivered.
        held_at, held_below: the last look at which somebody held the bound back, and the bound: a row stamped after
            that could not be read then.
        distance: how many seconds the bound lay behind the database's clock when nobody held it back.
        unborn_since: the first look at which there was no document. began_at: when it was made or reset, in this
            `generation`.
    """

    model_config = ConfigDict(frozen=True)

    clear_at: Stamp | None = None
    waiting_since: Stamp | None = None
    above_since: Stamp | None = None
    run_since: Stamp | None = None
    run_below: Stamp | None = None
    held_at: Stamp | None = None
    held_below: Stamp | None = None
    distance: float | None = Field(default=None, ge=0.0)
    unborn_since: Stamp | None = None
    began_at: Stamp | None = None
    generation: int = 0

    def until(self, now: datetime) -> Seen:
        """Without what would lie ahead: it was written by a clock that was wrong."""
        fields = ("clear_at", "waiting_since", "above_since", "run_since", "held_at", "unborn_since", "began_at")
        ahead = [name for name in fields if (at := getattr(self, name)) is not None and is_ahead(at, now)]
        return self.model_copy(update=dict.fromkeys(ahead)) if ahead else self


def is_ahead(at: datetime, now: datetime) -> bool:
    """Whether a moment that should have been lies so far ahead that its clock was wrong."""
    return (at - now).total_seconds() > SLACK


def remembered(before: Seen | None, facts: Facts) -> Seen:
    """What to remember after a look. A database that did not answer changes nothing of it."""
    seen, now = (before or Seen()).until(facts.now), facts.now
    if facts.trouble:
        return seen
    learned: dict[str, datetime | float | None] = {"unborn_since": None if facts.exists else seen.unborn_since or now}
    looked = seen.clear_at is not None or seen.waiting_since is not None
    anew = seen.unborn_since is not None or (looked and seen.generation != facts.generation)
    if facts.exists and (facts.began or anew or seen.generation != facts.generation):
        # Where a first batch is committed already: since the last look.
        learned |= {
            "began_at": facts.committed_at if facts.began or anew else None,
            "generation": facts.generation,
        }
    if facts.rows is not None and facts.rows.bound_age is not None:
        if facts.rows.held:
            learned |= {"held_at": now, "held_below": ago(now, facts.rows.bound_age)}
        else:
            learned["distance"] = max(0.0, facts.rows.bound_age)
    if facts.rows is not None and facts.rows.readable:
        learned |= {"above_since": None, "waiting_since": _waiting_since(seen, facts)}
        learned |= _run(seen, now, facts.rows)
    elif facts.rows is not None:
        above_since = (seen.above_since or now) if facts.rows.above else None
        learned |= {"clear_at": now, "waiting_since": None, "above_since": above_since}
        learned |= {"run_since": None, "run_below": None}
    return seen.model_copy(update=learned)


def _waiting_since(seen: Seen, facts: Facts) -> datetime:
    """The first look that saw a row that may be read, since the last that saw none and since the last commit."""
    since, committed_at = seen.waiting_since, facts.committed_at
    if since is not None:
        return facts.now if committed_at is not None and committed_at > since else since
    is_first = seen.clear_at is None and facts.exists
    tells_nothing = facts.rows is None or facts.rows.age is None
    return committed_at or facts.now if is_first and tells_nothing else facts.now


def _run(seen: Seen, now: datetime, rows: Rows) -> dict[str, datetime | float | None]:
    if rows.age is None or rows.bound_age is None:
        return {"run_since": None, "run_below": None}
    if covers(seen, ago(now, rows.age)):
        return {}
    return {"run_since": now, "run_below": ago(now, rows.bound_age)}


def covers(seen: Seen, stamped: datetime) -> bool:
    """Whether a row that was stamped then was below the bound at `run_since`."""
    return seen.run_since is not None and seen.run_below is not None and stamped <= seen.run_below


def was_held_back(seen: Seen, stamped: datetime) -> bool:
    """Whether a row that was stamped then was above the bound at `held_at`."""
    return seen.held_below is not None and (stamped - seen.held_below).total_seconds() > GRAIN


def ago(now: datetime, seconds: float) -> datetime:
    """So many seconds before now; the first moment there is, where that lies beyond."""
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=now.tzinfo)
