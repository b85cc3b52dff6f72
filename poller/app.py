"""A whole `poller.toml`, wired: its pollers by name, and one store for all.

Nothing is opened before it is needed: a file with ten pollers costs nothing until one of them ticks.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from poller import forks, once
from poller.admin.refusals import Refused, WrongArgument
from poller.config import AppConfig, load_config
from poller.config.suggestions import suggestion
from poller.errors import ConfigError, PollerError, StateCorrupt, StoreError
from poller.model.finding import error
from poller.observability import Observer
from poller.ports import Runtime, StateStore
from poller.runtime import SystemRuntime
from poller.stores.opening import open_store

if TYPE_CHECKING:
    from poller.admin.doctor import Checked
    from poller.admin.health import Health
    from poller.admin.hourly_prune import HourlyPrunes
    from poller.admin.round import AppHealth
    from poller.admin.wired import WiredPoller
    from poller.backfill.documents import Document
    from poller.backfill.listing import Backfills
    from poller.backfill.survey import Survey
    from poller.journal.configurations import Beside
    from poller.model.memory import PollerMemory
    from poller.poller import Poller


@dataclass(frozen=True, slots=True)
class Named:
    """What a name stands for.

    Attributes:
        of: a configured poller. documents: those of a backfill of its, several where it is in parts; none for the
            poller itself.
    """

    name: str
    of: str
    documents: Sequence[Document] = ()

    @property
    def only(self) -> str:
        """The name of the one state document. Raises: WrongArgument, if there are several."""
        parts = [one.name for one in self.documents] or [self.name]
        if len(parts) > 1:
            raise WrongArgument(
                f"The backfill {self.name} is cut into {len(parts)} parts, each with a document of its own.",
                next_step=f"Name one: {', '.join(parts)}.",
            )
        return parts[0]


class App:
    """A configuration file, wired. One store serves all its pollers."""

    def __init__(
        self,
        config: AppConfig,
        *,
        path: Path,
        environ: Mapping[str, str],
        observers: Sequence[Observer] | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        self.config = config
        self.path = path
        self.runtime: Runtime = runtime or SystemRuntime()
        self._environ = environ
        self._observers = observers
        self._store: StateStore | None = None
        self._noticed: tuple[float, Beside | None] | None = None
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)
        self._wired = _Wired(self._wire, config)
        self.pollers: Mapping[str, Poller] = self._wired
        self._beside: list[Poller] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def app_name(self) -> str:
        """The application's name, which its documents are kept under."""
        return self.config.app_name

    @property
    def store(self) -> StateStore:
        """Where the pollers' documents are kept. Raises: ConfigError."""
        with self._lock:
            if self._store is None:
                self._store = open_store(self.config.state, self._environ, file=str(self.path), runtime=self.runtime)
            return self._store

    def import_parts(self) -> None:
        """Import on this thread what several threads are about to ask for. Two that import SQLAlchemy at once, by
        different ways in, may each find half of it (an ImportError "from partially initialized module")."""
        import poller.admin.round
        import poller.poller  # noqa: F401

        with suppress(PollerError):  # the part that needs the store says why it cannot be made
            _ = self.store

    def poller(self, name: str) -> Poller:
        """One poller. Raises: as `known`; ConfigError for a source or store that cannot be made."""
        return self.pollers[self.known(name)]

    def without_source(self, named: Named) -> WiredPoller:
        """What is behind the name, for what needs only its document. Raises: WrongArgument, as `Named.only`;
        ConfigError, for a store that cannot be made."""
        from poller.admin.wired import WithoutSource

        return WithoutSource(
            name=named.only,
            app_name=self.app_name,
            store=self.store,
            options=self.config.pollers[named.of],
            runtime=self.runtime,
        )

    def known(self, name: str) -> str:
        """The name itself. Raises: ConfigError where the file has no such poller, with what it has; Refused, for the
        name of a backfill."""
        if name in self.pollers:
            return name
        first = self._documents(name)[0]
        words = self.backfills.command(first)
        going_on = shlex.join(["poller", *words]) if words else "the same poller backfill command"
        raise Refused(
            f"{name} is a backfill of {first.of}, and this is for configured pollers; nothing was done.",
            next_step="status, watch, peek, history, pause, cancel, resume, quarantine and checkpoint export take it."
            f" To go on with it: {going_on}; to deliver its range once more, add --as NEW.",
        )

    def named(self, name: str) -> Named:
        """What the name stands for; one that is not configured costs a request, or two.

        Raises: ConfigError (neither a poller nor a backfill of one, or that is not known), StateCorrupt.
        """
        if name in self.pollers:
            return Named(name, name)
        documents = self._documents(name)
        return Named(name, documents[0].of or "", documents)

    def one(self, name: str) -> Poller:
        """The poller, or one that stands where the backfill stands. Raises: as `named`; WrongArgument, for a backfill
        in parts; ConfigError, for a source that cannot be made."""
        named = self.named(name)
        only, poller = named.only, self.pollers[named.of]
        if named.documents:
            poller = poller.beside(only, self.backfills.source(named.documents[0], own=True))
            self._beside.append(poller)
        return poller

    def several(self, names: str | Sequence[str] | None) -> tuple[list[Poller], list[Document]]:
        """The pollers and the backfills' documents of one name or some, each once; without names, all pollers."""
        found = [self.named(name) for name in _each(names) or self.pollers]
        pollers = dict.fromkeys(one.name for one in found if not one.documents)
        documents = {document.name: document for one in found for document in one.documents}
        return [self.pollers[name] for name in pollers], list(documents.values())

    def _documents(self, name: str) -> Sequence[Document]:
        """The documents of a backfill, at least one. Raises: ConfigError, if there is none or that is not known."""
        unknown = f"{self.path}: there is no poller {name!r}"
        try:
            found = self.backfills.named(name)
        except StateCorrupt:
            raise
        except StoreError as error:
            found, unknown = [], f"{unknown}, and whether there is such a backfill is not known ({error.message})"
        else:
            unknown += ", and no backfill of that name"
        if not found:
            raise ConfigError(
                f"{unknown}{suggestion(str(name), sorted(self.config.pollers))}",
                key=f"pollers.{name}",
                file=str(self.path),
            )
        return found

    @cached_property
    def backfills(self) -> Backfills:
        """The backfills of its pollers, by their documents."""
        from poller.backfill.listing import Backfills

        return Backfills(self)

    def status(self, names: str | Sequence[str] | None = None) -> Survey:
        """Where the pollers stand, several at a time, and their backfills that are not finished: `poller status`.

        Args:
            names: one or more, of pollers and backfills; default: all pollers.

        Raises: ConfigError (an unknown name, or a poller that cannot be made); LeaseHeld, if a batch of one of them
            runs in this process. A store or database that cannot be read is not an exception: see `Poller.status`.
        """
        from poller.backfill.survey import survey

        pollers, documents = self.several(names)
        return survey(
            pollers,
            self.backfills,
            documents,
            connections=self.config.connections,
            seen=self._remembered_of(pollers),
            beside=self.beside,
        )

    def health(self, names: str | Sequence[str] | None = None) -> Health:
        """The health of the pollers, computed now from their documents and databases: `poller health`. Call it
        from any thread, also while they tick. What cannot be reached makes a poller unhealthy, and so does one that
        cannot be made.

        Args:
            names: one or more; default: all pollers.

        Raises: ConfigError (an unknown name, or a store that cannot be made).
        """
        return self._health.compute(self.chosen(names))

    @property
    def beside(self) -> str | None:
        """Another configuration that works under the name of this app, in a sentence; None if none is known."""
        found = self._beside_us()
        return None if found is None else f"{found.sentence} {found.next_step}"

    def _beside_us(self) -> Beside | None:
        """Another configuration under this name, looked for once a minute at most, by one thread; None if that is not
        known."""
        from poller.journal.configurations import Configurations

        known = self._noticed
        if (known is None or self.runtime.monotonic() >= known[0]) and self._noticing.acquire(blocking=False):
            try:
                found = None
                with suppress(StoreError):
                    found = Configurations(self.store, self.config, self.runtime).beside()
                known = self._noticed = self.runtime.monotonic() + 60.0, found
            finally:
                self._noticing.release()
        return None if known is None else known[1]

    def _remembered_of(self, pollers: Sequence[Poller]) -> dict[str, PollerMemory]:
        """As `remembered`, which is asked for only if rows do not say since when they wait: numbers, and those that
        come before the first tick of a poller that starts now."""
        sources = [one.source for one in pollers]
        numbers = any(one.describe().cursor_kind != "timestamp+pk" for one in sources)
        return self.remembered() if numbers or any(getattr(one, "starts_now", False) for one in sources) else {}

    def remembered(self) -> dict[str, PollerMemory]:
        """What looks remember of each poller. Raises: ConfigError, for a store that cannot be made."""
        return dict(self._health.remembered())

    @cached_property
    def _health(self) -> AppHealth:
        from poller.admin.round import AppHealth

        return AppHealth(self)

    def prunes(self, names: str | Sequence[str] | None = None) -> HourlyPrunes:
        """The automatic prunes of the pollers' tables, which `poller run` does once an hour.

        Raises: as `known`.
        """
        from poller.admin.hourly_prune import HourlyPrunes

        return HourlyPrunes(self, self.chosen(names), self._environ)

    def check(self, names: str | Sequence[str] | None = None, *, latency: timedelta | None = None) -> list[Checked]:
        """Diagnose each poller, as `Poller.check` does, several at a time; one that cannot be made is a finding too:
        `poller check`.

        `latency`: for how long to watch, beside that, how late rows become visible, and say which `settle` would do.
        Raises: ConfigError (an unknown name); LeaseHeld, as `status`.
        """
        from poller.admin import hourly_prune
        from poller.admin.doctor import Checked, look_into
        from poller.admin.side_by_side import side_by_side
        from poller.worker.exporting import findings as telemetry_findings

        checked: dict[str, Checked] = {}
        made: list[Poller] = []
        for name in self.chosen(names):
            try:
                poller = self.poller(name)
            except PollerError as refused:
                finding = error("configuration", refused.message, refused.next_step)
                checked[name] = Checked(name, [finding], refused)
            else:
                checked[name] = Checked(name, [])
                made.append(poller)
                with suppress(PollerError):  # on this thread, as `run` imports it; why it cannot be is a finding
                    _ = poller.handler
        for name in self.pollers:  # what the others need of a server counts too
            with suppress(PollerError):
                self.poller(name)
        with once.command():
            seen, beside = self._remembered_of(made), self.beside
            looks = [
                look_into(
                    one,
                    one.origin.folder,
                    table=partial(hourly_prune.findings, self, one.name, self._environ),
                    seen=seen,
                    beside=beside,
                )
                for one in made
            ]
            found = side_by_side(looks, connections=self.config.connections)
        if latency is not None:
            from poller.admin.latency import measure

            for findings, one in zip(found, measure(made, self.runtime, latency), strict=True):
                findings.append(one)
        of_all = telemetry_findings(self.config, self.path)
        for poller, findings in zip(made, found, strict=True):
            checked[poller.name].findings.extend([*findings, *of_all])
        return list(checked.values())

    def chosen(self, names: str | Sequence[str] | None) -> list[str]:
        """The names of pollers, each once; all without names. Raises: as `known`."""
        return list(dict.fromkeys(map(self.known, _each(names) or self.pollers)))

    def _wire(self, name: str) -> Poller:
        from poller.poller import Poller

        with self._lock:  # requests for health come from threads of their own
            if name in self._wired.made:
                return self._wired.made[name]
            made = Poller.of(
                self.config,
                name,
                path=self.path,
                store=self.store,
                observers=self._observers,
                runtime=self.runtime,
                environ=self._environ,
            )
            self._wired.made[name] = made
            return made

    def _reset_after_fork(self) -> None:
        """In a child process: another thread of the parent may have held the lock."""
        self._lock = threading.RLock()
        self._noticing = threading.Lock()

    def close(self) -> None:
        """Let go of all connections and of all handlers' processes."""
        for poller in [*self._wired.made.values(), *self._beside]:
            poller.close()
        if self._store is not None:
            self._store.close()


def _each(names: str | Sequence[str] | None) -> Sequence[str]:
    """A text is one name, not one of each letter."""
    return [names] if isinstance(names, str) else names or []


class _Wired(Mapping[str, "Poller"]):
    """The pollers of an app by name, each made when it is first asked for."""

    def __init__(self, wire: Callable[[str], Poller], config: AppConfig) -> None:
        self._wire = wire
        self._config = config
        self.made: dict[str, Poller] = {}

    def __getitem__(self, name: str) -> Poller:
        return self.made.get(name) or self._wire(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._config.pollers

    def __iter__(self) -> Iterator[str]:
        return iter(self._config.pollers)

    def __len__(self) -> int:
        return len(self._config.pollers)


def load_app(
    path: str | os.PathLike[str],
    environ: Mapping[str, str] | None = None,
    *,
    observers: Sequence[Observer] | None = None,
    runtime: Runtime | None = None,
) -> App:
    """Read a configuration file; connects to nothing.

    Args:
        path: of the file. environ: where settings are looked up; default: this process's environment.
        observers: called with each event of each poller; default: one log line per event.
    Raises: ConfigError, naming the file and the key.
    """
    variables = os.environ if environ is None else environ
    return App(load_config(path, variables), path=Path(path), environ=variables, observers=observers, runtime=runtime)
