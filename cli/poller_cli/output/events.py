"""What `poller run` writes while it runs: JSON lines for programs, log lines for files, readable lines for people."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
from datetime import UTC, datetime, timedelta
from typing import IO, Any

from poller import forks
from poller.admin.counts import rows
from poller.model.escape import LONGEST_SENTENCE, LONGEST_VALUE, cut, each_text, escape_lines, shown
from poller.model.redact import redact, shortened
from poller.model.when import clock, span, took
from poller.observability import HandlerFailed, PollerEvent, TickFailed, TickFinished
from poller.tick.watches import PENDING_CAP
from poller_cli.output.event_words import words
from poller_cli.output.json_log import LONGEST, of_event
from poller_cli.terminal.layout import is_terminal
from poller_cli.terminal.printing import (
    coloured,
    complain,
    folded,
    of_poller,
    print_json,
    printable,
    to_stderr,
)

_QUIET = frozenset({"idle", "held_elsewhere", "paused", "backing_off", "blocked", "halted"})
"""Outcomes that are shown once, and not again until something else happens."""
_COLOURS = {"WARNING": "yellow", "ERROR": "red"}
MANY = 20
"""With more pollers than this the ticks without trouble are counted, on a terminal."""
EVERY = timedelta(seconds=10)
_WITHOUT_TROUBLE = frozenset({"idle", "delivered", "held_elsewhere"})


class EventPrinter:
    """An observer that writes each event as one line.

    Args:
        json_lines: a stream for JSON, one line per event; None: none is written.
        debug: also show people what happens all the time, such as every heartbeat.
        quiet_errors: leave failed ticks to the caller, who reports them.
        stop: set when JSON can no longer be written: the reader would not learn what is done from then on.
        json_log: stderr has JSON too (`--log-format json`).

    Attributes:
        output_closed: whether that was so.
    """

    output_closed = False

    def __init__(
        self,
        *,
        json_lines: IO[str] | None,
        debug: bool,
        quiet_errors: bool,
        stop: threading.Event | None = None,
        json_log: bool = False,
    ) -> None:
        self._json_log = json_log
        self._json_lines = json_lines
        self._level = logging.DEBUG if debug else logging.INFO
        if json_lines is not None and not debug:
            self._level = logging.WARNING
        self._quiet_errors = quiet_errors
        self._stop = stop
        self._last: dict[str, str] = {}
        self._digest: Digest | None = None
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """In a child process too, which a handler made while another poller's event was written."""
        self._lock = threading.Lock()

    def expect(self, pollers: int) -> None:
        """There are so many: on a terminal, the ticks of many are counted rather than listed."""
        if pollers > MANY and not self._json_log and is_terminal(sys.stderr) and self._level == logging.INFO:
            self._digest = Digest()

    def finish(self) -> None:
        """No event will come: say what was counted."""
        with self._lock:
            self._count(None)

    def __call__(self, event: PollerEvent) -> None:
        """Write one event."""
        with self._lock:
            if self._json_lines is not None:
                try:
                    print_json(_bounded(event.as_json()), self._json_lines, indent=None)
                except (OSError, ValueError) as error:
                    self._give_up(self._json_lines, error)
            counted = self._digest is not None and self._digest.takes(event)
            self._count(event.at)
            if event.level >= self._level and not self._is_repetition(event) and not counted:
                with contextlib.suppress(OSError, ValueError):  # its reader is gone
                    lines = [of_event(event)] if self._json_log else [self._line(event), *self._trace(event)]
                    to_stderr("\n".join(lines))

    def _count(self, at: datetime | None) -> None:
        """Say what was counted, if it is time for that."""
        text = None if self._digest is None else self._digest.line(at)
        if text is not None:
            with contextlib.suppress(OSError, ValueError):  # its reader is gone
                to_stderr(_formed(at or datetime.now(UTC), "INFO", printable(text)))

    def _give_up(self, lines: IO[str], error: OSError | ValueError) -> None:
        """Report once that the reader of the events is gone, and stop. What the stream still buffers is dropped."""
        self._json_lines, self.output_closed = None, True
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), lines.fileno())
        if self._stop is not None:
            self._stop.set()
        reason = getattr(error, "strerror", None) or error
        with contextlib.suppress(OSError, ValueError):
            complain(f"Events can no longer be written to stdout: {reason}. It stops after the batch in hand.")

    def _is_repetition(self, event: PollerEvent) -> bool:
        if isinstance(event, TickFailed):
            return self._quiet_errors
        if not isinstance(event, TickFinished):
            return False
        before, self._last[event.poller] = self._last.get(event.poller), event.outcome
        return event.outcome in _QUIET and event.rows == 0 and before == event.outcome and self._level > logging.DEBUG

    def _line(self, event: PollerEvent) -> str:
        level = logging.getLevelName(event.level)
        if isinstance(event, TickFailed):
            text = redact(event.error)
        elif is_terminal(sys.stderr) and isinstance(event, TickFinished):
            text = _tick(event)
        elif is_terminal(sys.stderr):
            text = cut(redact(words(event)), LONGEST_SENTENCE)
        else:
            text = _fields(event)
        line = folded(printable(_formed(event.at, level, of_poller(event.poller, text))), hang=18, stream=sys.stderr)
        return coloured(line, _COLOURS[level], sys.stderr) if level in _COLOURS else line

    def _trace(self, event: PollerEvent) -> list[str]:
        """The lines of a handler's traceback, each with its poller's name: they belong to the line before them."""
        trace = event.trace if isinstance(event, HandlerFailed) else None
        lines = trace.split("\n") if trace else []
        return [f"{event.poller}: {escape_lines(line)}" for line in lines]


class LogLines(logging.Formatter):
    """What handlers and libraries log, in the form of an event's line. What poller itself logs begins with the name of
    the poller that it is about: its logger's name says nothing more."""

    def format(self, record: logging.LogRecord) -> str:
        """All of it, its traceback included: a row's value in it must not steer the terminal, nor show a secret."""
        text = escape_lines(shortened(super().format(record), LONGEST))
        return text if record.name == "poller" else text.replace("\n", f"\n{_name_of(record)}: ")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line, without a traceback, which follows it."""
        text = record.message if record.name == "poller" else f"{_name_of(record)}: {record.message}"
        return _formed(datetime.fromtimestamp(record.created, UTC), record.levelname, text)


def _name_of(record: logging.LogRecord) -> str:
    """A library may name its loggers after what it works on."""
    return shown(shortened(record.name, LONGEST_VALUE))


def _formed(at: datetime, level: str, text: str) -> str:
    return f"{_time(at)} {level:<7} {text}"


def _time(at: datetime) -> str:
    if is_terminal(sys.stderr):
        return clock(at)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _tick(event: TickFinished) -> str:
    parts = [event.outcome.replace("_", " ")]
    if event.rows:
        rate = event.rows / max(event.duration_seconds, 1e-6)
        done = f"{rows(event.rows)} in {event.batches} batch{'es' * (event.batches != 1)}"
        parts.append(f"{done}, {took(event.duration_seconds)}, {rate:,.0f} rows/s")
    if event.pending:
        parts.append(f"{rows(event.pending, event.pending >= PENDING_CAP)} waiting")
    if event.lag_seconds is not None and event.pending:
        parts.append(f"{span(event.lag_seconds)} behind")
    if event.aside:
        parts.append(f"{event.aside:,} aside")
    if event.quarantined:
        parts.append(f"{event.quarantined:,} in quarantine")
    if event.error:
        parts.append(redact(event.error))
    return ", ".join(parts)


def _fields(event: PollerEvent) -> str:
    data = event.as_json()
    name = data.pop("event")
    for shown_elsewhere in ("poller", "at", "owner_id", "trace"):
        data.pop(shown_elsewhere, None)
    return " ".join([name, *(f"{key}={_value(key, value)}" for key, value in data.items() if value is not None)])


def _bounded(data: dict[str, Any]) -> dict[str, Any]:
    """An event for a program: its texts cut, its traceback whole."""
    trace = {"trace": data["trace"]} if "trace" in data else {}
    return {**each_text(data, cut), **trace}


def _value(name: str, value: Any) -> str:
    if isinstance(value, dict):  # the bound: its kind says enough here, unless something holds it
        value = f"{value['kind']} held by {value['held_by']}" if value.get("held_by") else value["kind"]
    text = cut(redact(str(value)), LONGEST_SENTENCE if name in ("error", "reason") else LONGEST_VALUE)
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text


class Digest:
    """Counts of ticks without trouble. Time is that of the events."""

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._rows: dict[str, int] = {}

    def takes(self, event: PollerEvent) -> bool:
        """True if it is counted, and needs no line of its own."""
        if not isinstance(event, TickFinished) or event.outcome not in _WITHOUT_TROUBLE:
            return False
        self._since = self._since or event.at
        if event.rows:
            self._rows[event.poller] = self._rows.get(event.poller, 0) + event.rows
        return True

    def line(self, at: datetime | None = None) -> str | None:
        """What was done since the last line, if it is time for the next one or the end (None)."""
        if self._since is None or (at is not None and at - self._since < EVERY):
            return None
        done, self._rows, self._since = self._rows, {}, at
        if not done:
            return None
        who = f"{len(done):,} pollers" if len(done) > 1 else next(iter(done))
        return f"{who} delivered {rows(sum(done.values()))}"
