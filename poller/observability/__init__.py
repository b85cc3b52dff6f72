"""What a poller reports: typed events, and their OpenTelemetry form.

    from poller.observability import BatchCommitted, MetricsObserver, PollerEvent

`events` has the events and the log; `otel` makes metrics and traces of them: `MetricsObserver` is the observer that
counts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from poller.observability.events import *  # noqa: F403 - all that `events` exports

if TYPE_CHECKING:
    from poller.observability.otel import MetricsObserver as MetricsObserver

_HOMES = {"MetricsObserver": "otel"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
