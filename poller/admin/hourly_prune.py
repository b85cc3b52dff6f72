"""Automatic prunes: once an hour for each poller whose `[pollers.NAME.prune]` asks for it.

They need no lease, so an idle poller stays idle. Several processes may prune one table: of a change table the row of
`poller_captures` is the lock, and a row of an outbox that one process deleted is no longer there for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from poller.admin.prune import PrunePlan, TablePrune
from poller.admin.wired import WiredApp, WiredPoller
from poller.config import PruneOptions
from poller.errors import PollerError
from poller.model.durations import format_duration
from poller.model.finding import Finding, ok, warn
from poller.observability import PollerEvent, PruneFailed, TableLarge, TablePruned
from poller.observability.events import log_failure

if TYPE_CHECKING:
    from poller.ports import Event

EVERY = 3600.0
"""Seconds from the end of a prune to the next."""
FIRST = (30.0, 300.0)
"""Seconds after the start of a process in which its first prune begins: not of all processes at once."""
OVERDUE = timedelta(hours=3)
"""How much older than `older_than` a change may be before `poller check` says that it was not pruned."""


class PrunablePoller(WiredPoller, Protocol):
    """A poller whose table may be pruned; `poller.Poller` is one."""

    def emit(self, event: PollerEvent) -> None:
        """Give an event to its observers."""
        ...


class HourlyPrunes:
    """The automatic prunes of one process. One caller at a time.

    Args:
        names: of pollers; those without an automatic prune are left out. environ: where settings are looked up.
    """

    def __init__(self, app: WiredApp[PrunablePoller], names: Iterable[str], environ: Mapping[str, str]) -> None:
        self._app = app
        self._environ = environ
        self.names = tuple(name for name in names if _options(app, name).automatic)
        self._due = app.runtime.monotonic() + app.runtime.jitter(*FIRST)

    def left(self) -> float:
        """Seconds until the next ones are due."""
        return max(0.0, self._due - self._app.runtime.monotonic()) if self.names else float("inf")

    def run(self, stop: Event | None = None) -> list[PollerError]:
        """Prune each table, one after the other, and say with events what came of it; the errors of those that failed,
        which are tried again the next time. After `stop` is set no further chunk is begun. Raises nothing."""
        failed = list[PollerError]()
        stop = stop or self._app.runtime.event()
        for name in self.names:
            if stop.is_set():
                break
            try:
                self._prune(name, stop)
            except PollerError as error:
                if stop.is_set():
                    break  # what it needs is being closed
                failed.append(error)
                self._say_failed(name, error, str(error))
            except Exception as error:  # noqa: BLE001 - no delivery is worse off for it
                log_failure(name, "Its table was not pruned.", error)
                self._say_failed(name, error, "an unforeseen error, which the log shows")
        self._due = self._app.runtime.monotonic() + EVERY
        return failed

    def _prune(self, name: str, stop: Event) -> None:
        """Raises: as `TablePrune`."""
        made = prune_of(self._app, name, self._environ)
        done, limit = made.run(stop), _options(self._app, name).warn_size
        poller, at = self._app.pollers[name], self._app.runtime.utcnow()
        if done.through is not None:
            event = TablePruned(
                poller=name, at=at, table=made.table, rows=done.rows, through=done.through, bytes=done.bytes
            )
            poller.emit(event)
        if done.bytes is not None and done.bytes > limit:
            poller.emit(TableLarge(poller=name, at=at, table=made.table, bytes=done.bytes, warn_size=limit))

    def _say_failed(self, name: str, error: Exception, text: str) -> None:
        at = self._app.runtime.utcnow()
        event = PruneFailed(poller=name, at=at, error_type=type(error).__name__, error=text)
        try:
            self._app.pollers[name].emit(event)
        except PollerError as refused:
            log_failure(name, "Its table was not pruned.", refused)


def prune_of(app: WiredApp[PrunablePoller], name: str, environ: Mapping[str, str]) -> TablePrune:
    """The prune of a poller's table, as configured. Raises: as `TablePrune`."""
    source = app.pollers[name].source.describe()
    return TablePrune(name, app.config, source, store=app.store, runtime=app.runtime, environ=environ)


def findings(app: WiredApp[PrunablePoller], name: str, environ: Mapping[str, str]) -> list[Finding]:
    """What `poller check` says of the table that a poller reads: if it is pruned as configured, and if it has grown
    large. Nothing of a table that is neither captured nor to be pruned. Changes nothing, raises nothing."""
    options = _options(app, name)
    if not options.automatic:
        return _size(app, name, environ) if app.config.pollers[name].source.capture else []
    try:
        plan = prune_of(app, name, environ).plan(overdue=OVERDUE, rights=True)
    except PollerError as refused:
        return [warn("prune", f"Its table is not pruned: {refused.message}", refused.next_step)]
    return [_pruned(name, plan), *_large(name, plan.table, plan.bytes, options)]


def _pruned(name: str, plan: PrunePlan) -> Finding:
    if plan.age is None:
        return ok("prune", f"rows of {plan.table} that every reader is done with are deleted once an hour")
    age = format_duration(plan.age)
    if plan.rows:
        text = f"{plan.rows:,} changes of {plan.table} should be gone: they are older than {age} by more than"
        return warn(
            "prune",
            f"{text} {format_duration(OVERDUE)}.",
            f"See that poller run {name} runs, and its log for prune_failed; or: poller prune {name}",
        )
    return ok("prune", f"changes of {plan.table} that are older than {age} are deleted once an hour")


def _size(app: WiredApp[PrunablePoller], name: str, environ: Mapping[str, str]) -> list[Finding]:
    try:
        made = prune_of(app, name, environ)
        return _large(name, made.table, made.bytes(), _options(app, name))
    except PollerError:
        return []  # the setting of its owner is not set here, or nothing is installed: other findings say it


def _large(name: str, table: str, size: int | None, options: PruneOptions) -> list[Finding]:
    if size is None or size <= options.warn_size:
        return []
    fix = f"See which reader is behind: poller prune {name} --dry-run"
    if not options.automatic:
        fix = f'Prune it: older_than = "7d" in [pollers.{name}.prune], or: poller prune {name}'
    return [warn("size", f"{table} has {size:,} bytes, more than warn_size ({options.warn_size:,}).", fix)]


def _options(app: WiredApp[PrunablePoller], name: str) -> PruneOptions:
    return app.config.pollers[name].prune or PruneOptions()
