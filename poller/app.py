"""A whole `poller.toml`, wired: its pollers by name, and one store for all.

Nothing is opened before it is needed: a file with ten pollers costs nothing until one of them ticks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from poller.config import AppConfig, load_config
from poller.config.problems import find_poller
from poller.errors import PollerError
from poller.model.finding import error
from poller.observability import Observer
from poller.poller import Poller
from poller.ports import Runtime, StateStore
from poller.runtime import SystemRuntime
from poller.stores.opening import open_store

if TYPE_CHECKING:
    from poller.admin.doctor import Checked
    from poller.backfill.listing import Backfills
    from poller.backfill.survey import Survey


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
        self._wired = _Wired(self._wire, config)
        self.pollers: Mapping[str, Poller] = self._wired

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
        if self._store is None:
            self._store = open_store(self.config.state, self._environ, file=str(self.path))
        return self._store

    def poller(self, name: str) -> Poller:
        """One poller. Raises: ConfigError for an unknown name, or for a source or store that cannot be made."""
        return self.pollers[self.known(name)]

    def known(self, name: str) -> str:
        """The name itself. Raises: ConfigError where the file has no such poller, with what it has."""
        find_poller(self.config, name, file=str(self.path))
        return name

    @cached_property
    def backfills(self) -> Backfills:
        """The backfills of its pollers, by their documents."""
        from poller.backfill.listing import Backfills

        return Backfills(self)

    def status(self, names: Sequence[str] | None = None, *, null_cursors: bool = True) -> Survey:
        """Where the pollers stand, several at a time, and their backfills that are not finished: `poller status`.

        Args:
            names: of pollers; default: all. null_cursors: as of `Poller.status`.

        Raises: ConfigError (an unknown name, or a poller that cannot be made); LeaseHeld, where a batch of one of them
            runs in this process. A store or database that cannot be read is no exception: see `Poller.status`.
        """
        from poller.backfill.survey import survey

        return survey([self.poller(name) for name in self._chosen(names)], self.backfills, null_cursors=null_cursors)

    def check(self, names: Sequence[str] | None = None) -> list[Checked]:
        """Diagnose each poller, as `Poller.check` does; one that cannot be made is a finding too: `poller check`.

        Raises: ConfigError (an unknown name); LeaseHeld, as `status`.
        """
        from poller.admin.doctor import Checked

        checked = []
        for name in self._chosen(names):
            try:
                poller = self.poller(name)
            except PollerError as refused:
                finding = error("configuration", refused.message, refused.next_step)
                checked.append(Checked(name, [finding], refused))
            else:
                checked.append(Checked(name, poller.check()))
        return checked

    def _chosen(self, names: Sequence[str] | None) -> list[str]:
        """Each once; all without names. Raises: ConfigError."""
        return list(dict.fromkeys(self.known(name) for name in names)) if names else list(self.pollers)

    def _wire(self, name: str) -> Poller:
        return Poller.of(
            self.config, name, path=self.path, store=self.store, observers=self._observers, runtime=self.runtime
        )

    def close(self) -> None:
        """Let go of all connections and of all handlers' processes."""
        for poller in list(self._wired.made.values()):
            poller.close()
        if self._store is not None:
            self._store.close()


class _Wired(Mapping[str, Poller]):
    """The pollers of an app by name, each made when it is first asked for."""

    def __init__(self, wire: Callable[[str], Poller], config: AppConfig) -> None:
        self._wire = wire
        self._config = config
        self.made: dict[str, Poller] = {}

    def __getitem__(self, name: str) -> Poller:
        if name not in self.made:
            self.made[name] = self._wire(name)
        return self.made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._config.pollers

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
