"""A poller as the functions of this package see it: its ports, its options and its names."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from poller.admin.editor import Operator
from poller.config import AppConfig, PollerOptions
from poller.errors import PollerError, SourceUnavailable
from poller.ports import InspectableSource, Runtime, Source, StateStore


class WiredPoller(Protocol):
    """What names a poller and what it stands on; `poller.Poller` is one."""

    @property
    def name(self) -> str: ...
    @property
    def app_name(self) -> str: ...
    @property
    def source(self) -> Source: ...
    @property
    def store(self) -> StateStore: ...
    @property
    def options(self) -> PollerOptions: ...
    @property
    def runtime(self) -> Runtime: ...
    def alone(self) -> AbstractContextManager[None]:
        """Nothing else uses its source in this process meanwhile. Raises (when entered): LeaseHeld."""
        ...


P_co = TypeVar("P_co", bound=WiredPoller, covariant=True)


class WiredApp(Protocol[P_co]):
    """What keeps its pollers' documents under one name in one store; `poller.App` is one."""

    @property
    def path(self) -> Path:
        """The configuration file."""
        ...

    @property
    def config(self) -> AppConfig: ...
    @property
    def app_name(self) -> str: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def store(self) -> StateStore: ...
    @property
    def pollers(self) -> Mapping[str, P_co]: ...
    @property
    def beside(self) -> str | None:
        """Another configuration that works under its name, in a sentence."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutSource:
    """A configured poller for what only reads or changes its document: no source is made, so that the database's
    toolkit is not loaded, and its driver need not be installed."""

    name: str
    app_name: str
    store: StateStore
    options: PollerOptions
    runtime: Runtime

    @property
    def source(self) -> Source:
        """Raises: NotImplementedError."""
        raise NotImplementedError(f"{self.name} was made without its source")

    def alone(self) -> AbstractContextManager[None]:
        """See `WiredPoller`: there is no source."""
        return nullcontext()


def database_of(poller: WiredPoller) -> str:
    """Which database a poller reads, without a connection."""
    return poller.source.describe().database.model_dump_json()


def gives_sign_of_life(poller: WiredPoller) -> bool:
    """True if its database answers something that reads no row. True also of a source that cannot be asked."""
    if not isinstance(poller.source, InspectableSource):
        return True
    try:
        with poller.alone():
            poller.source.bound()
    except SourceUnavailable:
        return False
    except PollerError:
        return True
    return True


def operator_of(
    poller: WiredPoller,
    by: str,
    *,
    name: str | None = None,
    reason: str | None = None,
    break_option: str = "--break-lease",
) -> Operator:
    """For the document of a poller, or for that of another `name` in its store. Arguments: as of `Operator`."""
    return Operator(
        poller.store,
        app_name=poller.app_name,
        poller_name=name or poller.name,
        runtime=poller.runtime,
        timing=poller.options.timing,
        by=by,
        reason=reason,
        break_option=break_option,
    )
