"""What a poller reports: typed events, and their OpenTelemetry form.

    from poller.observability import BatchCommitted, MetricsObserver, PollerEvent

`events` has the events and the log; `otel` makes metrics and traces of them: `MetricsObserver` is the observer that
counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.doors import door
from poller.observability.events import *  # noqa: F403 - all that `events` exports

if TYPE_CHECKING:
    from poller.observability.otel import MetricsObserver as MetricsObserver

_HOMES = {"MetricsObserver": "otel"}

__getattr__, __dir__ = door(__name__, _HOMES)
