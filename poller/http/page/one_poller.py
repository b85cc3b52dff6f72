"""What the page of one poller says: its health, and what the store knows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from poller.http.page.charts import Charts, charts_of
from poller.http.page.details import Details, LeaseNow
from poller.http.page.listing import Line, line_of
from poller.http.page.words import PageWord, When, condition, number, seconds, when, without_secrets
from poller.model.when import moment


@dataclass(frozen=True, slots=True)
class ShownLease:
    """The lease now. `state`: whether a worker is at work, in a sentence."""

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
class AuditLine:
    """A record of the audit trail."""

    kind: str
    by: str | None
    at: When | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class PollerPage:
    """The page. `known`: the store was read; without, only the health is shown. `complete`: the look at its health was.
    `also`: what is so beside the worst. `token`: with which it
    asks for changes; None if none are offered."""

    name: str
    at: str
    line: Line
    condition: PageWord
    paused: bool
    halted: bool
    also: Sequence[str]
    complete: bool
    bound: ShownBound | None
    known: bool
    wrong: str | None
    charts: Charts | None
    lease: ShownLease | None
    rows: Sequence[Failed]
    waiting: str
    more: int
    changes: Sequence[AuditLine] | None
    token: str | None = field(default=None, repr=False)
    environment: str | None = None


def page_of(
    part: Mapping[str, Any],
    computed_at: datetime,
    details: Details | None,
    token: str | None = None,
    environment: str | None = None,
) -> PollerPage:
    """The page of a poller, from its health, computed then, and its details, if the store gave them."""
    now = computed_at if details is None else details.now
    read = details is not None and details.wrong is None
    now_known = details if details is not None and read and details.exists else None
    halted = bool(part["halted"]) if now_known is None else now_known.halted
    paused = bool(part["paused"]) if now_known is None else now_known.paused
    names = {one["name"] for one in part["conditions"]}
    also = [one["sentence"] for one in part["conditions"][1:] if one["name"] != "idle"]
    if details is not None and details.wrong is not None and "unreadable" not in names:  # since that look
        also.append(details.wrong)
    complete = part["pending"] is not None
    return PollerPage(
        name=part["name"],
        at=moment(now),
        line=line_of(part, computed_at),
        condition=condition(part),
        paused=paused,
        halted=halted,
        also=also,
        complete=complete,
        bound=None if part["bound"] is None else _bound(part["bound"]),
        known=details is not None,
        wrong=None if details is None else details.wrong,
        charts=charts_of(details.slots, now) if details is not None and read else None,
        lease=None if details is None or details.lease is None else _lease(details.lease, now),
        rows=() if details is None else _rows(details, now),
        waiting=number(0 if details is None else details.waiting),
        more=0 if details is None else details.waiting - len(details.rows),
        changes=None if details is None else _changes(details, now),
        token=token,
        environment=environment,
    )


def _lease(lease: LeaseNow, now: datetime) -> ShownLease:
    if lease.live and lease.kept_by is not None:
        state = f"Kept for {lease.kept_by}: no worker starts"
    elif lease.live:
        state = "A worker is at work"
    else:
        state = "Free: no worker holds it"
    return ShownLease(
        state=state,
        owner=lease.owner,
        token=number(lease.token),
        since=when(lease.since, now),
        heartbeat=when(lease.heartbeat, now),
        expires=when(lease.expires, now),
    )


def _bound(part: Mapping[str, Any]) -> ShownBound:
    return ShownBound(part["kind"], seconds(part["age_seconds"]), part["held_by"])


def _rows(details: Details, now: datetime) -> list[Failed]:
    found = []
    for row in details.rows:
        retry = when(row.retry_at, now)
        if row.person:
            next_try = "none automatically"
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


def _changes(details: Details, now: datetime) -> list[AuditLine] | None:
    if details.changes is None:
        return None
    return [AuditLine(one.kind, one.by, when(one.at, now), without_secrets(one.reason)) for one in details.changes]
