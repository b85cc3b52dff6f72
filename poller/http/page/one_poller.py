"""What the page of one poller says: its health, and what the store knows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from poller.http.page.charts import Charts, charts_of
from poller.http.page.details import Details, LeaseNow
from poller.http.page.listing import Line, line_of
from poller.http.page.words import NOTHING, PageWord, When, condition, number, seconds, when, without_secrets
from poller.model.when import moment

RESUMED = "It was resumed since its health was computed, which is done anew within 15 s."
"""Said for that long, instead of the halt or the pause."""


@dataclass(frozen=True, slots=True)
class ShownLease:
    """The lease now. `state`: whether somebody works, in a sentence."""

    state: str
    owner: str | None
    token: str
    since: When | None
    heartbeat: When | None
    expires: When | None


@dataclass(frozen=True, slots=True)
class ShownBound:
    """Below what rows are read, and what holds it."""

    kind: str
    age: str
    held_by: str | None
    held: str | None


@dataclass(frozen=True, slots=True)
class Failed:
    """A row that failed."""

    id: str
    waits_for: str
    since: When | None
    failures: str
    next_try: str
    error_type: str | None


@dataclass(frozen=True, slots=True)
class Changed:
    """A record of the audit trail."""

    kind: str
    by: str | None
    at: When | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class PollerPage:
    """The page. `known`: the store was read; without, only the health is shown. `complete`: the look at its health
    was. `token`: with which it asks for changes; None where none are offered."""

    name: str
    at: str
    line: Line
    condition: PageWord
    paused: bool
    halted: bool
    control: str | None
    late: str
    complete: bool
    bound: ShownBound | None
    known: bool
    wrong: str | None
    attempt: str | None
    charts: Charts | None
    lease: ShownLease | None
    rows: Sequence[Failed]
    waiting: str
    more: int
    changes: Sequence[Changed] | None
    token: str | None = field(default=None, repr=False)


def page_of(
    part: Mapping[str, Any], computed_at: datetime, details: Details | None, token: str | None = None
) -> PollerPage:
    """The page of a poller, from its health, computed then, and its details, where the store gave them."""
    now = computed_at if details is None else details.now
    read = details is not None and details.wrong is None
    if details is not None and read and details.exists:
        part = _since(part, details)
    halted, paused = bool(part["halted"]), bool(part["paused"])
    complete = part["exists"] is not None and part["error"] is None
    return PollerPage(
        name=part["name"],
        at=moment(now),
        line=line_of(part, computed_at),
        condition=PageWord("resumed", "calm") if part["reason"] == RESUMED else condition(part),
        paused=paused,
        halted=halted,
        control=_control(details) if details is not None and paused else None,
        late=_late(part["late_seconds"], complete=complete),
        complete=complete,
        bound=None if part["bound"] is None else _bound(part["bound"]),
        known=details is not None,
        wrong=None if details is None else details.wrong,
        attempt=None if details is None else _attempt(details),
        charts=charts_of(details.slots, now) if details is not None and read else None,
        lease=None if details is None or details.lease is None else _lease(details.lease, now),
        rows=() if details is None else _rows(details, now),
        waiting=number(0 if details is None else details.waiting),
        more=0 if details is None else details.waiting - len(details.rows),
        changes=None if details is None else _changes(details, now),
        token=token,
    )


def _since(part: Mapping[str, Any], details: Details) -> Mapping[str, Any]:
    """The health, which may be some seconds older than the document, without a halt or pause that ended since."""
    ended = (part["halted"] and not details.halted) or (part["paused"] and not details.paused)
    now: dict[str, Any] = {**part, "halted": details.halted, "paused": details.paused}
    if ended and part["error"] is None and (part["halted"] or part["healthy"]):
        now |= {"healthy": True, "reason": RESUMED, "next_step": None, "waiting_for": None}
        if details.paused or details.halted:
            now["reason"] = None
    return now


def _late(late: float | None, *, complete: bool) -> str:
    if late is not None:
        return seconds(late)
    return "no" if complete else NOTHING


def _control(details: Details) -> str:
    """Who paused it, and why."""
    by = f"Paused by {details.control_by}" if details.control_by else "Paused"
    reason = without_secrets(details.control_reason)
    return f"{by}: {reason}" if reason else f"{by}."


def _attempt(details: Details) -> str | None:
    """What happens to the batch in hand, where it failed."""
    if details.last_error_type is None:
        return None
    return f"Attempt {details.attempts:,}, which last failed with {details.last_error_type}"


def _lease(lease: LeaseNow, now: datetime) -> ShownLease:
    if lease.live and lease.kept_by is not None:
        state = f"Kept for {lease.kept_by}: nobody works"
    elif lease.live:
        state = "A worker is at work"
    else:
        state = "Free: nobody is at work"
    return ShownLease(
        state=state,
        owner=lease.owner,
        token=number(lease.token),
        since=when(lease.since, now),
        heartbeat=when(lease.heartbeat, now),
        expires=when(lease.expires, now),
    )


def _bound(part: Mapping[str, Any]) -> ShownBound:
    held = part["held_seconds"]
    return ShownBound(
        part["kind"], seconds(part["age_seconds"]), part["held_by"], None if held is None else seconds(held)
    )


def _rows(details: Details, now: datetime) -> list[Failed]:
    found = []
    for row in details.rows:
        retry = when(row.retry_at, now)
        if row.person:
            next_try = "none by itself"
        elif row.behind:
            next_try = "after the row before it"
        else:
            next_try = retry.age if retry is not None and retry.age.startswith("in ") else "now"
        found.append(
            Failed(
                id=row.id,
                waits_for="a person" if row.person else "its next try",
                since=when(row.since, now),
                failures=number(row.failures),
                next_try=next_try,
                error_type=row.error_type,
            )
        )
    return found


def _changes(details: Details, now: datetime) -> list[Changed] | None:
    if details.changes is None:
        return None
    return [Changed(one.kind, one.by, when(one.at, now), without_secrets(one.reason)) for one in details.changes]
