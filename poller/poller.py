"""The facade: a `Poller` wires one source and one store, and is what a program calls."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, Unpack, cast
from weakref import ref

from poller import once
from poller.config import AppConfig, PollerKeywords, PollerOptions, load_config, poller_options
from poller.config.keywords import signature
from poller.config.options import Options
from poller.config.problems import find_poller
from poller.config.relays import relay_name
from poller.config.types import is_name
from poller.errors import ConfigError, PollerError
from poller.handler.call import Handler
from poller.handler.load import import_handler
from poller.model.finding import Finding
from poller.model.schedule import schedule_of
from poller.observability import Observer, PollerEvent, log_events
from poller.observability.otel import recorded
from poller.ports import Event, InspectableSource, Runtime, Source, StateStore
from poller.runtime import SystemRuntime
from poller.tick.context import Context
from poller.tick.ordering import order_by
from poller.tick.recheck import Recheck
from poller.tick.replay import Replay
from poller.tick.result import TickResult
from poller.tick.runner import Runner

if TYPE_CHECKING:
    from poller.admin.change_result import ChangeOutput
    from poller.admin.changes import Change, Changes, Preview
    from poller.admin.history import HistoryOutput
    from poller.admin.peek import Peek
    from poller.admin.quarantine.waiting import WaitingRows
    from poller.admin.request import Allow
    from poller.admin.status import PollerStatus
    from poller.backfill.result import BackfillOutput
    from poller.model.cursor import Cursor
    from poller.model.view import PollerView
    from poller.relays.base import Relay


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a poller was configured.

    Attributes:
        folder: in which its handler's module stands. file: `poller.toml`; empty for a poller made in Python.
        written: the file with its table, which `file` may include. pollers: the names of all that are configured.
        relay: the settings of the relay that is its handler. environ: where a relay looks up the variables that these
            name; None: this process's environment.
    """

    folder: Path = field(default_factory=Path.cwd)
    file: str = ""
    written: str = ""
    pollers: Collection[str] = ()
    relay: Options | None = field(default=None, repr=False)
    environ: Mapping[str, str] | None = field(default=None, repr=False)


class Poller:
    """New and changed rows of one source, handed to a handler in order; its place is remembered in a store.

    Args:
        name: of the poller; with `app_name` it names the state document `state/{app_name}/{name}.json`.
        source: where rows come from, such as `poller.sources.SqlSource`.
        store: where checkpoint and lease are kept, such as `poller.stores.BlobStore`.
        app_name: of the application.
        observers: called with each event; default: one log line per event.
        runtime: clocks and threads; for simulations.
        options: every key of a poller in `poller.toml`.

    Raises: ConfigError, naming the keyword.
    """

    def __init__(
        self,
        name: str,
        *,
        source: Source,
        store: StateStore,
        app_name: str,
        observers: Sequence[Observer] | None = None,
        runtime: Runtime | None = None,
        **options: Unpack[PollerKeywords],
    ) -> None:
        for key, value in (("name", name), ("app_name", app_name)):
            if not is_name(value):
                raise ConfigError(
                    f"{key}: {value!r} is not a valid name: 1 to 63 lower-case letters, digits and hyphens.", key=key
                )
        self.name = name
        self.app_name = app_name
        self.source = source
        self.store = store
        self.options = poller_options(options)
        self.runtime: Runtime = runtime or SystemRuntime()
        self.origin: Origin = Origin()
        self._handler: Handler | None = None
        self._relay: Relay[Any] | None = None
        self._observers: Sequence[Observer] = (log_events,) if observers is None else observers
        self._closes_store = True
        if not self.options.error_text and isinstance(source, InspectableSource):
            source.error_text = False
        order_by(source, self.options.ordering_key)
        recorded().expect(name, max_quarantined=self.options.max_quarantined)
        self._runner = Runner(
            Context(
                name,
                app_name=app_name,
                source=source,
                store=store,
                options=self.options,
                observers=(*self._observers, recorded()),
                runtime=self.runtime,
            )
        )

    @classmethod
    def from_config(cls, path: str | os.PathLike[str], name: str, environ: Mapping[str, str] | None = None) -> Poller:
        """The poller `name` of a configuration file.

        Raises: ConfigError, naming the file and the key.
        """
        from poller.stores.opening import open_store

        variables = os.environ if environ is None else environ
        config = load_config(path, variables)
        store = open_store(config.state, variables, file=str(path))
        return cls.of(config, name, path=Path(path), store=store, environ=environ)

    @classmethod
    def of(
        cls,
        config: AppConfig,
        name: str,
        *,
        path: Path,
        store: StateStore,
        observers: Sequence[Observer] | None = None,
        runtime: Runtime | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Poller:
        """The poller `name` of a configuration that was read from the file `path`. Raises: ConfigError.

        `environ`: where a relay looks up what its settings name; default: this process's environment.
        """
        from poller.sources import SqlSource

        own = find_poller(config, name, file=str(path))
        written = config.file_of(name, str(path))
        poller = cls(
            name,
            source=SqlSource.from_config(
                own,
                name,
                file=written,
                connections=config.connections,
                dispatched=config.functions.mode == "queue",
            ),
            store=store,
            app_name=config.app_name,
            observers=observers,
            runtime=runtime,
            **_keywords(own),
        )
        poller.origin = Origin(
            path.resolve().parent, str(path), written, config.pollers.keys(), relay=own.relay, environ=environ
        )
        return poller

    def __repr__(self) -> str:
        return f"Poller({self.name!r}, app_name={self.app_name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def handler(self) -> Handler:
        """The configured handler, imported when it is first asked for.

        Raises: ConfigError, if none is configured or it cannot be imported.
        """
        if self._handler is None and relay_name(self.options.handler) is not None:
            self._handler = self._relay = self._open_relay(str(self.options.handler))
        elif self._handler is None:
            where = self.origin
            key = f"pollers.{self.name}.handler" if where.written else "handler"
            self._handler = import_handler(self.options.handler, folder=where.folder, key=key, file=where.written)
        return self._handler

    def _open_relay(self, handler: str) -> Relay[Any]:
        from poller.relays.opening import open_relay

        where = self.origin
        made = open_relay(
            handler, where.relay, poller=self.name, file=where.written, environ=where.environ, folder=where.folder
        )
        self._refuse_unknowing(made)
        return made

    def _refuse_unknowing(self, handler: Handler) -> None:
        """Raises: ConfigError, for a relay that takes a deleted row for any other."""
        if not self.source.captured:
            return
        from poller.relays.base import Relay

        if not isinstance(handler, Relay) or getattr(handler, "knows_changes", False):
            return
        where = self.origin.written
        key = f"pollers.{self.name}.handler" if where else "handler"
        relay = relay_name(self.options.handler) or type(handler).__name__
        raise ConfigError(
            f"{where + ': ' if where else ''}{key}: the relay {relay} does not know deletes, and the source has"
            " capture = true: it would bring a deleted row to the target like any other.",
            key=key,
            file=where,
            next_step="Use a relay that knows them, or a handler of your own.",
        )

    def tick(self, handler: Handler | None = None, *, stop: Event | None = None, wait: bool = False) -> TickResult:
        """Deliver what is there, batch by batch, and say how it went.

        Args:
            handler: called with each batch, sync or async; default: the configured one.
            stop: when it is set, no further batch starts; the one in hand is finished and committed.
            wait: if another tick of this `Poller` runs, wait for its end, and then tick; default: return
                `held_elsewhere` at once.

        Raises: ConfigError (handler), StoreUnavailable, StoreDenied, StateCorrupt, FingerprintMismatch,
            SourceUnavailable, SourceError. What the handler raises is an outcome, never an exception.
        """
        if handler is not None:
            self._refuse_unknowing(handler)
        try:
            result = self._runner.tick(self.handler if handler is None else handler, stop=stop, wait=wait)
        except PollerError as error:
            self._found(error)
            raise
        if result.outcome != "held_elsewhere":  # another knows better
            self._found(result)
        return result

    def _found(self, ended: TickResult | PollerError) -> None:
        """Have metrics show what a tick found."""
        copy, reference = self._runner.context.file.known, ref(self)

        def picture() -> PollerView | None:
            from poller.admin.facts import after_tick, limits_of
            from poller.model.conditions import view

            poller = reference()
            return None if poller is None else view(after_tick(poller, copy, ended), limits_of(poller))

        at, schedule = self._runner.context.runtime.utcnow(), self._runner.context.schedule

        def due() -> float:
            return (schedule.next_after(at) - at).total_seconds()

        recorded().ticked(self.name, picture, due)

    def unfinished(self) -> str | None:
        """What is to be done before its schedule's next moment, if no worker is at work: the version of
        the document that says so, and which moment was missed. Rows are left, in this process or another, for lack of
        time, after a failed call, or because a tick was ended; a row that was set aside may be tried; or a moment of
        its schedule was missed. One conditional GET, and no look at the table.

        A poller that never ticked, and whose schedule has pauses of more than five minutes, gets its document now, at
        what `start_from` means: so its very first moment is made up for as well.

        Raises: StoreUnavailable, StoreDenied, StateCorrupt; while there is no document, SourceUnavailable and
            SourceError too.
        """
        return self._runner.unfinished()

    def follow(self, schedule: str) -> None:
        """Its ticks come by this schedule (NCRONTAB), and not by its option `schedule`: whether a moment was missed,
        and whether rows are late, is judged by it.

        Raises: ConfigError, for a schedule that is none.
        """
        try:
            schedule_of(schedule)
        except ValueError as error:
            raise ConfigError(f"schedule: {error}.", key="schedule") from None
        self.options = self.options.model_copy(update={"schedule": schedule})
        self._runner.context.options = self.options

    def recheck(self, since: timedelta | None = None) -> Recheck:
        """Compare the table with what was delivered within `since` (default: `audit_window`), and say which rows under
        the cursor never were (sources.md, "Rows that appear under the cursor"). Changes nothing.

        Raises: ConfigError (no `audit_window`), FingerprintMismatch, StoreError, SourceError.
        """
        relay: Handler | None = None
        if relay_name(self.options.handler) is not None:
            with suppress(ConfigError):  # it is not called yet
                relay = self.handler
        return self._runner.recheck(since, relay)

    def redeliver(
        self, found: Recheck, handler: Handler | None = None, *, by: str | None = None, reason: str | None = None
    ) -> None:
        """Hand the late rows that a recheck found to the handler, under the lease; the checkpoint does not move. Those
        that are late no more, since they were handed over or changed, are taken out of `found`.

        `by`, `reason`: who asked for it and why, for the audit trail; default: this process.
        Raises: LeaseHeld, PollerError (paused or halted), FingerprintMismatch, LeaseLost, StoreError; what the handler
            raises, or HandlerFailure where it ran elsewhere.
        """
        self._runner.redeliver(found, self.handler if handler is None else handler, by=by, reason=reason)

    def replay(self, wanted: Replay, handler: Handler | None = None, *, by: str, reason: str | None = None) -> None:
        """What `quarantine.replay` does under the lease: hand rows that wait to the handler, one per call. `wanted` has
        the results, also where this raises.

        Raises: LeaseHeld, PollerError (paused or halted), FingerprintMismatch, ConfigError, LeaseLost, CommitError,
            SourceError, StoreError. What the handler raises is a result.
        """
        self._runner.replay(wanted, self.handler if handler is None else handler, by=by, reason=reason)

    def status(self) -> PollerStatus:
        """Where this poller stands, and its picture: its word, its severity and all conditions. Takes no lease, changes
        nothing.

        Raises: LeaseHeld, if a batch of this `Poller` runs in this process. A store or database that cannot be read
            is not an exception: the status has what was found until then, and says why in `error` and `failure`.
        """
        from poller.admin.look import look

        with once.command(), self.alone():
            return look(self)

    def peek(self, limit: int = 10) -> Peek:
        """The rows that would be delivered next, up to `limit` (at most 10,000). Takes no lease, changes nothing.

        Raises: LeaseHeld, if a batch of this `Poller` runs in this process; WrongArgument (`limit`),
            FingerprintMismatch, StoreError, SourceUnavailable, SourceError.
        """
        from poller.admin.peek import look_ahead

        with self.alone():
            return look_ahead(self, limit)

    def history(self, limit: int = 20) -> HistoryOutput:
        """Who changed, took over or lost what, when and why: the newest `limit` records (at most 100,000), the
        newest last. Changes nothing. Call it from any thread. Raises: WrongArgument (`limit`), StoreUnavailable,
        StoreDenied."""
        from poller.admin.history import read_history
        from poller.admin.wired import operator_of

        return read_history(operator_of(self, "history"), limit)

    def check(self) -> list[Finding]:
        """Diagnose storage, source and configuration: what was looked at, and what fixes what is wrong. Takes no lease,
        changes nothing; imports the configured handler.

        Raises: LeaseHeld, if a batch of this `Poller` runs in this process. What is wrong is a finding.
        """
        from poller.admin.doctor import look_into

        with once.command():
            return look_into(self, self.origin.folder).ask(None)

    def pause(self, *, reason: str | None = None, by: str | None = None, dry_run: bool = False) -> ChangeOutput:
        """Let no new batch start, in no process; a batch in hand is finished and committed. Call it from any thread.

        Args:
            reason, by: why, and who asks for it, for the audit trail; `by` is by default `POLLER_OPERATOR`, else user
                and host.
            dry_run: only say what it would do.

        Returns: what was changed; `changed` is false where it is paused already.
        Raises: StoreError (also where there is no state document yet), WriteConflict, WrongArgument (`reason`).
        """
        from poller.admin.pausing import Pause

        return self._changes(reason=reason, by=by, dry_run=dry_run).make(Pause())

    def cancel(
        self, *, reason: str | None = None, by: str | None = None, dry_run: bool = False, wait: bool = True
    ) -> ChangeOutput:
        """Pause, and stop the handler that runs now, in whatever process: `batch.lost` is set by its worker's next
        heartbeat, an async handler is cancelled, and one in a child process is killed. Nothing of its batch is
        committed, and the attempt does not count. Call it from any thread; from the handler itself with `wait=False`.

        Args:
            reason, by, dry_run: as of `pause`.
            wait: until the worker has given the lease back, or has had the time to: one `heartbeat_interval`, and up to
                2 s more.

        Returns: what was changed; `handler` says whether it has stopped. One that ignores `batch.lost` is `"running"`
            yet: its lease is no longer renewed, and what it does is not committed.
        Raises: as `pause`.
        """
        from poller.admin.pausing import cancel

        return cancel(self, self._changes(reason=reason, by=by, dry_run=dry_run).request, wait=wait)

    def resume(self, *, reason: str | None = None, by: str | None = None, dry_run: bool = False) -> ChangeOutput:
        """Take back a pause, a halt, or both; the current batch is tried again. Arguments, result, errors: as `pause`;
        `changed` is false where it is neither paused nor halted, and no call that failed waits for its time."""
        from poller.admin.pausing import Resume

        return self._changes(reason=reason, by=by, dry_run=dry_run).make(Resume())

    def reset(
        self,
        to: Cursor | Literal["beginning", "snapshot"],
        *,
        allow_skip: bool = False,
        break_lease: bool = False,
        reason: str | None = None,
        by: str | None = None,
        dry_run: bool = False,
        token_at_least: int = 0,
    ) -> ChangeOutput:
        """Move the checkpoint, and keep a backup of what is replaced. It then belongs to this source. If there is no
        state document, one is made there, above every fencing token that left a trace.

        Args:
            to: `"beginning"`, so that every row is delivered again; `"snapshot"`, so that a captured table's rows are
                delivered as they are, and then its changes; or a cursor: the rows after it are delivered next.
            allow_skip: also where rows would never be delivered, or that is not known: if there is no document.
            break_lease: also while a worker holds the lease: fence it, and let no worker start for one `lease_ttl`.
            reason, by, dry_run: as of `pause`.
            token_at_least: for the document's fencing token, if a higher one is known from elsewhere.

        Raises: Refused (rows would be skipped), LeaseHeld, WrongArgument, FingerprintMismatch (a cursor of another kind
            or key), SourceUnavailable, SourceError, StoreError, WriteConflict. Nothing is changed then.
        """
        from poller.admin.resets import reset_to

        with self.alone():
            change = reset_to(self, to, token_at_least=token_at_least)
        allowed: dict[str, Any] = {"break_lease": break_lease, "allow_skip": allow_skip}
        return self._changes(reason=reason, by=by, dry_run=dry_run, **allowed).make(change)

    def undo(
        self,
        change: str | None = None,
        *,
        break_lease: bool = False,
        reason: str | None = None,
        by: str | None = None,
        dry_run: bool = False,
    ) -> ChangeOutput:
        """Take back an operator's change: go back to the backup of what a reset or rebind replaced, resume what was
        paused, pause again what was resumed, or list again rows that were given up.

        Args:
            change: its id, or how that begins; default: the newest change that was not taken back.
            break_lease, reason, by, dry_run: as of `reset`.

        Raises: WrongArgument (no such change), Refused (it cannot be taken back), and as `reset`. Nothing is changed
            then.
        """
        from poller.admin.undo import undo_of

        changes = self._changes(reason=reason, by=by, dry_run=dry_run, break_lease=break_lease)
        return changes.make(undo_of(changes, change))

    def prepare(self, change: Change, *, reason: str | None = None, by: str | None = None) -> Preview:
        """What a change would do: one of `poller.admin`, such as `Rebind()`. Changes nothing.

        Raises: as the change; LeaseHeld, if it asks the source while a batch of this `Poller` runs in this process.
        """
        with self.alone() if change.asks else nullcontext():
            return self._changes(reason=reason, by=by).prepare(change)

    def apply(self, preview: Preview, *, allow: Collection[Allow] = ()) -> ChangeOutput | Preview:
        """Make what was shown. A new preview comes back, and nothing is changed, if something else happened since that
        was not agreed to: another operator's change, a halt, or a checkpoint that went back.

        Args:
            allow: `"allow_skip"`, also if rows would never be delivered; `"break_lease"`, also while a worker holds the
                lease.

        Raises: Refused, LeaseHeld, StoreError, WriteConflict, SourceError. Nothing is changed then.
        """
        allowed: dict[str, Any] = {name: name in allow for name in ("allow_skip", "break_lease")}
        changes = self._changes(reason=preview.output.reason, by=preview.output.by, **allowed)
        with self.alone() if preview.change.asks else nullcontext():
            return changes.apply(preview)

    @property
    def quarantine(self) -> WaitingRows:
        """The rows that are set aside, or wait for a person: look at them, and say what becomes of them."""
        from poller.admin.quarantine.waiting import WaitingRows

        return WaitingRows(self, self.origin.file)

    def _changes(self, **asked: Any) -> Changes:
        """Where a change is made. `asked`: as of `poller.admin.request.Request`."""
        from poller.admin.changes import Changes
        from poller.admin.request import ChangeOptions

        return Changes(self, ChangeOptions(file=self.origin.file, **asked))

    def backfill(
        self,
        begins: str | int | date,
        ends: str | int | date,
        *,
        name: str | None = None,
        parallel: int = 1,
        retry: bool = False,
        handler: Handler | None = None,
        stop: Event | None = None,
        by: str | None = None,
        dry_run: bool = False,
    ) -> BackfillOutput:
        """Deliver the rows of a range to the handler, beside the live poller, whose checkpoint is not touched. Call it
        again to go on where it was interrupted; a range that was finished is not delivered again under the same name.

        Args:
            begins, ends: the cursor column's first value in the range, and the first behind it: as text, a number, or
                a `datetime`, which means what its `isoformat()` means to the column.
            name: of its state document; default: one made of the range and the source.
            parallel: in so many parts, each delivered on a thread of its own: the handler is called from all of them.
            retry: also where it halted because a batch failed too often.
            handler: called with each batch; default: the configured one.
            stop: when it is set, no further batch starts; those in hand are finished and committed.
            by: who asked for it, for the audit trail; default: `POLLER_OPERATOR`, else user and host.
            dry_run: only say what it would do.

        Returns: how far it came. `finished` is false where a part was stopped, paused or halted, or failed: its `error`
            says why, and `next_step` what to do. May be called while this poller ticks.
        Raises: WrongArgument, Refused (paused, halted, or rows may still appear before `ends`), FingerprintMismatch,
            ConfigError (the handler, or a source that is not a `SqlSource`), SourceUnavailable, SourceError,
            StoreError, WriteConflict. Nothing was delivered then.
        """
        from poller.backfill.run import BackfillRequest, backfill

        asked: dict[str, Any] = {"name": name, "parallel": parallel, "retry": retry, "by": by, "dry_run": dry_run}
        request = BackfillRequest(begins, ends, file=self.origin.file, **asked)
        return backfill(self, request, taken=self.origin.pollers, handler=handler, stop=stop)

    def alone(self) -> AbstractContextManager[None]:
        """Keep ticks of this `Poller` from running in this process meanwhile: its source serves one thread at a time.

        Raises (when entered): LeaseHeld, if one runs.
        """
        return self._runner.alone()

    def beside(self, name: str, source: Source, *, observers: Sequence[Observer] = ()) -> Poller:
        """A poller of another name and source, and else like this one; closing it leaves the store open.

        `observers`: beside those of this one.
        """
        poller = Poller(
            name,
            source=source,
            store=self.store,
            app_name=self.app_name,
            observers=[*self._observers, *observers],
            runtime=self.runtime,
            **_keywords(self.options),
        )
        poller.origin, poller._handler, poller._closes_store = self.origin, self._handler, False
        return poller

    def emit(self, event: PollerEvent) -> None:
        """Give an event to this poller's observers. Raises nothing."""
        self._runner.context.emit(event)

    def __reduce__(self) -> NoReturn:
        """Raises: TypeError. Connections and threads cannot be sent to another process; a fork makes its own."""
        raise TypeError(f"{self.name}: a Poller cannot be sent to another process. Make one there.")

    def close(self) -> None:
        """Let go of connections and of a handler's process. The poller may be used again afterwards."""
        self._runner.close()
        if self._relay is not None:
            self._relay.close()
        self.source.close()
        if self._closes_store:
            self.store.close()


def _keywords(options: PollerOptions) -> PollerKeywords:
    """Those that were set: some mean more when they are (`commit`)."""
    written = options.model_fields_set & PollerOptions.model_fields.keys()
    return cast(PollerKeywords, {key: getattr(options, key) for key in written})


Poller.__signature__ = signature(Poller, PollerOptions)  # type: ignore[attr-defined]  # for help()
