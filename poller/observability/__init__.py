"""What a poller reports: typed events, and their OpenTelemetry form.

    from poller.observability import BatchCommitted, PollerEvent

`events` has the events and the log; `otel` makes metrics and traces of them.
"""

from __future__ import annotations

from poller.observability.events import *  # noqa: F403 - all that `events` exports
