"""Log lines as JSON objects, one a line, with the ids of the current span: `--log-format json`."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from opentelemetry import trace

from poller.model.escape import LONGEST_VALUE, each_text, escape_lines, shown
from poller.model.redact import redact, shortened
from poller.model.stamps import stamp
from poller.observability import PollerEvent

LONGEST = 20_000
"""The most characters of a traceback, or of one log record of a handler or library, that are shown: searching
them for secrets takes time, in which no heartbeat runs."""


def line(at: datetime, level: str, logger: str, fields: dict[str, Any]) -> str:
    """One line: printable ASCII, whatever its texts hold."""
    data = {"at": stamp(at), "level": level, "logger": logger, **fields, **_span()}
    return json.dumps(data, default=str)


def said(level: str, text: str) -> str:
    """What the console itself says; it takes no lock, as signal handlers say something too."""
    return line(datetime.now(UTC), level, "poller", {"message": text})


def of_event(event: PollerEvent) -> str:
    """An event: its fields, `event` and `poller` among them; a traceback with its line feeds."""
    data = event.as_json()
    found = data.pop("trace", None)
    data.pop("at")
    fields = each_text(data, lambda text, limit: shown(redact(text), limit))
    if found:
        fields["trace"] = escape_lines(shortened(found, LONGEST))
    return line(event.at, logging.getLevelName(event.level), f"poller.{event.poller}", fields)


class JsonFormatter(logging.Formatter):
    """What handlers and libraries log."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, a traceback included: no row's value in it makes a line of its own, nor shows a secret."""
        fields: dict[str, Any] = {"message": escape_lines(shortened(record.getMessage(), LONGEST))}
        if record.exc_info:
            fields["trace"] = escape_lines(shortened(self.formatException(record.exc_info), LONGEST))
        at = datetime.fromtimestamp(record.created, UTC)
        return line(at, record.levelname, shown(shortened(record.name, LONGEST_VALUE)), fields)


def _span() -> dict[str, str]:
    """The ids as W3C's trace context writes them; none where no span is recorded."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": trace.format_trace_id(context.trace_id), "span_id": trace.format_span_id(context.span_id)}
