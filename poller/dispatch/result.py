"""What one round of the dispatcher came to."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from poller.model.result import ResultModel
from poller.model.stamps import Stamp

Why = Literal["rows", "not known", "no answer", "no document", "unreadable", "configuration", "waits", "unchanged"]


class SentOutput(ResultModel):
    """A message that was sent."""

    poller: str
    """For which poller."""
    due: Stamp
    """The moment since which it is due."""
    why: Why
    """`rows`: rows wait below the bound. `not known`: rows wait, and the bound is not known. `no answer`: the database
    did not say; its worker says why. `no document`: it never ran. `unreadable`: its document, or one of another source.
    `configuration`: of this poller is wrong. `waits`: a call that failed, or a row that is set aside, may be tried.
    `unchanged`: its document was not written for a week, and its worker writes it once more."""


class DispatchOutput(ResultModel):
    """One round of the dispatcher (`poller dispatch`)."""

    at: Stamp
    """When it began, by this machine's clock."""
    pollers: int = Field(ge=0)
    """The number that the file configures."""
    documents: int = Field(ge=0)
    """The number of them that have a state document."""
    read: int = Field(ge=0)
    """Documents that were read, because they changed."""
    at_work: int = Field(ge=0)
    """Pollers at which a worker works, by their document."""
    resting: int = Field(ge=0)
    """Pollers that are paused or halted, or that wait after a call that failed."""
    due: int = Field(ge=0)
    """Pollers that may work and are due."""
    late_seconds: float = Field(ge=0)
    """The time for which the first of those has been due; 0 if none is."""
    asked: int = Field(ge=0)
    """Of how many the database was asked whether rows wait."""
    waiting: int = Field(ge=0)
    """Pollers whose message was sent earlier and not taken yet."""
    sent: list[SentOutput]
    """Messages sent, the poller that is due for longest first."""
    poison: int = Field(ge=0)
    """Messages that were removed from the queue of those that failed."""
    kept: bool
    """True if it was written how far the schedules were looked at."""
    duration_seconds: float = Field(ge=0)
    """The time it took."""
