"""A health, as it is answered: every text cut, without secrets, in JSON that is made once for all callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from poller.http.messages import in_json
from poller.model.escape import cut, each_text
from poller.model.redact import redact

if TYPE_CHECKING:
    from poller.admin.health import Health, PollerHealth


@dataclass(frozen=True, slots=True)
class ShownPoller:
    """One poller. `pending`: rows to hand over, those among the ones set aside that may be tried now included. `body`:
    all that is said of it."""

    pending: int | None
    lag_seconds: float | None
    body: bytes


@dataclass(frozen=True, slots=True)
class ShownHealth:
    """An application. `body`: all that is said of it. `pollers`: each by its name. `parts`: what is said of each, the
    worst first, not escaped yet: for a page. `environment`: as the configuration names it, for a page; None if that is
    not known."""

    app_name: str
    healthy: bool
    computed_at: datetime
    body: bytes
    pollers: Mapping[str, ShownPoller]
    parts: Sequence[Mapping[str, Any]]
    environment: str | None = None


def shown_health(health: Health, environment: str | None = None) -> ShownHealth:
    """A health in the form in which it is answered."""
    said = cache(_said)  # for this health: most pollers say the same
    parts: list[dict[str, Any]] = [each_text(one.model_dump(mode="json"), said) for one in health.pollers]
    whole = each_text(health.model_dump(mode="json", exclude={"pollers"}), cut)
    pollers = {
        one.name: ShownPoller(_pending(one), one.lag_seconds, in_json(part))
        for one, part in zip(health.pollers, parts, strict=True)
    }
    return ShownHealth(
        app_name=whole["app_name"],
        healthy=health.healthy,
        computed_at=health.computed_at,
        body=in_json({**whole, "pollers": parts}),
        pollers=pollers,
        parts=parts,
        environment=environment and cut(environment),
    )


def _pending(one: PollerHealth) -> int | None:
    return None if one.pending is None else one.pending + (one.aside_due or 0)


def _said(text: str, limit: int) -> str:
    return cut(redact(text), limit)
