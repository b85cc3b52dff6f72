"""`poller dispatch`: look which pollers are due, and send a message for each that has rows."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from poller.model.when import clock, took
from poller_cli import exits
from poller_cli.session import LogFormatOption, Session

if TYPE_CHECKING:
    from poller.app import App
    from poller.dispatch.result import DispatchOutput
    from poller.dispatch.round import Dispatcher
    from poller.ports import Event


def dispatch(
    session: Session,
    once: Annotated[bool, typer.Option("--once", help="One round, then exit.")] = False,
    log_format: LogFormatOption = "text",
) -> int:
    """Look which pollers are due, and send a work message for each that has rows: what the function `dispatch` does
    if `[functions] mode = "queue"`.

    For ever, at each moment of `dispatch_schedule`, unless --once is given.

    Example: poller dispatch --once

    It does no harm beside the function of an app: a message that comes twice finds nothing left to do. --json writes
    one object per round.
    """
    from poller import worker
    from poller.dispatch.wiring import open_dispatcher
    from poller.errors import ConfigError
    from poller.worker.exporting import exported
    from poller_cli.output.log import log_to_stderr
    from poller_cli.terminal.printing import form_of_signals

    log_to_stderr(debug=session.debug, as_json=log_format == "json")
    with session.app() as app, exported(app.config, app.path):
        if app.config.functions.mode != "queue":
            raise ConfigError(
                f'{app.path}: functions.mode: is "timer", which sends no work messages.',
                key="functions.mode",
                file=str(app.path),
                next_step='Set [functions] mode = "queue", or use poller run.',
            )
        dispatcher = open_dispatcher(app, os.environ)
        try:
            if once:
                _show(session, dispatcher.round())
                return exits.DONE
            with worker.stopped_by_signals(exit_code=exits.FAILED, form=form_of_signals()) as stop:
                _go_on(session, app, dispatcher, stop)
        finally:
            dispatcher.close()
    return exits.DONE


def _go_on(session: Session, app: App, dispatcher: Dispatcher, stop: Event) -> None:
    """Round after round. A store that cannot be reached ends none of them but its own."""
    from poller.errors import StoreError
    from poller.model.schedule import Schedule
    from poller_cli.terminal.printing import complain

    schedule = Schedule(app.config.functions.dispatch_schedule)
    while not stop.is_set():
        try:
            _show(session, dispatcher.round())
        except StoreError as error:
            complain(str(error))
        now = app.runtime.utcnow()
        stop.wait((schedule.next_after(now) - now).total_seconds())


def _show(session: Session, output: DispatchOutput) -> None:
    """A round, as JSON on one line, or in words."""
    from poller_cli.terminal.layout import fitted
    from poller_cli.terminal.printing import print_json

    if session.json:
        print_json(output, indent=None)
        return
    sent = ", ".join(f"{one.poller} ({one.why})" for one in output.sent) or "none"
    states = f"{output.due} due, {output.at_work} at work, {output.resting} resting, {output.waiting} waiting"
    in_all = took(output.duration_seconds)
    line = f"{clock(output.at)} {output.pollers} pollers: {states}; sent to {sent} in {in_all}"
    print(fitted(line, sys.stdout), flush=True)
