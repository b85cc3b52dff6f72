"""The store that the table `[state]` of `poller.toml` names."""

from __future__ import annotations

from collections.abc import Mapping

from poller import extras
from poller.config import StateOptions
from poller.config.problems import located
from poller.errors import ConfigError
from poller.ports import StateStore


def open_store(state: StateOptions, environ: Mapping[str, str], *, file: str = "") -> StateStore:
    """The store that `[state]` names; it connects on first use.

    Raises: ConfigError for a missing setting or an invalid URL.
    """
    try:
        if state.store == "blob":
            from poller.stores.blob.store import BlobStore

            return BlobStore.from_settings(state.connection, state.container, environ)
        if state.store == "table":
            return _table_store(state, environ)
        if state.store == "sql":
            from poller.stores.sql.store import SqlStore

            if state.url is None:
                raise ConfigError("is missing.", key="url")
            return SqlStore(state.url.get_secret_value(), identity=state.identity)
    except ConfigError as error:
        error.message, error.next_step = state.without_values(error.message), state.without_values(error.next_step)
        raise located(error, "state", file) from None
    from poller.stores.memory import MemoryStore

    return MemoryStore()


def _table_store(state: StateOptions, environ: Mapping[str, str]) -> StateStore:
    try:
        from poller.stores.table.store import TableStore
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("azure.data"):
            raise
        raise ConfigError(
            'store = "table" needs the package azure-data-tables, which is not installed.',
            key="store",
            next_step=extras.step("table"),
        ) from None
    return TableStore.from_settings(state.connection, state.table, environ)
