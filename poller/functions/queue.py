"""Two functions, however many pollers the file has (`[functions] mode = "queue"`), and a third one if a table is to be
pruned (`poller.functions.prune`).

`dispatch` is a timer: it looks who is due, and sends a message for each poller that has rows (`poller.dispatch`).
`work` is triggered by the queue: it does one tick of the poller that its message names, under that poller's own lease.

What the host sees of `work`: as of a timer in the other mode, an invocation fails if a person should know. Set
`maxDequeueCount` to 1: attempts are counted in the poller's document, and the dispatcher sends a message again when the
next call may be made. With more, the host repeats the message at once, and the poller answers that it is backing off.

A worker that is killed leaves its message hidden for ten minutes. Nothing waits for it: the lease expires, and the
dispatcher finds the rows.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

import azure.functions as func

from poller.app import App
from poller.config import schedules_of
from poller.dispatch.round import Dispatcher
from poller.dispatch.wiring import host_refusals, open_dispatcher, open_queue, queue_name
from poller.dispatch.work import Work
from poller.errors import ConfigError
from poller.functions.host import check_timeout, log_wrong, refuse_what_a_worker_forgets
from poller.functions.naming import FunctionNames
from poller.functions.outcome import raise_on_failure
from poller.functions.prune import add_prune
from poller.observability.events import raised
from poller.poller import Poller

logger = logging.getLogger("poller")

DISPATCH, WORK = "dispatch", "work"
"""The functions' names."""
TIMER, MESSAGE = "timer", "message"
"""The names of their parameters."""


def add_functions(
    functions: func.FunctionApp,
    app: App,
    names: FunctionNames,
    wrong: Mapping[str, ConfigError],
    folders: tuple[Path, ...],
) -> None:
    """Add these functions. What cannot work at all is one function that fails, and says why.

    Args:
        app: the pollers that are right, as far as their options show. names: gets theirs.
        wrong: why the others are not.
        folders: where `host.json` is looked for.
    """
    for name in (DISPATCH, WORK):
        names.find(name)
    try:
        _refuse(app, folders)
        queue = open_queue(app, os.environ)
        app.import_parts()
        dispatcher = _Dispatch(app, schedules_of(app.path, wrong))
    except ConfigError as error:
        logger.error("%s", error)
        _add_wrong(functions, error, app.config.functions.dispatch_schedule)
        return
    log_wrong(wrong)
    pollers = _Pollers(app, folders)
    work = Work(app.app_name, pollers.get, wrong, queue=queue, runtime=app.runtime)

    def dispatch(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host hands it over by name
        dispatcher.round()

    def tick(message: func.QueueMessage) -> None:
        before = raised.set(True)
        try:
            done = work.do(message.get_body())
        finally:
            raised.reset(before)
        if done is not None:
            raise_on_failure(*done)

    _add_timer(functions, dispatch, app.config.functions.dispatch_schedule)
    tick.__name__ = tick.__qualname__ = WORK
    trigger = functions.queue_trigger(
        arg_name=MESSAGE, queue_name=queue_name(app.config), connection=app.config.state.connection
    )
    functions.function_name(WORK)(trigger(tick))
    add_prune(functions, app, names, wrong)


def _refuse(app: App, folders: tuple[Path, ...]) -> None:
    """Raises: ConfigError, if the host or the store does not suit."""
    found = host_refusals(folders, os.environ)
    if found:
        first = found[0]
        raise ConfigError(
            f'{app.path}: functions.mode: "queue" cannot work: '
            + "; ".join(f"{one.key} in host.json {one.message}" for one in found)
            + ".",
            key="functions.mode",
            file=str(app.path),
            next_step=f"In host.json: {first.next_step}",
        )
    refuse_what_a_worker_forgets(app.store, file=str(app.path))


class _Dispatch:
    """The dispatcher, made at the first round; rounds do not overlap in one process.

    Args:
        wrong: the schedules of pollers whose configuration is wrong.
    """

    def __init__(self, app: App, wrong: Mapping[str, str]) -> None:
        self._app = app
        self._wrong = wrong
        self._busy = Lock()
        self._made: Dispatcher | None = None

    def round(self) -> None:
        """Raises: as `Dispatcher.round`."""
        if not self._busy.acquire(blocking=False):
            logger.info("dispatch: the round before still runs")
            return
        try:
            if self._made is None:
                self._made = open_dispatcher(self._app, os.environ, wrong=self._wrong)
            self._made.round()
        finally:
            self._busy.release()


class _Pollers:
    """The pollers of an app, each made with its first message."""

    def __init__(self, app: App, folders: tuple[Path, ...]) -> None:
        self._app = app
        self._folders = folders
        self._lock = Lock()
        self._checked: set[str] = set()

    def get(self, name: str) -> Poller | None:
        """The poller; None if there is none of that name. Raises: ConfigError."""
        if name not in self._app.config.pollers:
            return None
        with self._lock:
            poller = self._app.poller(name)
            if name not in self._checked:
                _ = poller.handler
                check_timeout(poller, self._folders, file=str(self._app.path))
                self._checked.add(name)
        return poller


def _add_wrong(functions: func.FunctionApp, error: ConfigError, schedule: str) -> None:
    def dispatch(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host hands it over by name
        raise ConfigError(error.message, key=error.key, file=error.file, next_step=error.next_step)

    _add_timer(functions, dispatch, schedule)


def _add_timer(functions: func.FunctionApp, run: object, schedule: str) -> None:
    trigger = functions.timer_trigger(arg_name=TIMER, schedule=schedule, run_on_startup=False)
    functions.function_name(DISPATCH)(trigger(run))
