"""What the list of all pollers says: one line each, the worst first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poller.http.page.words import NOTHING, PageWord, When, condition, number, seconds, when
from poller.http.shown import ShownHealth
from poller.model.view import SEVERITIES

MOST = 200
"""So many pollers are listed: the worst."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True, slots=True)
class Line:
    """One poller."""

    name: str
    linked: bool
    """Whether it may be a poller's: any other text, out of a store that others write, could lead elsewhere."""
    condition: PageWord
    why: str | None
    next_step: str | None
    lag: str
    pending: str
    aside: str
    quarantined: str
    waits: bool
    """Whether a person should look at rows that failed."""
    commit: When | None
    no_commit: str
    """Said where there is no moment of one."""
    owner: str | None


@dataclass(frozen=True, slots=True)
class ListPage:
    """The list. `counts`: how many pollers are unhealthy, give a warning, and are well. `left`: are not listed."""

    app_name: str
    at: str
    counts: Sequence[int]
    lines: Sequence[Line]
    left: int


def listing_of(health: ShownHealth) -> ListPage:
    """The list of an application's pollers."""
    severities = [part["severity"] for part in health.parts]
    at = when(health.computed_at, health.computed_at)
    return ListPage(
        app_name=health.app_name,
        at="" if at is None else at.exact,
        counts=[severities.count(one) for one in reversed(SEVERITIES)],
        lines=[line_of(part, health.computed_at) for part in health.parts[:MOST]],
        left=max(0, len(severities) - MOST),
    )


def line_of(part: Mapping[str, Any], now: datetime) -> Line:
    """One poller, as its health says."""
    return Line(
        name=part["name"],
        linked=_NAME.fullmatch(part["name"]) is not None,
        condition=condition(part),
        why=None if part["word"] == "idle" else part["sentence"],
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
