"""What one look found of a poller, and the picture that is made of it (`poller.model.conditions`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["well", "warning", "unhealthy"]
SEVERITIES: tuple[Severity, ...] = ("well", "warning", "unhealthy")
"""From the best to the worst."""
PATIENCE = 300.0
"""Seconds, beside `lease_ttl`, without progress, from which on a poller is unhealthy."""
TABLE = (
    "misconfigured", "store_away", "unreadable", "halted", "other_source", "source_away", "source_unreadable",
    "capture_gap", "source_behind", "blocked", "failing", "crashing", "hung", "never_ran", "late", "not_retried",
    "clock_behind", "quarantine_full", "bound_held", "silent", "cancelling", "pausing", "paused", "quarantined",
    "unread", "two_apps", "reserved", "working", "new", "scheduled", "behind", "settling", "idle", "moved", "set_aside",
    "finished", "not_running",
)  # fmt: skip
"""The names of all conditions, those that stand first in a view first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerLimits:
    """The options that a poller is judged by; times in seconds.

    Attributes:
        following: the first moment of the schedule after one.
        backfill: True if it is the poller of a backfill, which no schedule runs.
    """

    following: Callable[[datetime], datetime] = field(default=lambda at: at + timedelta(seconds=10))
    ttl: float = 60.0
    heartbeat: float = 15.0
    handler_timeout: float = 270.0
    max_lag: float | None = None
    max_bound_age: float | None = None
    on_poison: Literal["block", "halt", "quarantine"] = "block"
    max_quarantined: int = 100
    starts_now: bool = False
    backfill: bool = False

    @property
    def patience(self) -> float:
        """The time that a poller may go without progress while rows wait."""
        return PATIENCE + self.ttl


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerFacts:
    """What one look found. Moments are the store's clock, ages the database's own seconds; None: not known.

    Attributes:
        config: the first line of why the configuration cannot be used. store, document, source: what could not be read.
        trouble, differs: the text of what could not be read, and what of the source is another: an operator's. step:
            what the error says to do: an operator's too.
        moved_at, moved_by: the last reset, and what and who made it.
        by, why, at: of the pause or the halt.
        worker: who holds a live lease for delivering; kept_by: who keeps it for an operator.
        failures, retry_at: of the batch that is tried again; row, searching: which row fails, and whether it is sought.
        aside_due_since: since when a row set aside may be tried again.
        readable: whether a row may be read now; age: of the oldest row, held_by: what holds back those above the bound.
        distance: for how many seconds after its stamp a row cannot be read yet.
        clock_back: seconds until the database's clock is where it was.
        unfinished: whether an interrupted tick left rows. left_until: when its lease ended or ends.
        first_look: whether a number as cursor is looked at for the first time: since when its rows wait is not known.
        two_apps: what another configuration is that works under the same name.
        finished: of a backfill. goes_on: the command that goes on with one, which holds its range: an operator's.
    """

    name: str
    now: datetime
    config: str | None = None
    store: Literal["away", "denied"] | None = None
    document: Literal["there", "none", "gone", "unreadable", "newer"] = "there"
    source: Literal["away", "error", "gap", "other", "unasked"] | None = None
    trouble: str | None = None
    step: str | None = None
    differs: str | None = None
    created_at: datetime | None = None
    committed_at: datetime | None = None
    changed_at: datetime | None = None
    moved_at: datetime | None = None
    moved_by: str | None = None
    paused: bool = False
    cancelled: bool = False
    halted: bool = False
    by: str | None = None
    why: str | None = None
    at: datetime | None = None
    worker: str | None = None
    kept_by: str | None = None
    lease_live: bool = False
    lease_since: datetime | None = None
    heartbeat_age: float | None = None
    expires_in: float | None = None
    attempts: int = 0
    failures: int = 0
    retry_at: datetime | None = None
    error_type: str | None = None
    error_text: str | None = None
    error_at: datetime | None = None
    row: str | None = None
    row_key: tuple[str, ...] = ()
    searching: bool = False
    aside: int = 0
    aside_due: int = 0
    aside_due_since: datetime | None = None
    quarantined: int = 0
    readable: bool = False
    pending: int = 0
    capped: bool = False
    age: float | None = None
    distance: float = 0.0
    held_by: str | None = None
    clock_back: float | None = None
    below_checkpoint: bool = False
    null_cursors: int = 0
    unfinished: bool = False
    left_until: datetime | None = None
    first_look: bool = False
    two_apps: str | None = None
    finished: bool = False
    goes_on: str | None = None

    @property
    def progress(self) -> datetime | None:
        """The last commit, reset, or change by an operator; the creation, if there was none."""
        known = (self.committed_at, self.changed_at, self.moved_at)
        return max((at for at in known if at is not None), default=self.created_at)


def title(name: str) -> str:
    """A condition's name for people."""
    return name.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that is so. `since`: from when on, if that is known."""

    name: str
    severity: Severity
    sentence: str
    next: str | None = None
    since: datetime | None = None
    detail: str | None = None
    do: str | None = None


@dataclass(frozen=True, slots=True)
class PollerView:
    """The picture: its word and severity, and every condition, the worst first. `late`: how many seconds ago the first
    moment of the schedule was from which on a tick should have delivered the oldest row that may be read; None if that
    is to come, or nothing waits. `error_type`: the class of the error with which a call failed, if the handler's rows
    fail; None for a text that no class could have as its name."""

    name: str
    word: str
    severity: Severity
    conditions: tuple[Condition, ...]
    late: float | None = None
    error_type: str | None = None

    @property
    def healthy(self) -> bool:
        """True if a person needs to do nothing now."""
        return self.severity != "unhealthy"

    @property
    def sentence(self) -> str:
        """The sentence of the first condition."""
        return self.conditions[0].sentence

    @property
    def next(self) -> str | None:
        """The first step that any condition names."""
        return next((one.next for one in self.conditions if one.next), None)
