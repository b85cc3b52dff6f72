"""What the page of one poller says: its health, and what the store knows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from poller.http.page.charts import Charts, charts_of
from poller.http.page.details import Details
from poller.http.page.listing import Line, line_of
from poller.http.page.words import seconds
from poller.model.when import moment


@dataclass(frozen=True, slots=True)
class ShownBound:
    """Below what rows are read, and what holds it."""

    kind: str
    age: str
    held_by: str | None


@dataclass(frozen=True, slots=True)
class PollerPage:
    """The page. `details`: what the store said; without, only the health is shown. `complete`: the look at its health
    was. `also`: what is so beside the worst. `token`: with which it asks for changes; None if none are offered."""

    name: str
    at: str
    line: Line
    paused: bool
    halted: bool
    also: Sequence[str]
    complete: bool
    bound: ShownBound | None
    details: Details | None
    charts: Charts | None
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
    bound = part["bound"]
    return PollerPage(
        name=part["name"],
        at=moment(now),
        line=line_of(part, computed_at),
        paused=paused,
        halted=halted,
        also=also,
        complete=part["pending"] is not None,
        bound=None if bound is None else ShownBound(bound["kind"], seconds(bound["age_seconds"]), bound["held_by"]),
        details=details,
        charts=charts_of(details.slots, now) if details is not None and read else None,
        token=token,
        environment=environment,
    )
