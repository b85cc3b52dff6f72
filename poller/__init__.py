"""Turns a SQL table into a trigger: new and changed rows reach a handler in order, at least once, none skipped.

    from poller import Batch, Poller

The parts: `poller.sources` (where rows come from), `poller.stores` (where checkpoint and lease are kept),
`poller.functions` (Azure Functions), `poller.sinks` (where rows go, each once). Names are imported when they are first
used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from poller.errors import (
    CommitError,
    ConfigError,
    Fenced,
    FingerprintMismatch,
    LeaseHeld,
    LeaseLost,
    PollerError,
    SourceError,
    SourceUnavailable,
    StateCorrupt,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    WriteConflict,
)

if TYPE_CHECKING:
    from poller.app import App, load_app
    from poller.handler.batch import Batch, Standing
    from poller.handler.call import Handler
    from poller.handler.reports import Reject, RetryLater
    from poller.poller import Poller
    from poller.tick.result import TickResult

    __version__: str

__all__ = [
    "App",
    "Batch",
    "CommitError",
    "ConfigError",
    "Fenced",
    "FingerprintMismatch",
    "Handler",
    "LeaseHeld",
    "LeaseLost",
    "Poller",
    "PollerError",
    "Reject",
    "RetryLater",
    "SourceError",
    "SourceUnavailable",
    "Standing",
    "StateCorrupt",
    "StoreDenied",
    "StoreError",
    "StoreUnavailable",
    "TickResult",
    "WriteConflict",
    "__version__",
    "load_app",
]

_HOMES = {
    "App": "app",
    "Batch": "handler.batch",
    "Handler": "handler.call",
    "Poller": "poller",
    "Reject": "handler.reports",
    "RetryLater": "handler.reports",
    "Standing": "handler.batch",
    "TickResult": "tick.result",
    "load_app": "app",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("poller")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
