"""A timer that prunes the tables of an app's pollers once an hour, if the file asks for it (docs/recipes/prune.md).

It ends soon enough for the host: what it leaves, the next one goes on with.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

import azure.functions as func

from poller.app import App
from poller.errors import ConfigError
from poller.functions.naming import FunctionNames

PRUNE = "poller_prune"
"""The function's name."""
SCHEDULE = "15 37 * * * *"
"""Not at the moments at which most schedules fall due: their own timers are at work then."""
LASTS = 240.0
"""Seconds after which no further rows are deleted."""
TIMER = "timer"
"""The parameter's name that binds the timer's state to the function."""


def add_prune(functions: func.FunctionApp, app: App, names: FunctionNames, wrong: Mapping[str, ConfigError]) -> None:
    """Add the timer, if a poller's table is to be pruned. `wrong`: pollers that cannot be made."""
    prunes = app.prunes([name for name in app.config.pollers if name not in wrong])
    if not prunes.names:
        return
    busy, runtime = Lock(), app.runtime

    def prune(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host hands it over by name
        if not busy.acquire(blocking=False):
            return  # the one before still runs
        stop, over = runtime.event(), runtime.event()

        def end() -> None:
            if not over.wait(LASTS):
                stop.set()

        try:
            runtime.spawn(end, "poller-prune")
            failed = prunes.run(stop)
        finally:
            over.set()
            busy.release()
        if failed:
            raise failed[0]  # each has its event

    function = names.beside(PRUNE)
    prune.__name__ = prune.__qualname__ = function
    trigger = functions.timer_trigger(arg_name=TIMER, schedule=SCHEDULE, run_on_startup=False)
    functions.function_name(function)(trigger(prune))
