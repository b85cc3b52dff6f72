"""Azure Functions: a timer function per poller. Only this module knows `azure.functions`.

    app = create_app("poller.toml")              # one timer per poller of the file

    @on_timer(app, orders, schedule="%ORDERS_SCHEDULE%")
    def ship(batch: Batch) -> None: ...          # or one timer for a poller made in Python

What the host sees: an invocation succeeds when the poller did its work, had none, was paused, or found another owner
at work; anything else raises, so that the invocation is recorded as failed. An outage is never "0 rows".

What is not promised: that an invocation ends. The host ends a worker at will, with SIGKILL; then the lease runs out
after `lease_ttl` and the batch comes again. The host's own lock on a timer is not relied on either: it lets two
instances run one timer at once when it is lost, and then our lease decides who works.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import azure.functions as func

from poller.app import App
from poller.config import load_each, schedule_of
from poller.delivery.result import Outcome, TickResult
from poller.errors import ConfigError, PollerError
from poller.handler.call import Handler, HandlerFailure, check_handler
from poller.model.durations import format_duration
from poller.model.escape import escape_lines
from poller.model.redact import redact
from poller.observability.events import log_failure, raised
from poller.poller import Poller
from poller.ports import StateStore

__all__ = ["UnsuccessfulTick", "create_app", "on_timer"]

logger = logging.getLogger("poller")

DEFAULT_FILE = "poller.toml"
TIMER = "timer"
"""The parameter's name that binds the timer's state to the function."""

_HANDLER = TypeVar("_HANDLER", bound=Handler)
_SPAN = re.compile(r"(?:(\d+)\.)?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.\d+)?)?")
LONGEST_TOLD = 40_000
"""A longer traceback is not looked through for secrets: that takes seconds, in which no heartbeat runs."""
_NEXT_STEPS: Mapping[str, str] = {
    "handler_failed": "The batch comes again with the next tick.",
    "lease_lost": "Nothing is lost: the batch comes again. If this repeats, look at: poller history {name}, and give "
    "lease_ttl more time or batch_size fewer rows.",
    "commit_unknown": "The next tick reads what was stored; the batch may come again. If this repeats, look at the "
    "state store: poller check {name}.",
    "halted": "Fix the cause, then: poller resume {name}.",
}


class UnsuccessfulTick(PollerError):
    """A tick whose outcome the host must record as a failed invocation.

    Attributes:
        poller: which; outcome: `handler_failed`, `lease_lost`, `commit_unknown` or `halted`; result: the whole tick.
    """

    def __init__(self, message: str, *, poller: str, outcome: Outcome, result: TickResult, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.poller = poller
        self.outcome = outcome
        self.result = result


def create_app(path: str | os.PathLike[str] = DEFAULT_FILE) -> func.FunctionApp:
    """A function app with one timer function per poller of a configuration file.

    A function is named after its poller (`_` for `-`), its schedule is the poller's. Everything that needs no network
    is checked here, while the host indexes. A poller that is wrong harms no other function of the app: it is a timer
    function as well, which fails with its ConfigError at each tick.

    Args:
        path: of the file; a relative one is looked for beside the calling file, then in the working directory. Empty:
            the default.
    Returns: the app, to which further functions of any kind may be added.
    Raises: ConfigError, where the file cannot be read or names no poller.
    """
    folders = _folders(sys._getframe(1).f_globals)
    _quiet()
    file = _find(Path(os.fspath(path) or DEFAULT_FILE), folders)
    config, wrong = load_each(file)
    timers, names = func.FunctionApp(), _FunctionNames(file)
    if config is not None:
        app = App(config, path=file, environ=os.environ)
        for name in config.pollers:
            try:
                poller = _ready(app, name, folders)
                function = names.take(name)
            except ConfigError as error:
                wrong[name] = error
            except Exception as error:  # noqa: BLE001 - no fault, not even of our own, may take the others along
                wrong[name] = _unforeseen(error, name, file=str(file))
            else:
                _register(timers, poller, None, function=function, schedule=poller.options.schedule)
    for name, why in wrong.items():
        logger.error("%s: %s", name, why)
        _register_wrong(timers, why, function=names.find(name), schedule=schedule_of(file, name))
    return timers


def _unforeseen(error: Exception, name: str, *, file: str) -> ConfigError:
    """Of a poller that cannot be made, and nobody foresaw why. Its own words may quote a setting: they are logged once,
    without what is known for a secret."""
    log_failure(name, "This poller cannot be made.", error)
    key = f"pollers.{name}"
    return ConfigError(
        f"{file}: {key}: cannot be made: {type(error).__name__}.",
        key=key,
        file=file,
        next_step=f"Run: poller --debug check {name}",
    )


def _ready(app: App, name: str, folders: tuple[Path, ...]) -> Poller:
    """A poller of which all was checked that needs no network. Raises: ConfigError."""
    poller = app.poller(name)
    _refuse_what_a_worker_forgets(app.store, file=str(app.path))
    _ = poller.handler  # imported now, so that its errors are the index's
    _check_timeout(poller, folders, file=str(app.path))
    return poller


def on_timer(
    app: func.FunctionApp | func.Blueprint, poller: Poller, *, schedule: str | None = None, name: str | None = None
) -> Callable[[_HANDLER], _HANDLER]:
    """Run a poller on a timer, with the decorated function as its handler.

    The function is returned as it is, so it can be called and tested with a `Batch`; what is registered is a timer
    function beside it.

    Args:
        app: the function app, or a blueprint of it.
        poller: what to run.
        schedule: NCRONTAB in UTC, or `%NAME%` for an app setting that holds it; default: the poller's own.
        name: of the timer function; default: the decorated function's, or the poller's where that has none.
    Raises: ConfigError where the host would end a tick before `tick_timeout`, the function is a generator, or, in
        Azure, the poller's state would end with the worker.
    """
    folders = _folders(sys._getframe(1).f_globals)

    def decorate(handler: _HANDLER) -> _HANDLER:
        _quiet()
        check_handler(handler)
        _refuse_what_a_worker_forgets(poller.store)
        _check_timeout(poller, folders)
        own = str(getattr(handler, "__name__", ""))
        function = name or (own if own.isidentifier() else _function_name(poller.name))
        _register(app, poller, handler, function=function, schedule=schedule or poller.options.schedule)
        return handler

    return decorate


def _register(
    app: func.FunctionApp | func.Blueprint, poller: Poller, handler: Handler | None, *, function: str, schedule: str
) -> None:
    """Add the timer function. The worker runs it on a thread of its pool, since it is a plain one.

    `run_on_startup` stays off: it would tick at every restart and scale-out, beside the schedule. `use_monitor` is left
    to the host, which remembers a missed moment of a schedule of a minute or more and makes up for it (a nightly poller
    is not a day late), and does without where ticks come more often.
    """

    def tick(timer: func.TimerRequest) -> None:
        if timer.past_due:
            logger.info("%s: this tick is past due: its moment passed while no worker ran.", poller.name)
        before = raised.set(True)
        try:
            result = poller.tick(handler)
        finally:
            raised.reset(before)
        _judge(poller, result)

    _add(app, tick, function=function, schedule=schedule)


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


def _judge(poller: Poller, result: TickResult) -> None:
    """Return where all is well or an operator wants it so; raise where somebody should know.

    A handler's own exception is raised as it is, so that the host shows its type and place; unless `error_text` is off,
    because then its text is nobody's to see, and unless it quotes a secret: the host logs all that it is given.
    """
    if result.ok or result.outcome == "paused":
        return
    name, own = poller.name, result.exception
    shown = poller.options.error_text and own is not None and _quotes_no_secret(own)
    next_step = _NEXT_STEPS[result.outcome].format(name=name)
    ours = isinstance(own, HandlerFailure) or not isinstance(own, Exception)
    if result.outcome == "handler_failed" and own is not None and shown and not ours:
        note = f"poller {name}: the handler failed; the checkpoint stays. {next_step}"
        if note not in getattr(own, "__notes__", ()):
            own.add_note(note)
        raise own
    error = UnsuccessfulTick(
        f"poller {name}: {result.outcome}: {result.error or 'no reason was given'}.",
        poller=name,
        outcome=result.outcome,
        result=result,
        next_step=next_step,
    )
    if result.trace and (ours or not shown):  # else the host prints the exception's own
        error.add_note(escape_lines(result.trace, f"{name}: "))
    raise error from (own if shown and not ours else None)


def _quotes_no_secret(error: BaseException) -> bool:
    """Whether all that a host prints of it may be printed: its text, what caused it, and the lines that it went by;
    neither a secret nor what steers a terminal. Not what is too long for that, nor what raises when asked."""
    try:
        told = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - what an exception has of its own may raise anything, SystemExit too
        return False
    return len(told) <= LONGEST_TOLD and redact(told) == told == escape_lines(told)


# --- names ---------------------------------------------------------------------------------------------------------


class _FunctionNames:
    """The functions of one file, each name once."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)
        self._taken: dict[str, str] = {}

    def take(self, poller: str) -> str:
        """The function's name for a poller. Raises: ConfigError, where another poller's function is called so."""
        function = _function_name(poller)
        other = self._taken.setdefault(function, poller)
        if other != poller:
            raise ConfigError(
                f"{self._file}: pollers.{other} and pollers.{poller} would both be the function {function!r}.",
                key=f"pollers.{poller}",
                file=self._file,
                next_step="Rename one of them.",
            )
        return function

    def find(self, poller: str) -> str:
        """A name that no other function has, whatever the poller is called."""
        wanted = _function_name(poller)
        names = itertools.chain([wanted], (f"{wanted}_{n}" for n in itertools.count(2)))
        return next(one for one in names if self._taken.setdefault(one, poller) == poller)


def _function_name(poller: str) -> str:
    """A function's name begins with a letter and has letters, digits and underscores here, at most 127 for the host."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", poller)[:100]
    return name if name[:1].isalpha() else f"poller_{name}"


# --- files beside the app -------------------------------------------------------------------------------------------


def _folders(caller: Mapping[str, Any]) -> tuple[Path, ...]:
    """Where the app's files are looked for: beside the file that calls us, then in the working directory."""
    file = caller.get("__file__")
    here = Path.cwd()
    return (Path(file).resolve().parent, here) if isinstance(file, str) else (here,)


def _find(path: Path, folders: tuple[Path, ...]) -> Path:
    for folder in folders:
        if (folder / path).is_file():
            return folder / path
    looked = " nor in ".join(str(folder) for folder in dict.fromkeys(folders))
    raise ConfigError(
        f"There is no configuration file {path} in {looked}." if not path.is_absolute() else f"There is no {path}.",
        file=str(path),
        next_step="Put it beside function_app.py, see that .funcignore does not leave it out, "
        "or name another one with the app setting POLLER_CONFIG.",
    )


def _check_timeout(poller: Poller, folders: tuple[Path, ...], *, file: str = "") -> None:
    """A tick that outlives `functionTimeout` is ended together with the whole worker, in the middle of a batch."""
    limit, origin = _function_timeout(folders)
    took = poller.options.tick_timeout
    if limit is not None and took >= limit:
        key = f"pollers.{poller.name}.tick_timeout" if file else "tick_timeout"
        raise ConfigError(
            f"{f'{file}: ' if file else ''}{key}: {format_duration(took)} is not below {origin}, "
            f"{format_duration(limit)}: the host would end the worker in the middle of a batch.",
            key=key,
            file=file,
            next_step="Lower tick_timeout or raise functionTimeout; leave at least 15 s between them.",
        )


def _function_timeout(folders: tuple[Path, ...]) -> tuple[timedelta | None, str]:
    """The host's limit for an invocation and what sets it; None where nothing does, or it is unbounded (-1)."""
    setting = "AzureFunctionsJobHost__functionTimeout"
    if setting in os.environ:
        return _span(os.environ[setting]), f"the app setting {setting}"
    for folder in folders:
        host = folder / "host.json"
        if host.is_file():
            try:
                content = json.loads(host.read_text(encoding="utf-8-sig"))
            except (OSError, ValueError):
                break  # the host itself says what is wrong with it
            return _span(
                content.get("functionTimeout") if isinstance(content, dict) else None
            ), f"functionTimeout in {host}"
    return None, ""


def _span(text: object) -> timedelta | None:
    """A .NET time span such as `00:05:00` or `1.00:00:00`."""
    match = _SPAN.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


# --- the worker ----------------------------------------------------------------------------------------------------


def _refuse_what_a_worker_forgets(store: StateStore, *, file: str = "") -> None:
    """In Azure a worker's memory and disk end with it; a checkpoint kept there begins anew at every restart."""
    if "WEBSITE_SITE_NAME" not in os.environ:
        return
    from poller.stores import MemoryStore, SqlStore

    embedded = isinstance(store, SqlStore) and store.backend == "sqlite"
    if embedded or isinstance(store, MemoryStore):
        key = "store" if not file else "state.url" if embedded else "state.store"
        raise ConfigError(
            f"{f'{file}: ' if file else ''}{key}: {'SQLite' if embedded else 'memory'} does not outlive a worker in "
            "Azure: the pollers would begin anew with every restart, and every instance for itself.",
            key=key,
            file=file,
            next_step='Set state.store = "blob", or name a database server.' if file else "Give it a BlobStore.",
        )


def _quiet() -> None:
    """The worker logs everything at INFO and above, and the storage client tells each request's headers at INFO."""
    requests = logging.getLogger("azure.core.pipeline.policies.http_logging_policy")
    if requests.level == logging.NOTSET:
        requests.setLevel(logging.WARNING)
