"""How one poller ended, and how a failed tick is reported."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from poller.config import PollerOptions
from poller.errors import PollerError
from poller.handler.call import Handler
from poller.model.redact import said, shortened
from poller.observability import PollerEvent, TickFailed
from poller.ports import Event, Runtime
from poller.tick.result import Outcome, TickResult

LONGEST_TRACE = 20_000
"""The most characters of a traceback that are kept."""


class Ticking(Protocol):
    """What `run` asks of a poller; `poller.Poller` is one."""

    @property
    def name(self) -> str: ...
    @property
    def options(self) -> PollerOptions: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def handler(self) -> Handler: ...
    def tick(self, handler: Handler | None = None, *, stop: Event | None = None) -> TickResult: ...
    def emit(self, event: PollerEvent) -> None: ...


P = TypeVar("P", bound=Ticking)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Generic[P]):
    """How one poller ended.

    Attributes:
        poller: which.
        outcome: of its last tick, if that ended it; None where `stop` or an exception did.
        result: that tick's; None where `outcome` is.
        error: why it ended before its work was done, in one line; None where all is well.
        exception: what was raised, if that ended it.
        trace: the last traceback of an exception that is no `PollerError`, secrets removed; for debugging.
    """

    poller: P
    outcome: Outcome | None = None
    error: str | None = None
    result: TickResult | None = field(default=None, repr=False)
    exception: BaseException | None = field(default=None, repr=False)
    trace: str | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """True if it did what it was asked to."""
        return self.error is None


def tick_failed(poller: str, at: datetime, error: Exception) -> TickFailed:
    """The event of an error that the runner did not emit."""
    return TickFailed(poller=poller, at=at, error_type=type(error).__name__, error=sentence(error))


def sentence(error: BaseException) -> str:
    """An error in one line."""
    return str(error) if isinstance(error, PollerError) else f"{type(error).__name__}: {said(error)}"


def trace_of(error: BaseException) -> str:
    """Its traceback, bounded, without secrets."""
    return shortened("".join(traceback.format_exception(error)), LONGEST_TRACE)
