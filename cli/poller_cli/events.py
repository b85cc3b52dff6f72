"""What `poller run` tells while it runs: JSON lines for programs, log lines for files, readable lines for people."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
from datetime import UTC, datetime
from typing import IO, Any

from poller.model.redact import redact
from poller.observability import PollerEvent, TickFailed, TickFinished
from poller_cli.pace import span
from poller_cli.terminal import coloured, complain, is_terminal, of_poller, print_json, printable, printable_lines

_QUIET = frozenset({"idle", "held_elsewhere", "paused", "halted"})
"""Outcomes that are told once, and not again until something else happens."""
_COLOURS = {"WARNING": "yellow", "ERROR": "red"}


class EventPrinter:
    """An observer that writes each event as one line.

    Args:
        json_lines: a stream for JSON, one line per event; None: none is written.
        debug: also tell people what happens all the time, such as every heartbeat.
        quiet_errors: leave failed ticks to the caller, who will tell them.
        stop: set where JSON can be written no more: nobody would know what is done from then on.

    Attributes:
        unheard: whether that was so.
    """

    unheard = False

    def __init__(
        self,
        *,
        json_lines: IO[str] | None,
        debug: bool,
        quiet_errors: bool,
        stop: threading.Event | None = None,
    ) -> None:
        self._json_lines = json_lines
        self._level = logging.DEBUG if debug else logging.INFO
        if json_lines is not None and not debug:
            self._level = logging.WARNING
        self._quiet_errors = quiet_errors
        self._stop = stop
        self._lock = threading.Lock()
        self._last: dict[str, str] = {}

    def __call__(self, event: PollerEvent) -> None:
        """Tell one event."""
        with self._lock:
            if self._json_lines is not None:
                try:
                    print_json(event.as_json(), self._json_lines, indent=None)
                except OSError as error:
                    self._give_up(self._json_lines, error)
            if event.level >= self._level and not self._is_repetition(event):
                with contextlib.suppress(OSError):  # nobody is left to be told
                    print(self._line(event), file=sys.stderr, flush=True)

    def _give_up(self, lines: IO[str], error: OSError) -> None:
        """Say once that nobody hears, and stop. What is still in the stream's buffer goes nowhere."""
        self._json_lines, self.unheard = None, True
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), lines.fileno())
        if self._stop is not None:
            self._stop.set()
        with contextlib.suppress(OSError):
            complain(
                f"What happens can be told on stdout no more: {error.strerror or error}. It stops after the batch in "
                "hand."
            )

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
            told = redact(event.error)
        elif is_terminal(sys.stderr) and isinstance(event, TickFinished):
            told = _tick(event)
        else:
            told = _fields(event)
        line = printable(_formed(event.at, level, of_poller(event.poller, told)))
        return coloured(line, _COLOURS[level], sys.stderr) if level in _COLOURS else line


class LogLines(logging.Formatter):
    """What handlers and libraries log, in the form of an event's line. What poller itself logs begins with the name of
    the poller that it is about: its logger's name says nothing more."""

    def format(self, record: logging.LogRecord) -> str:
        """All of it, its traceback included: a row's value in it must not steer the terminal, nor show a secret."""
        return printable_lines(redact(super().format(record)))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line, without a traceback, which follows it."""
        name = "" if record.name == "poller" else record.name
        told = f"{name}: {record.message}" if name else record.message
        return _formed(datetime.fromtimestamp(record.created, UTC), record.levelname, told)


def _formed(at: datetime, level: str, told: str) -> str:
    return f"{_time(at)} {level:<7} {told}"


def _time(at: datetime) -> str:
    if is_terminal(sys.stderr):
        return at.strftime("%H:%M:%SZ")
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _tick(event: TickFinished) -> str:
    parts = [event.outcome.replace("_", " ")]
    if event.rows:
        rate = event.rows / max(event.duration_seconds, 1e-6)
        row, batch = "s" * (event.rows != 1), "es" * (event.batches != 1)
        done = f"{event.rows:,} row{row} in {event.batches} batch{batch}"
        parts.append(f"{done}, {event.duration_seconds:.2f} s, {rate:,.0f} rows/s")
    if event.pending:
        parts.append(f"{event.pending:,} row{'s' * (event.pending != 1)} pending")
    if event.lag_seconds is not None and event.pending:
        parts.append(f"{span(event.lag_seconds)} behind")
    if event.error:
        parts.append(redact(event.error))
    return ", ".join(parts)


def _fields(event: PollerEvent) -> str:
    data = event.as_json()
    name = data.pop("event")
    for shown_elsewhere in ("poller", "at", "owner_id"):
        data.pop(shown_elsewhere, None)
    return " ".join([name, *(f"{key}={_value(value)}" for key, value in data.items() if value is not None)])


def _value(value: Any) -> str:
    if isinstance(value, dict):  # the bound: its kind says enough here, unless something holds it
        value = f"{value['kind']} held by {value['held_by']}" if value.get("held_by") else value["kind"]
    text = redact(str(value))
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text
