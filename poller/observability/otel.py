"""Metrics and traces through OpenTelemetry's interface: nothing happens until the application installs an SDK.

Metrics (attribute `poller.name` on each): `poller.ticks` by `outcome`, `poller.rows`, `poller.batches`,
`poller.handler.duration` in seconds, `poller.lag` in seconds, `poller.pending` rows, `poller.bound.age` in seconds,
`poller.late_rows` found by the last recheck, `poller.aside` rows that are tried again by themselves,
`poller.quarantine.pending` rows that wait for a person, `poller.handler.attempts` by `outcome` (returned, failed),
`poller.events` by `event` for rare events: takeovers, losses, resends, failures.

Traces: a span `poller.tick` around each tick, and in it a span `poller.handle` around each call of a handler, so that
the handler's own spans are children of the batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import metrics, trace

from poller.model.escape import each_text, shown
from poller.observability import (
    BatchCommitted,
    HandlerFailed,
    PollerEvent,
    Rechecked,
    RowDeliveredLater,
    TickFailed,
    TickFinished,
)

_SCOPE = "poller"


class MetricsObserver:
    """Turns events into metrics. One per process is enough; the attribute `poller.name` distinguishes pollers.

    Args:
        meters: where instruments come from; the globally installed provider when None.
    """

    def __init__(self, meters: metrics.MeterProvider | None = None) -> None:
        meter = (meters or metrics.get_meter_provider()).get_meter(_SCOPE)
        self._ticks = meter.create_counter("poller.ticks", description="ticks by outcome")
        self._rows = meter.create_counter("poller.rows", unit="{row}", description="rows delivered and committed")
        self._batches = meter.create_counter("poller.batches", description="batches delivered and committed")
        self._handler = meter.create_histogram("poller.handler.duration", unit="s", description="one call of a handler")
        self._lag = meter.create_gauge("poller.lag", unit="s", description="age of the oldest row not yet delivered")
        self._pending = meter.create_gauge("poller.pending", unit="{row}", description="rows pending, up to a cap")
        self._bound_age = meter.create_gauge("poller.bound.age", unit="s", description="how far the bound lies behind")
        self._late = meter.create_gauge("poller.late_rows", unit="{row}", description="under the cursor, undelivered")
        self._aside = meter.create_gauge("poller.aside", unit="{row}", description="tried again by themselves")
        self._waiting = meter.create_gauge("poller.quarantine.pending", unit="{row}", description="wait for a person")
        self._calls = meter.create_counter("poller.handler.attempts", description="calls of a handler, by outcome")
        self._failed: dict[str, str] = {}
        self._events = meter.create_counter("poller.events", description="what should be rare, by event")

    def __call__(self, event: PollerEvent) -> None:
        """Record one event. Instruments never raise."""
        name = {"poller.name": event.poller}
        if isinstance(event, TickFinished):
            self._finished(event, name)
        elif isinstance(event, BatchCommitted):
            self._rows.add(event.rows, name)
            self._batches.add(1, name)
            self._handler.record(event.handler_seconds, name)
            # Of a call that named rows the failure was counted; rows that nobody handles are passed without a call.
            if event.rows and self._failed.get(event.poller) != event.batch_id:
                self._calls.add(1, {**name, "outcome": "returned"})
        elif isinstance(event, HandlerFailed):
            self._failed[event.poller] = event.batch_id
            self._calls.add(1, {**name, "outcome": "failed"})
        elif isinstance(event, RowDeliveredLater):
            self._calls.add(1, {**name, "outcome": "returned"})
        elif isinstance(event, Rechecked):
            self._late.set(event.late, name)
        elif isinstance(event, TickFailed):
            self._ticks.add(1, {**name, "outcome": event.error_type})
        if event.level >= logging.WARNING:
            self._events.add(1, {**name, "event": event.name})

    def _finished(self, event: TickFinished, name: dict[str, Any]) -> None:
        self._ticks.add(1, {**name, "outcome": event.outcome})
        if event.lag_seconds is not None:
            self._lag.set(event.lag_seconds, name)
        if event.pending is not None:
            self._pending.set(event.pending, name)
        if event.aside is not None:
            self._aside.set(event.aside, name)
        if event.quarantined is not None:
            self._waiting.set(event.quarantined, name)
        age = (event.bound or {}).get("age_seconds")
        if age is not None:
            self._bound_age.set(age, {**name, "bound.kind": (event.bound or {}).get("kind", "")})


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
