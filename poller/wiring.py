"""Sources and stores from their tables in `poller.toml`. What they refuse is told with its place in the file."""

from __future__ import annotations

from collections.abc import Mapping

from poller.config import PollerConfig, StateOptions
from poller.errors import ConfigError
from poller.ports import Source, StateStore


def open_store(state: StateOptions, environ: Mapping[str, str], *, file: str = "") -> StateStore:
    """The store that `[state]` names; it connects on first use.

    Raises: ConfigError for a missing setting or a URL that is none.
    """
    try:
        if state.store == "blob":
            from poller.stores.blob.store import BlobStore

            return BlobStore.from_settings(state.connection, state.container, environ)
        if state.store == "sql":
            from poller.stores.sql.store import SqlStore

            if state.url is None:
                raise ConfigError("is missing.", key="url")
            return SqlStore(state.url.get_secret_value())
    except ConfigError as error:
        raise _located(error, "state", file) from None
    from poller.stores.memory import MemoryStore

    return MemoryStore()


def open_source(config: PollerConfig, name: str, *, file: str = "") -> Source:
    """The source that `[pollers.NAME.source]` describes; it connects on first use.

    Raises: ConfigError for a URL, a filter or a combination of keys that cannot be.
    """
    from poller.sources import SqlSource

    try:
        source = SqlSource(**config.source.keywords())
    except ConfigError as error:
        raise _located(error, f"pollers.{name}.source", file) from None
    source.error_text = config.error_text
    return source


def _located(error: ConfigError, table: str, file: str) -> ConfigError:
    """The same error with its place: sources and stores know their keyword, not the file it came from."""
    key = error.key if error.key.startswith(f"{table}.") else f"{table}.{error.key}".rstrip(".")
    where = f"{file}: {key}" if file else key
    return ConfigError(f"{where}: {error.message}", key=key, file=file, next_step=error.next_step)
