"""Metrics and traces through OpenTelemetry's interface: nothing happens until the process has an SDK, which `telemetry`
installs if it is configured, or the application itself.

Metrics of a poller (attribute `poller.name` on each): `poller.ticks` by `outcome`, `poller.rows`, `poller.batches`,
`poller.handler.duration` in seconds, `poller.handler.attempts` by `outcome` (returned, failed), `poller.lag` in
seconds, `poller.pending` rows, `poller.bound.age` in seconds by `bound.kind`, `poller.late_rows` found by the last
recheck, `poller.aside` rows that are retried automatically, `poller.quarantine.pending` rows that wait for a
person, `poller.quarantine.limit` how many may wait in all, `poller.quarantine.rows` by `action` (aside, quarantined,
delivered, replayed, discarded), `poller.lease.acquisitions` by `outcome` (taken, taken_over, held_elsewhere),
`poller.lease.losses` and `poller.stale_writes` by `reason`, `poller.severity` (0: well, 1: a warning, 2: unhealthy) and
`poller.condition` (1 by `condition` and `severity`, for each that is not well) after each tick and each look at the
health, `poller.events` by `event` for rare events.

Metrics of a dispatcher (attribute `poller.app`): `poller.dispatch.rounds` by `outcome` (done, failed),
`poller.dispatch.duration` in seconds, `poller.dispatch.probes`, `poller.dispatch.messages` by `why`,
`poller.dispatch.due` pollers in the last round, `poller.dispatch.late` in seconds: since when the first of them is due.

Traces: a span `poller.tick` around each tick, and in it a span `poller.handle` around each call of a handler, so that
the handler's own spans are children of the batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from opentelemetry import metrics, trace

from poller.model.escape import each_text, shown
from poller.observability.events import (
    BUSY_HERE,
    BatchCommitted,
    HandlerFailed,
    LeaseAcquired,
    LeaseLostEvent,
    LeaseTakenOver,
    PollerEvent,
    Rechecked,
    RowDeliveredLater,
    RowQuarantined,
    RowSetAside,
    StaleCommitRefused,
    TickFailed,
    TickFinished,
)
from poller.observability.gauges import Gauges
from poller.observability.pictures import Picture, Pictures

_SCOPE = "poller"
_REASONS = ("taken_over", "deadline", "broken", "cancelled", "deleted", "replaced")


class MetricsObserver:
    """Turns events into metrics. One per process is enough; the attribute `poller.name` distinguishes pollers.

    Args:
        meters: where instruments come from; the globally installed provider when None.
        now: a monotonic clock, in seconds: a gauge forgets what it has not seen for a while.
    """

    def __init__(
        self, meters: metrics.MeterProvider | None = None, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        meter = (meters or metrics.get_meter_provider()).get_meter(_SCOPE)
        count, gauges = meter.create_counter, Gauges(meter, now)
        self._gauges = gauges
        self._limits: dict[str, int] = {}
        self._failed: dict[str, str] = {}
        self._begun: set[str] = set()
        self._ticks = count("poller.ticks", description="ticks by outcome")
        self._rows = count("poller.rows", unit="{row}", description="rows delivered and committed")
        self._batches = count("poller.batches", description="batches delivered and committed")
        self._handler = meter.create_histogram("poller.handler.duration", unit="s", description="one call of a handler")
        self._calls = count("poller.handler.attempts", description="calls of a handler, by outcome")
        self._acquired = count("poller.lease.acquisitions", description="tries to take the lease, by outcome")
        self._lost = count("poller.lease.losses", description="tenures that ended against their owner's will")
        self._stale = count("poller.stale_writes", description="commits of a stale owner that were refused")
        self._settled = count("poller.quarantine.rows", unit="{row}", description="rows that failed, by what became")
        self._events = count("poller.events", description="what should be rare, by event")
        gauges.add("poller.lag", unit="s", description="age of the oldest row not yet delivered")
        gauges.add("poller.pending", unit="{row}", description="rows not yet delivered, up to a cap")
        gauges.add("poller.bound.age", unit="s", description="how far the bound lies behind")
        gauges.add("poller.late_rows", unit="{row}", description="under the cursor, undelivered")
        gauges.add("poller.aside", unit="{row}", description="retried automatically")
        gauges.add("poller.quarantine.pending", unit="{row}", description="wait for a person")
        gauges.add("poller.quarantine.limit", unit="{row}", description="how many may wait in all")
        self._pictures = Pictures(meter, now)
        self._rounds = count("poller.dispatch.rounds", description="rounds of the dispatcher, by outcome")
        self._probes = count("poller.dispatch.probes", description="pollers whose database was asked for rows")
        self._messages = count("poller.dispatch.messages", unit="{message}", description="messages sent, by reason")
        self._round = meter.create_histogram("poller.dispatch.duration", unit="s", description="one round")
        gauges.add("poller.dispatch.due", description="pollers that are due")
        gauges.add("poller.dispatch.late", unit="s", description="since when the first of them is due")

        self._of: dict[type[PollerEvent], Callable[[Any, dict[str, str]], None]] = {
            TickFinished: self._finished,
            TickFailed: lambda event, name: self._ticks.add(1, {**name, "outcome": event.error_type}),
            BatchCommitted: self._committed,
            HandlerFailed: self._call_failed,
            LeaseAcquired: lambda _, name: self._acquired.add(1, {**name, "outcome": "taken"}),
            LeaseTakenOver: lambda _, name: self._acquired.add(1, {**name, "outcome": "taken_over"}),
            LeaseLostEvent: lambda event, name: self._lost.add(1, {**name, "reason": event.reason}),
            StaleCommitRefused: lambda event, name: self._stale.add(1, {**name, "reason": event.reason}),
            RowSetAside: lambda event, _: self.row_settled(event.poller, "aside"),
            RowQuarantined: lambda event, _: self.row_settled(event.poller, "condemned"),
            RowDeliveredLater: self._delivered_later,
            Rechecked: lambda event, name: gauges.set("poller.late_rows", event.late, name),
        }

    def __call__(self, event: PollerEvent) -> None:
        """Record one event. Instruments never raise."""
        name = {"poller.name": event.poller}
        if event.poller not in self._begun:
            self._begin(event.poller)
        record = self._of.get(type(event))
        if record is not None:
            record(event, name)
        if event.level >= logging.WARNING:
            self._events.add(1, {**name, "event": event.name})

    def _begin(self, poller: str) -> None:
        """What alerts count begins at 0: from nothing to 1 is not an increase to a monitor."""
        self._begun.add(poller)
        name = {"poller.name": poller}
        self._rows.add(0, name)
        self._batches.add(0, name)
        for label, values, counters in (
            ("outcome", ("returned", "failed"), (self._calls,)),
            ("outcome", ("taken", "taken_over", "held_elsewhere"), (self._acquired,)),
            ("outcome", ("idle", "delivered", "handler_failed", "blocked", "halted"), (self._ticks,)),
            ("reason", _REASONS, (self._lost, self._stale)),
        ):
            for counter in counters:
                for value in values:
                    counter.add(0, {**name, label: value})

    def expect(self, poller: str, *, max_quarantined: int) -> None:
        """The number of rows of this poller that may wait, as it is configured."""
        self._limits[poller] = max_quarantined

    def row_settled(self, poller: str, action: str, rows: int = 1) -> None:
        """What became of rows that failed: aside, quarantined, delivered, replayed or discarded."""
        self._settled.add(rows, {"poller.name": poller, "action": action})

    def call_returned(self, poller: str) -> None:
        """A call of a handler that no event tells of: a replay's."""
        self._calls.add(1, {"poller.name": poller, "outcome": "returned"})

    def looked(self, poller: str, picture: Picture) -> None:
        """Note what a check of a poller found."""
        self._pictures.looked(poller, picture)

    def ticked(self, poller: str, judge: Callable[[], Picture | None], due: Callable[[], float]) -> None:
        """What a tick found; arguments as of `Pictures.ticked`."""
        self._pictures.ticked(poller, judge, due)

    def dispatched(
        self, app: str, *, due: int, late_seconds: float, probes: int, messages: Mapping[str, int], seconds: float
    ) -> None:
        """A round of the dispatcher was done; `messages`: how many were sent, by the reason."""
        name = {"poller.app": app}
        self._rounds.add(0, {**name, "outcome": "failed"})
        self._rounds.add(1, {**name, "outcome": "done"})
        self._round.record(seconds, name)
        self._probes.add(probes, name)
        for why, sent in messages.items():
            self._messages.add(sent, {**name, "why": why})
        self._gauges.set("poller.dispatch.due", due, name)
        self._gauges.set("poller.dispatch.late", late_seconds, name)

    def not_dispatched(self, app: str) -> None:
        """A round of the dispatcher failed."""
        self._rounds.add(1, {"poller.app": app, "outcome": "failed"})

    def _committed(self, event: BatchCommitted, name: dict[str, str]) -> None:
        self._rows.add(event.rows, name)
        self._batches.add(1, name)
        self._handler.record(event.handler_seconds, name)
        # Of a call that named rows the failure was counted; rows that no handler takes are passed without a call.
        if event.rows and self._failed.get(event.poller) != event.batch_id:
            self._calls.add(1, {**name, "outcome": "returned"})

    def _call_failed(self, event: HandlerFailed, name: dict[str, str]) -> None:
        self._failed[event.poller] = event.batch_id
        self._calls.add(1, {**name, "outcome": "failed"})

    def _delivered_later(self, event: RowDeliveredLater, name: dict[str, str]) -> None:
        self._calls.add(1, {**name, "outcome": "returned"})
        self.row_settled(event.poller, "delivered")

    def _finished(self, event: TickFinished, name: dict[str, str]) -> None:
        self._ticks.add(1, {**name, "outcome": event.outcome})
        if event.outcome == "held_elsewhere" and event.error != BUSY_HERE:
            self._acquired.add(1, {**name, "outcome": "held_elsewhere"})
            self._gauges.forget(("poller.name", event.poller))
            self._pictures.forget(event.poller)
        gauge = self._gauges.set
        gauge("poller.lag", event.lag_seconds, name)
        gauge("poller.pending", event.pending, name)
        gauge("poller.aside", event.aside, name)
        gauge("poller.quarantine.pending", event.quarantined, name)
        gauge("poller.quarantine.limit", self._limits.get(event.poller), name)
        bound = event.bound or {}
        gauge("poller.bound.age", bound.get("age_seconds"), {**name, "bound.kind": str(bound.get("kind", ""))})


@cache
def recorded() -> MetricsObserver:
    """The observer of this process: all its pollers share the instruments."""
    return MetricsObserver()


@contextmanager
def span(name: str, /, **attributes: Any) -> Iterator[None]:
    """A span of ours, current while the block runs; attributes are prefixed with `poller.`.

    An exception is recorded on the span by its type only: a message may quote rows or secrets.
    """
    tracer = trace.get_tracer(_SCOPE)
    named = {f"poller.{key}": each_text(value, shown) for key, value in attributes.items() if value is not None}
    with tracer.start_as_current_span(
        name, attributes=named, record_exception=False, set_status_on_exception=False
    ) as on:
        try:
            yield
        except BaseException as error:
            on.set_status(trace.Status(trace.StatusCode.ERROR, type(error).__name__))
            raise
