"""A relay by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from poller.config.load import checked_keywords
from poller.config.options import Options
from poller.config.problems import located
from poller.config.relays import RELAYS, RelayEntry, relay_name
from poller.config.suggestions import suggestion
from poller.errors import ConfigError
from poller.relays.base import Relay


def relay(
    name: str, /, *, environ: Mapping[str, str] | None = None, folder: Path | None = None, **settings: Any
) -> Relay[Any]:
    """A relay, to be passed to `Poller.tick`.

    Args:
        name: such as `stdout`. settings: the keys of `[pollers.NAME.relay]`. environ, folder: as of `Relay`.
    Raises: ConfigError: there is no such relay, a setting is wrong, or a package is missing.
    """
    entry = _entry(name)
    made: Relay[Any] = entry.relay(checked_keywords(entry.settings, settings), environ=environ, folder=folder)
    return made


def open_relay(
    handler: str, settings: Options | None, *, poller: str, file: str, environ: Mapping[str, str] | None, folder: Path
) -> Relay[Any]:
    """The relay that `handler` of a poller means.

    Args:
        settings: as the configuration has them; None: it has none. poller, file: for an error; `file` is empty where
            the poller was made in Python.
    Raises: ConfigError.
    """
    entry = _entry(relay_name(handler) or handler)
    table = f"pollers.{poller}" if file else ""
    try:
        given = checked_keywords(entry.settings, {}) if settings is None else settings
        made: Relay[Any] = entry.relay(given, environ=environ, folder=folder)
    except ConfigError as error:
        refused = located(error, table if error.key == "handler" else f"{table}.relay".lstrip("."), file)
    else:
        return made
    raise refused


def _entry(name: str) -> RelayEntry:
    if name not in RELAYS:
        raise ConfigError(f'There is no relay "{name}"{suggestion(name, sorted(RELAYS))}', key="handler")
    return RELAYS[name]
