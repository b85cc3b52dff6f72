"""What handlers and libraries log while rows are delivered, on stderr."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from poller_cli.output.events import LogLines
from poller_cli.terminal.printing import say_as, to_stderr


class _CurrentStderr(logging.Handler):
    """Writes to whatever stderr is at that moment: the progress display replaces it while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):  # a handler may have closed it
            to_stderr(self._line(record))

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self.format(record)
        except Exception as error:  # noqa: BLE001 - logging itself would print the values as they are
            text = f"{record.msg!r} of {record.pathname}:{record.lineno} cannot be logged: {type(error).__name__}"
            return self.format(logging.makeLogRecord({**record.__dict__, "msg": text, "args": (), "exc_info": None}))


def _log_ended_thread(ended: threading.ExceptHookArgs) -> None:
    """Log the exception that ended a thread of a handler or a library: Python would print its traceback as it is."""
    if ended.exc_value is None or isinstance(ended.exc_value, SystemExit):
        return
    name = "?" if ended.thread is None else ended.thread.name
    logging.getLogger("threading").error("The thread %s ended by an exception.", name, exc_info=ended.exc_value)


def log_to_stderr(*, debug: bool, as_json: bool = False) -> None:
    """Show what handlers and libraries log, in the form that events have; `as_json`: all that goes to stderr is JSON,
    one object a line."""
    handler = _CurrentStderr()
    if as_json:
        from poller_cli.output import json_log

        handler.setFormatter(json_log.JsonFormatter())
        say_as(json_log.said)
        logging.captureWarnings(True)
    else:
        handler.setFormatter(LogLines())
    threading.excepthook = _log_ended_thread
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    logging.getLogger("poller").setLevel(logging.DEBUG if debug else logging.INFO)
    for chatty in ("azure", "urllib3", "sqlalchemy", "opentelemetry"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
