"""`poller run`: deliver rows to the configured handlers, once, until idle, or for ever."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from poller_cli import exits
from poller_cli.session import NamesArgument, Session

ONE_SIGNAL = 0.5
"""Seconds within which further signals are one with the first: GNU timeout, and others that end processes, signal the
process and at once its group."""

if TYPE_CHECKING:
    from poller.observability import Observer, PollerEvent
    from poller_cli.loops import Loop, Mode
    from poller_cli.terminal.progress import LiveProgress


def run(
    session: Session,
    names: NamesArgument = None,
    once: Annotated[bool, typer.Option("--once", help="One tick of each poller, then exit.")] = False,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Until no row is left, then exit.")] = False,
) -> int:
    """Deliver rows to the handlers: for ever, on each poller's schedule, unless told otherwise.

    Several processes may run the same pollers: leases decide who works. SIGTERM or Ctrl-C finishes and commits the
    batch in hand; a second one, half a second later or more, abandons it.

    Example: poller run orders --until-idle
    """
    from poller.errors import PollerError
    from poller_cli.loops import Loop, run_all, tick_failed
    from poller_cli.output.events import EventPrinter
    from poller_cli.terminal.printing import claim_stdout, complain, do_without_stdout

    if once and until_idle:
        raise typer.BadParameter("--once and --until-idle exclude each other.")
    mode: Mode = "once" if once else "until_idle" if until_idle else "forever"
    if not session.json:
        do_without_stdout()
    stop = threading.Event()
    printer = EventPrinter(
        json_lines=claim_stdout() if session.json else None,
        debug=session.debug,
        quiet_errors=mode != "forever",
        stop=stop,
    )
    log_to_stderr(debug=session.debug)
    codes: list[int] = []
    progress = None if plain(session) else _progress()
    in_hand = InHand()
    observers: list[Observer] = [in_hand, printer] if progress is None else [in_hand, printer, progress]
    with stopped_by_signals(stop, in_hand), session.app(observers=observers) as app, progress or nullcontext():
        if progress is not None:
            progress.show_times(app.config)
        chosen = list(dict.fromkeys(app.known(name) for name in names)) if names else list(app.pollers)
        loops: list[Loop] = []
        for name in chosen:
            try:
                first = None if progress is None else progress.count_pending
                loops.append(Loop(app.poller(name), mode, stop, printer, session.debug, first=first))
            except PollerError as error:
                if session.json:
                    printer(tick_failed(name, datetime.now(UTC), error))
                complain(str(error))
                codes.append(error.exit_code)
        codes.append(run_all(loops, partial(_conclude, session)))
    if printer.output_closed:
        codes.append(exits.FAILED)
    return exits.worst(codes)


_NEXT = {"halted": "Mend it, then", "paused": "To go on"}


def _conclude(session: Session, loop: Loop) -> None:
    """Say why a poller ended, if it did not end well, and what to do; the others may go on for days."""
    from poller_cli.terminal.printing import complain, of_poller, show_trace

    if loop.error is not None:
        first = _NEXT.get(loop.outcome or "")
        step = f". {first}: {session.command('resume', loop.poller.name)}" if first else ""
        complain(of_poller(loop.poller.name, loop.error.rstrip(".") + step if step else loop.error))
    if loop.crash is not None and session.debug:
        show_trace(loop.crash)


def plain(session: Session) -> bool:
    """Whether nobody sees stderr move: a program reads, or a file is written."""
    from poller_cli.terminal.printing import is_terminal

    return session.json or not is_terminal(sys.stderr) or os.environ.get("TERM") == "dumb"


def _progress() -> LiveProgress:
    from poller_cli.terminal.progress import LiveProgress

    return LiveProgress()


class _CurrentStderr(logging.Handler):
    """Writes to whatever stderr is at that moment: the progress display stands in for it while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:  # noqa: BLE001 - logging's own way with its failures
            with suppress(Exception):  # which writes to stderr, and a handler may have closed it
                self.handleError(record)


def log_to_stderr(*, debug: bool) -> None:
    """Show what handlers and libraries log, in the form that events have."""
    from poller_cli.output.events import LogLines

    handler = _CurrentStderr()
    handler.setFormatter(LogLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    logging.getLogger("poller").setLevel(logging.DEBUG if debug else logging.INFO)
    for chatty in ("azure", "urllib3", "sqlalchemy"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


class InHand:
    """An observer that knows whether a batch is in hand. A signal handler may ask it: it takes no lock."""

    def __init__(self) -> None:
        self._pollers: set[str] = set()

    def __call__(self, event: PollerEvent) -> None:
        """Take note of a batch that begins or ends."""
        from poller.observability import BatchCommitted, BatchStarted, TickFailed, TickFinished

        if isinstance(event, BatchStarted):
            self._pollers.add(event.poller)
        elif isinstance(event, (BatchCommitted, TickFinished, TickFailed)):
            self._pollers.discard(event.poller)

    def any(self) -> bool:
        """Whether one was begun and has not ended."""
        return bool(self._pollers)


@contextmanager
def stopped_by_signals(
    stop: threading.Event, in_hand: InHand, *, now: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """Set `stop` at SIGTERM or Ctrl-C; leave at once at one that comes `ONE_SIGNAL` seconds after the first or later.

    `now`: seconds on a clock that only goes forward.
    """
    first: float | None = now() if stop.is_set() else None

    def on_signal(_: int, __: FrameType | None) -> None:
        # Only what is safe in a signal handler: no locks of the logging or of streams. Another signal may come while
        # the first is still being handled: that it came, and when, is the first thing to be known.
        nonlocal first
        at = now()
        if first is None:
            first = at
            os.write(2, b"poller: stopping after the batch in hand; once more to abandon it\n")
            stop.set()
        elif at - first >= ONE_SIGNAL:
            told = b"; the batch in hand will come again when its lease has expired" if in_hand.any() else b""
            os.write(2, b"poller: abandoned" + told + b"\n")
            os._exit(exits.FAILED)

    numbers = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
    former = [(number, signal.signal(number, on_signal)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in former:
            signal.signal(number, handler)
