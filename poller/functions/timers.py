"""A timer function per poller.

    app = create_app("poller.toml")              # one timer per poller of the file

    @on_timer(app, orders, schedule="%ORDERS_SCHEDULE%")
    def ship(batch: Batch) -> None: ...          # or one timer for a poller made in Python

What the host sees: an invocation succeeds when the poller did its work, had none, was paused, or found another owner
at work; anything else raises, so that the invocation is recorded as failed. An outage is never "0 rows".

What is not promised: that an invocation ends. The host ends a worker at will, with SIGKILL; then the lease runs out
after `lease_ttl` and the batch comes again. The host's own lock on a timer is not relied on either: it lets two
instances run one timer at once when it is lost, and then our lease decides who works.

Beside them stand two timers more: if a schedule has long pauses, `poller.functions.sweep`, and if a table is to be
pruned, `poller.functions.prune`.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import azure.functions as func

from poller.app import App
from poller.config import load_each, schedules_of
from poller.errors import ConfigError
from poller.functions.host import (
    check_timeout,
    find_file,
    folders_of,
    log_wrong,
    quiet_requests,
    refuse_what_a_worker_forgets,
)
from poller.functions.naming import FunctionNames, function_name
from poller.functions.outcome import raise_on_failure
from poller.functions.prune import add_prune
from poller.functions.sweep import SCHEDULE, Sweep
from poller.handler.call import Handler, check_handler
from poller.journal.configurations import Configurations
from poller.observability import log_events
from poller.observability.events import log_failure, raised
from poller.poller import Poller
from poller.runtime import collect_less

logger = logging.getLogger("poller")

DEFAULT_FILE = "poller.toml"
TIMER = "timer"
"""The parameter's name that binds the timer's state to the function."""
SWEEP = "poller_sweep"
"""The function that looks what the timers of a file left."""

_sweeps: WeakKeyDictionary[func.FunctionApp | func.Blueprint, Sweep] = WeakKeyDictionary()

_HANDLER = TypeVar("_HANDLER", bound=Handler)


def create_app(path: str | os.PathLike[str] = DEFAULT_FILE, *, http: bool = False) -> func.FunctionApp:
    """A function app with one timer function per poller of a configuration file, and one more if a schedule has long
    pauses (`poller.functions.sweep`); with `[functions] mode = "queue"`, with a dispatcher and a queue function for all
    of them (`poller.functions.queue`). If a table is to be pruned, a timer does it (`poller.functions.prune`).

    A function is named after its poller (`_` for `-`), its schedule is the poller's. Everything that needs no network
    is checked here, while the host indexes. A poller that is wrong harms no other function of the app: it is a timer
    function as well, which fails with its ConfigError at each tick.

    Args:
        path: of the file; a relative one is looked for beside the calling file, then in the working directory. Empty:
            the default.
        http: also the HTTP endpoints, as functions: `GET /api/health` and the others of `poller.http`.
    Returns: the app, to which further functions of any kind may be added.
    Raises: ConfigError, if the file cannot be read or names no poller.
    """
    folders = folders_of(sys._getframe(1).f_globals)
    quiet_requests()
    file = find_file(Path(os.fspath(path) or DEFAULT_FILE), folders)
    config, wrong = load_each(file)
    timers, names = func.FunctionApp(), FunctionNames(file)
    app = None if config is None else App(config, path=file, environ=os.environ)
    if app is not None and app.config.functions.mode == "queue":
        from poller.functions.queue import add_functions

        add_functions(timers, app, names, wrong, folders)
    else:
        _add_timers(timers, app, names, wrong, folders, file=file)
    if http:
        from poller.functions.endpoints import add_endpoints

        add_endpoints(timers, app, names, wrong=wrong)
    if app is not None:
        _export(app)
    if "FUNCTIONS_WORKER_RUNTIME" in os.environ:  # the host sets it for its workers
        collect_less()
    return timers


def _export(app: App) -> None:
    """Metrics and traces, if they are asked for. What is missing for them is logged: rows are delivered without."""
    from poller.worker.exporting import export_telemetry

    try:
        telemetry = export_telemetry(app.config, app.path, here=("otlp", "azure-monitor"))
    except ConfigError as error:
        logger.error("%s", error)
    else:
        if telemetry is not None:
            atexit.register(telemetry.close)


def _add_timers(
    timers: func.FunctionApp,
    app: App | None,
    names: FunctionNames,
    wrong: dict[str, ConfigError],
    folders: tuple[Path, ...],
    *,
    file: Path,
) -> None:
    """Add a timer function for each poller, and the sweep; `wrong` gets those that cannot be made, and why."""
    if app is not None:
        watch = TwoAppsWatch(app)
        for name in app.config.pollers:
            try:
                poller = _ready(app, name, folders)
                function = names.take(name)
            except ConfigError as error:
                wrong[name] = error
            except Exception as error:  # noqa: BLE001 - no fault, not even of our own, may take the others along
                wrong[name] = _unforeseen(error, name, file=app.config.file_of(name, str(file)))
            else:
                schedule = poller.options.schedule
                _register(timers, poller, None, function=function, schedule=schedule, before=watch.look)
                _sweep_too(timers, poller, None, function=lambda: names.beside(SWEEP), before=watch.look)
        add_prune(timers, app, names, wrong)
    log_wrong(wrong)
    for name, schedule in schedules_of(file, wrong).items():
        _register_wrong(timers, wrong[name], function=names.find(name), schedule=schedule)


def http_blueprint(path: str | os.PathLike[str] = DEFAULT_FILE) -> func.Blueprint:
    """The HTTP endpoints of a configuration file as functions, for an app of your own:
    `app.register_functions(http_blueprint("poller.toml"))`. They look at every poller of the file, wherever it runs.

    Args:
        path: as of `create_app`.
    Raises: ConfigError, if the file cannot be read or names no poller.
    """
    from poller.functions.endpoints import add_endpoints

    folders = folders_of(sys._getframe(1).f_globals)
    quiet_requests()
    file = find_file(Path(os.fspath(path) or DEFAULT_FILE), folders)
    config, wrong = load_each(file)
    names = FunctionNames(file)
    for name in [*(() if config is None else config.pollers), *wrong]:
        names.find(name)
    blueprint = func.Blueprint()  # type: ignore[no-untyped-call,unused-ignore]
    of = None if config is None else App(config, path=file, environ=os.environ)
    add_endpoints(blueprint, of, names, wrong=wrong)
    return blueprint


def _unforeseen(error: Exception, name: str, *, file: str) -> ConfigError:
    """The error of a poller that cannot be made for an unforeseen reason. Its own words may quote a setting: they are
    logged once, without what is known for a secret."""
    log_failure(name, "This poller cannot be made.", error)
    key = f"pollers.{name}"
    return ConfigError(
        f"{file}: {key}: cannot be made: {type(error).__name__}.",
        key=key,
        file=file,
        next_step=f"Run: poller --debug check {name}",
    )


def _ready(app: App, name: str, folders: tuple[Path, ...]) -> Poller:
    """A poller after all checks that need no network. Raises: ConfigError."""
    poller = app.poller(name)
    refuse_what_a_worker_forgets(app.store, file=str(app.path))
    _ = poller.handler  # imported now, so that its errors are the index's
    check_timeout(poller, folders, file=poller.origin.written)
    return poller


def on_timer(
    app: func.FunctionApp | func.Blueprint, poller: Poller, *, schedule: str | None = None, name: str | None = None
) -> Callable[[_HANDLER], _HANDLER]:
    """Run a poller on a timer, with the decorated function as its handler.

    The function is returned as it is, so it can be called and tested with a `Batch`; what is registered is a timer
    function beside it. With the first poller of an app whose schedule has pauses of more than five minutes comes one
    timer more, `{name}_sweep`, which serves all those of the app (`poller.functions.sweep`).

    Args:
        app: the function app, or a blueprint of it.
        poller: what to run.
        schedule: NCRONTAB in UTC, or `%NAME%` for an app setting that holds it; default: the poller's own.
        name: of the timer function; default: the decorated function's, or the poller's where that has none.
    Raises: ConfigError where the host would end a tick before `tick_timeout`, the function is a generator, or, in
        Azure, the poller's state would end with the worker.
    """
    folders = folders_of(sys._getframe(1).f_globals)

    def decorate(handler: _HANDLER) -> _HANDLER:
        quiet_requests()
        check_handler(handler)
        refuse_what_a_worker_forgets(poller.store)
        check_timeout(poller, folders)
        own = str(getattr(handler, "__name__", ""))
        function = name or (own if own.isidentifier() else function_name(poller.name))
        _register(app, poller, handler, function=function, schedule=schedule or poller.options.schedule)
        if schedule is not None:
            with suppress(ConfigError):  # the host says what is wrong with it, or knows a form that we do not
                poller.follow(_setting(schedule))
        _sweep_too(app, poller, handler, function=lambda: f"{function[:100]}_sweep")
        return handler

    return decorate


def _nothing() -> None:
    """An app made in Python has no configuration to compare."""


def _register(
    app: func.FunctionApp | func.Blueprint,
    poller: Poller,
    handler: Handler | None,
    *,
    function: str,
    schedule: str,
    before: Callable[[], None] = _nothing,
) -> None:
    """Add the timer function, which calls `before` first. The worker runs it on a thread of its pool, since it is a
    plain one.

    `run_on_startup` stays off: it would tick at every restart and scale-out, beside the schedule. `use_monitor` is left
    to the host, which remembers a missed moment of a schedule of a minute or more and makes up for it (a nightly poller
    is not a day late), and does without where ticks come more often.
    """

    def tick(timer: func.TimerRequest) -> None:
        if timer.past_due:
            logger.info("%s: this tick is past due: its moment passed while no worker ran.", poller.name)
        before()
        former = raised.set(True)
        try:
            result = poller.tick(handler)
        finally:
            raised.reset(former)
        raise_on_failure(poller, result)

    _add(app, tick, function=function, schedule=schedule)


def _setting(schedule: str) -> str:
    """The schedule that `%NAME%` means: the value of an app setting."""
    named = len(schedule) > 2 and schedule.startswith("%") and schedule.endswith("%")
    return os.environ.get(schedule[1:-1], schedule) if named else schedule


def _sweep_too(
    app: func.FunctionApp | func.Blueprint,
    poller: Poller,
    handler: Handler | None,
    *,
    function: Callable[[], str],
    before: Callable[[], None] = _nothing,
) -> None:
    """Let the app's sweep look at this poller, if its schedule has long pauses; the first one brings its timer."""
    sweep = _sweeps.setdefault(app, Sweep())
    first = not sweep
    if not sweep.add(poller, handler) or not first:
        return

    def look(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host hands it over by name
        before()
        sweep.run()

    _add(app, look, function=function(), schedule=SCHEDULE)


def _register_wrong(app: func.FunctionApp, error: ConfigError, *, function: str, schedule: str) -> None:
    """Add a timer function that fails, so that the host shows it in red, with what to do."""

    def tick(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host hands it over by name
        raise ConfigError(error.message, key=error.key, file=error.file, next_step=error.next_step)

    _add(app, tick, function=function, schedule=schedule)


def _add(
    app: func.FunctionApp | func.Blueprint,
    tick: Callable[[func.TimerRequest], None],
    *,
    function: str,
    schedule: str,
) -> None:
    tick.__name__ = tick.__qualname__ = function
    trigger: Callable[[Any], Any] = app.timer_trigger(arg_name=TIMER, schedule=schedule, run_on_startup=False)
    app.function_name(function)(trigger(tick))


class TwoAppsWatch:
    """Keeps the hint of the app's configuration while its timers fire, and warns of another's. May be called from
    several threads."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._made: Configurations | None = None
        self._busy = Lock()

    def look(self) -> None:
        """Renew the hint, and look at the others, if it is time: on a thread of its own, so that no tick waits for it.
        Raises nothing."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            if self._made is None or self._made.due():
                self._app.runtime.spawn(self._keep, "poller-configurations")
                return  # that thread lets go
        except RuntimeError:  # no room for a thread: the next tick tries
            pass
        self._busy.release()

    def _keep(self) -> None:
        try:
            if self._made is None:
                self._made = Configurations(self._app.store, self._app.config, self._app.runtime)
            self._made.keep(log_events)
        except Exception as error:  # noqa: BLE001 - no tick is worse off for it
            logger.info("Whether another configuration works under this name is not known: %s", type(error).__name__)
        finally:
            self._busy.release()
