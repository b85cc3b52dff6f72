"""What the list of all pollers says: one line each, the worst first and then by name, in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from poller.config.types import is_name
from poller.http.page.list_query import ListQuery
from poller.http.page.words import KINDS, NOTHING, Kind, PageWord, When, condition, number, seconds, when
from poller.http.shown import ShownHealth
from poller.model.view import SEVERITIES, Severity

MOST = 200
"""Pollers on a page."""


@dataclass(frozen=True, slots=True)
class Line:
    """One poller."""

    name: str
    linked: bool
    """True if it may be a poller's: any other text, out of a store that others write, could lead elsewhere."""
    condition: PageWord
    why: str | None
    error: str | None
    """The type of the error, if a call failed."""
    next_step: str | None
    lag: str
    pending: str
    aside: str
    quarantined: str
    waits: bool
    """True if a person should look at rows that failed."""
    commit: When | None
    no_commit: str
    """Said where there is no moment of one."""
    owner: str | None


@dataclass(frozen=True, slots=True)
class Count:
    """The number of the pollers searched that have a severity. `link`: to these; of the chosen one, to all."""

    severity: Severity
    kind: Kind
    pollers: str
    chosen: bool
    link: str


@dataclass(frozen=True, slots=True)
class ListPage:
    """The list. `asked`: which part of it. `total`: all pollers. `place`: which of how many are listed.

    Attributes:
        previous, next: links to the pages beside this one; None if there is none.
    """

    app_name: str
    environment: str | None
    at: str
    asked: ListQuery
    counts: Sequence[Count]
    lines: Sequence[Line]
    total: int
    place: str
    previous: str | None
    next: str | None


def listing_of(health: ShownHealth, asked: ListQuery) -> ListPage:
    """A part of the list of an application's pollers. A page behind the last one is the last one: pollers may have got
    well since the link to it was shown."""
    sought = asked.name.casefold()
    named = [part for part in health.parts if sought in part["name"].casefold()]
    severities = [part["severity"] for part in named]
    found = sorted((part for part in named if asked.severity in ("", part["severity"])), key=_place)
    last = max(1, -(-len(found) // MOST))
    asked = replace(asked, page=min(asked.page, last))
    first = (asked.page - 1) * MOST
    lines = [line_of(part, health.computed_at) for part in found[first : first + MOST]]
    at = when(health.computed_at, health.computed_at)
    return ListPage(
        app_name=health.app_name,
        environment=health.environment,
        at="" if at is None else at.exact,
        asked=asked,
        counts=[_count(one, severities.count(one), asked) for one in reversed(SEVERITIES)],
        lines=lines,
        total=len(health.parts),
        place=f"{number(first + 1)} to {number(first + len(lines))} of {number(len(found))}" if lines else "",
        previous=asked.link(page=asked.page - 1) if asked.page > 1 else None,
        next=asked.link(page=asked.page + 1) if asked.page < last else None,
    )


def _place(part: Mapping[str, Any]) -> tuple[int, str]:
    return -SEVERITIES.index(part["severity"]), part["name"]


def _count(severity: Severity, pollers: int, asked: ListQuery) -> Count:
    chosen = asked.severity == severity
    link = asked.link(severity="" if chosen else severity, page=1)
    return Count(severity, KINDS[severity], number(pollers), chosen, link)


def line_of(part: Mapping[str, Any], now: datetime) -> Line:
    """One poller, as its health says."""
    return Line(
        name=part["name"],
        linked=is_name(part["name"]),
        condition=condition(part),
        why=None if part["word"] == "idle" else part["sentence"],
        error=part["error_type"],
        next_step=part["next_step"],
        lag=seconds(part["lag_seconds"]),
        pending=number(part["pending"], at_least=part["pending_capped"]),
        aside=number(part["aside"]),
        quarantined=number(part["quarantined"]),
        waits=bool(part["quarantined"]),
        commit=when(part["committed_at"], now),
        no_commit=NOTHING if part["exists"] is None else "none yet",
        owner=part["owner_id"],
    )
