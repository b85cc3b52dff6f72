"""A health, as it is answered: every text cut, without secrets, in JSON that is made once for all callers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from poller.http.messages import in_json
from poller.model.escape import cut, each_text
from poller.model.redact import redact

if TYPE_CHECKING:
    from poller.admin.health import Health, PollerHealth

_TEXTS = ("error", "reason", "next_step")
"""Fields that may quote what a database or a store said."""


@dataclass(frozen=True, slots=True)
class ShownPoller:
    """One poller. `body`: all that is said of it."""

    pending: int | None
    lag_seconds: float | None
    body: bytes


@dataclass(frozen=True, slots=True)
class ShownHealth:
    """An application. `body`: all that is said of it. `pollers`: each by its name."""

    healthy: bool
    computed_at: datetime
    body: bytes
    pollers: Mapping[str, ShownPoller]


def shown_health(health: Health, *, quiet: Collection[str] = ()) -> ShownHealth:
    """A health in the form in which it is answered.

    Args:
        health: as computed, or as read from the store, where others may write. quiet: pollers of
            which no text of an error may be shown (`error_text = false`).
    """
    parts = [_part(one, quiet=one.name in quiet) for one in health.pollers]
    whole = each_text(health.model_dump(mode="json", exclude={"pollers"}), cut)
    pollers = {
        one.name: ShownPoller(one.pending, one.lag_seconds, in_json(part))
        for one, part in zip(health.pollers, parts, strict=True)
    }
    return ShownHealth(health.healthy, health.computed_at, in_json({**whole, "pollers": parts}), pollers)


def _part(one: PollerHealth, *, quiet: bool) -> dict[str, Any]:
    data: dict[str, Any] = one.model_dump(mode="json")
    for name in _TEXTS:
        if isinstance(data.get(name), str):
            data[name] = redact(data[name])
    if quiet and data.get("error") is not None:
        data["error"] = "not shown: error_text is false"
    shown: dict[str, Any] = each_text(data, cut)
    return shown
