"""One look at the health of some pollers of an application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from poller.admin.health import Health, PollerHealth
from poller.admin.status import PollerStatus, look
from poller.admin.wired import WiredPoller
from poller.errors import PollerError
from poller.ports import Runtime


class WiredApp(Protocol):
    """An application, as a round of looks sees it; `poller.app.App` is one."""

    @property
    def app_name(self) -> str: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def poller(self) -> Callable[[str], WiredPoller]: ...


def look_at(app: WiredApp, names: Sequence[str]) -> Health:
    """The health of these pollers. Raises: ConfigError, for a store that cannot be made."""
    pollers = [_one(app, name) for name in names]
    pollers.sort(key=lambda one: (one.healthy, -(one.late_seconds or 0.0), one.name))
    healthy = all(one.healthy for one in pollers)
    return Health(app_name=app.app_name, healthy=healthy, computed_at=app.runtime.utcnow(), pollers=pollers)


def _one(app: WiredApp, name: str) -> PollerHealth:
    try:
        status: PollerStatus = look(app.poller(name), null_cursors=False)
    except PollerError as refused:
        return PollerHealth(name=name, healthy=False, reason=refused.message, error=refused.message)
    wrong = bool(status.halted or status.error)
    return PollerHealth(
        name=name,
        healthy=not wrong,
        reason=type(status.failure).__name__ if wrong else None,
        lag_seconds=status.lag_seconds,
        pending=status.pending,
        pending_capped=status.pending_capped,
        exists=status.exists,
        paused=status.paused,
        halted=status.halted,
    )
