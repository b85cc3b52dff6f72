"""What looks at a poller remember for later ones: four moments that no document says (`poller.model.conditions`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict

from poller.model.stamps import Stamp
from poller.model.view import PollerFacts

SLACK = 60.0
"""Seconds: what is stamped farther ahead of the store's clock is of a clock that was wrong, and counts for nothing."""
CLOSE = 60.0
"""Seconds: two looks so close to each other say when a number came that only the second one saw."""


class PollerMemory(BaseModel):
    """What looks remember of a poller; moments by the store's clock.

    Attributes:
        clear_at: the last look at which no row could be read. waiting_since: since when rows could be, in an unbroken
            run of looks and since the last progress. above_since: since when rows have waited and none could be read.
        unborn_since: the first look at which there was no document.
    """

    model_config = ConfigDict(frozen=True)

    clear_at: Stamp | None = None
    waiting_since: Stamp | None = None
    above_since: Stamp | None = None
    unborn_since: Stamp | None = None

    def until(self, now: datetime) -> PollerMemory:
        """Without what would lie ahead: it was written by a clock that was wrong."""
        ahead = [name for name, at in self if at is not None and is_ahead(at, now)]
        return self.model_copy(update=dict.fromkeys(ahead)) if ahead else self

    def for_others(self) -> PollerMemory:
        """What may pass from one process to another: never when no row could be read, since that makes rows less late,
        and a store may hold what others wrote."""
        return self.model_copy(update={"clear_at": None})

    def moments(self) -> Mapping[str, datetime]:
        """As `poller.model.conditions.view` takes them."""
        return {name.rpartition("_")[0]: at for name, at in self if at is not None}


def is_ahead(at: datetime, now: datetime) -> bool:
    """True if a moment that should have been lies so far ahead that its clock was wrong."""
    return (at - now).total_seconds() > SLACK


def remembered(before: PollerMemory | None, facts: PollerFacts) -> tuple[PollerMemory, PollerFacts]:
    """What to remember after a check, and its facts with what only the memory says: whether a number is looked at for
    the first time. A document or a database that did not answer changes nothing of it."""
    seen = (before or PollerMemory()).until(facts.now)
    if facts.config or facts.store or facts.document not in {"there", "none"}:
        return seen, facts
    is_new = seen.clear_at is None and seen.waiting_since is None
    number = facts.readable and facts.age is None and facts.document == "there"
    learned: dict[str, datetime | None] = {"unborn_since": None}
    if facts.document == "none":
        learned["unborn_since"] = seen.unborn_since or facts.now
    if facts.source is None and facts.readable:
        learned |= {"above_since": None, "waiting_since": _waiting_since(seen, facts)}
    elif facts.source is None:
        above = (seen.above_since or facts.now) if facts.pending else None
        learned |= {"clear_at": facts.now, "waiting_since": None, "above_since": above}
    return seen.model_copy(update=learned), replace(facts, first_look=number and is_new)


def kept(seen: PollerMemory, facts: PollerFacts) -> PollerMemory | None:
    """What of it must outlive this process, since nothing else says it: that rows wait for long whose cursor is a
    number, and that there was no document. None if there is nothing."""
    progress = facts.progress
    untold = facts.age is None and (progress is None or facts.now - progress > timedelta(seconds=CLOSE))
    found = seen if untold else PollerMemory(unborn_since=seen.unborn_since)
    found = found.for_others()
    return None if found == PollerMemory() else found


def _waiting_since(seen: PollerMemory, facts: PollerFacts) -> datetime:
    """The first look that saw a row that may be read, since the last that saw none and since the last progress; that
    look, or the progress, if it was just before."""
    since, progress = seen.waiting_since, facts.progress
    if since is not None and (progress is None or progress <= since):
        return since
    before = max((at for at in (seen.clear_at, progress) if at is not None and at <= facts.now), default=facts.now)
    return before if facts.now - before <= timedelta(seconds=CLOSE) else facts.now
