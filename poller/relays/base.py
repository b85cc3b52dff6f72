"""What all relays have in common: settings, secrets by the names of variables, and the way into a child process."""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import Field

from poller import extras
from poller.config.options import Column, Options
from poller.errors import ConfigError
from poller.handler.batch import Batch
from poller.model.finding import Finding
from poller.relays.ordering import unknown_columns

SettingsT = TypeVar("SettingsT", bound=Options)

_here: dict[str, Relay[Any]] = {}
"""The relays that came into this process with a batch, by their tokens: the next batch finds the same one, and its
connections. A child process serves one lane of one poller, and has one."""


class RowOptions(Options):
    """What of a row is sent."""

    columns: dict[Column, Column] = Field(default_factory=dict)
    """What is sent of a row, and how it is called there: by each name the column of the row, such as
    `{order_id = "id", total = "total"}`. Other settings name the row's own columns. Default: all columns, each by its
    own name."""


class Relay(ABC, Generic[SettingsT]):
    """A handler for one kind of target. Lanes call it from several threads at once.

    What it connects with is made when it is first called, and made again after `close()`; what can be refused without a
    connection (a missing package, a variable that is not set) is refused when the relay is made.

    Args:
        settings: of the relay.
        environ: where the variables are looked up that the settings name; default: this process's environment.
        folder: where relative paths start; default: the current one.
    Raises: ConfigError, with the setting's name as its key.
    """

    exact_values: ClassVar[bool] = False
    """True if rows come with values as the database wrote them: see `poller.ports.wants_exact_values`."""
    knows_changes: ClassVar[bool] = False
    """True if it knows deletes and the other operations of a captured table, and treats no row of one as a new row."""

    def __init__(
        self, settings: SettingsT, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        self.settings = settings
        self.folder = folder or Path.cwd()
        self._environ = None if environ is os.environ else environ
        self._token = secrets.token_hex(8)

    @abstractmethod
    def __call__(self, batch: Batch) -> Any:
        """Bring the rows of a batch to the target, and say what became of them as handlers do: by returning
        (every row is done), `batch.fail`, `batch.reject`, `Reject`, `RetryLater`, or any other exception."""

    def checkup(self) -> list[Finding]:
        """What `poller check` says of the target, as far as looking at it is cheap and changes nothing. Raises
        nothing that a target can cause."""
        return []

    def check_columns(self, columns: tuple[str, ...]) -> list[Finding]:
        """What `poller check` says of rows with these columns, after a `checkup` without errors: what the target cannot
        take, whatever their values are. Changes nothing, and raises as `checkup`."""
        return unknown_columns(self.named_columns(), columns)

    def named_columns(self) -> dict[str, list[str]]:
        """The columns of the row that settings name, by the setting's key."""
        own: Any = self.settings
        found = {
            "columns": [*getattr(own, "columns", {}).values()],
            "ordering_key": [*getattr(own, "ordering_key", ())],
        }
        for key in ("date_column", "subject_column", "time_column"):
            found[key] = [name for name in [getattr(own, key, None)] if name is not None]
        return found

    def close(self) -> None:
        """Let go of connections. The relay may be called again afterwards."""
        return

    @property
    def environ(self) -> Mapping[str, str]:
        """Where variables are looked up that settings name."""
        return os.environ if self._environ is None else self._environ

    def variable(self, key: str, name: str) -> str:
        """The value of the environment variable that the setting `key` names. Raises: ConfigError."""
        value = self.environ.get(name, "")
        if not value.strip():
            raise ConfigError(
                f"names the environment variable {name}, which is not set.",
                key=key,
                next_step=f"Set {name} (an app setting in Azure).",
            )
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self._token, type(self), self.settings, self._environ, self.folder)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@contextmanager
def needs(name: str, *, package: str, module: str, extra: str) -> Iterator[None]:
    """Around the import of a relay's SDK: one that is not installed is an error that says how to install it.

    Args:
        name: of the relay. package: as it is installed. module: what is imported, such as `azure.servicebus`.
        extra: of the package, in `poller.extras`.
    Raises: ConfigError with key `handler`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(module):
            raise
        raise ConfigError(
            f'"poller.relays:{name}" needs the package {package}, which is not installed.',
            key="handler",
            next_step=extras.step(extra),
        ) from None


def _arrived(
    token: str, kind: type[Relay[Any]], settings: Options, environ: Mapping[str, str] | None, folder: Path
) -> Relay[Any]:
    """The relay that was sent here, the same one each time."""
    if token not in _here:
        made = kind(settings, environ=environ, folder=folder)
        made._token = token
        _here[token] = made
    return _here[token]
