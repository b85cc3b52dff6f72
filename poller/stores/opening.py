"""The store that the table `[state]` of `poller.toml` names."""

from __future__ import annotations

from collections.abc import Mapping

from poller import extras
from poller.config import StateOptions
from poller.config.problems import located
from poller.errors import ConfigError
from poller.ports import Runtime, StateStore


def open_store(
    state: StateOptions, environ: Mapping[str, str], *, file: str = "", runtime: Runtime | None = None
) -> StateStore:
    """The store that `[state]` names; it connects on first use. `runtime`: whose clock is this machine's.

    Raises: ConfigError for a missing setting or an invalid URL.
    """
    try:
        if state.store == "blob":
            from poller.stores.blob.store import BlobStore

            return BlobStore.from_settings(state.connection, state.container, environ)
        if state.store == "table":
            return _table_store(state, environ)
        if state.store == "cosmos":
            return _cosmos_store(state, environ)
        if state.store == "s3":
            return _s3_store(state)
        if state.store == "sql":
            from poller.stores.sql.store import SqlStore

            if state.url is None:
                raise ConfigError("is missing.", key="url")
            utcnow = None if runtime is None else runtime.utcnow
            return SqlStore(state.url.get_secret_value(), identity=state.identity, utcnow=utcnow)
    except ConfigError as error:
        error.message, error.next_step = state.without_values(error.message), state.without_values(error.next_step)
        raise located(error, "state", file) from None
    from poller.stores.memory import MemoryStore

    return MemoryStore(runtime)


def _cosmos_store(state: StateOptions, environ: Mapping[str, str]) -> StateStore:
    if "connection" not in state.model_fields_set:
        raise ConfigError(
            "is missing.",
            key="connection",
            next_step="Name the app setting that holds the connection string of an Azure Cosmos DB account, or the "
            "prefix of NAME__accountEndpoint.",
        )
    try:
        from poller.stores.cosmos.store import CosmosStore
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("azure.cosmos"):
            raise
        raise ConfigError(
            'store = "cosmos" needs the package azure-cosmos, which is not installed.',
            key="store",
            next_step=extras.step("cosmos"),
        ) from None
    return CosmosStore.from_settings(state.connection, state.database, state.container, environ)


def _s3_store(state: StateOptions) -> StateStore:
    if state.bucket is None:
        raise ConfigError(
            "is missing.", key="bucket", next_step='Name the bucket that holds the state: bucket = "shop-poller-state".'
        )
    try:
        from poller.stores.s3.store import S3Store
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"boto3", "botocore"}:
            raise
        raise ConfigError(
            'store = "s3" needs the package boto3, which is not installed.', key="store", next_step=extras.step("s3")
        ) from None
    return S3Store(state.bucket, region=state.region, endpoint=state.endpoint)


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
