"""The tables of `poller.toml` as frozen models: those that have no keywords in Python, and the whole file.

The keys of a poller and of its source, which are keywords too, are in `options.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from poller.config.options import Options, PollerOptions, SourceOptions, Text
from poller.config.relays import PREFIX, RELAYS, RelayTable, relay_name
from poller.config.types import (
    QUEUE_RULE,
    Environment,
    Name,
    PositiveDuration,
    QueueName,
    ScheduleText,
    Size,
    is_queue,
)


class _Address(Options):
    url: SecretStr = Field(min_length=1)
    """The database, as any SQLAlchemy URL. Take it from a setting: `"%ORDERS_DB_URL%"`. A relative SQLite path
    starts at the folder of `poller.toml`."""


class SourceConfig(SourceOptions, _Address):
    """The table `[pollers.NAME.source]`: its options, and where the database is."""

    def keywords(self) -> dict[str, Any]:
        """What was set, as arguments of `SqlSource` (the URL, a secret, in clear). Keys that were not set are left
        out, because some mean more when they are set (`settle`)."""
        return {**self.model_dump(exclude_unset=True), "url": self.url.get_secret_value()}


_STORES_WITH = {
    "connection": ("blob", "table", "cosmos"),
    "container": ("blob", "cosmos"),
    "table": ("table",),
    "database": ("cosmos",),
    "bucket": ("s3",),
    "region": ("s3",),
    "endpoint": ("s3",),
    "url": ("sql",),
    "identity": ("sql",),
}
"""The stores for which a key of `[state]` means something."""


class StateOptions(Options):
    """Where checkpoints and leases are kept: the table `[state]`."""

    store: Literal["blob", "table", "cosmos", "s3", "sql", "memory"] = "blob"
    """`blob`: Azure Blob Storage. `table`: Azure Table Storage, with the extra `table`. `cosmos`: Azure Cosmos
    DB for NoSQL, with the extra `cosmos`. `s3`: a bucket of Amazon S3, with the extra `s3`. `sql`: a table in any
    SQLAlchemy database, created on first use. `memory`: this process only, for tests."""

    connection: Text = "AzureWebJobsStorage"
    """For `blob` and `table`: the app setting that holds a connection string (`UseDevelopmentStorage=true` means
    Azurite), or the prefix of NAME__blobServiceUri, NAME__tableServiceUri or NAME__accountName (and NAME__clientId) for
    an identity. For `cosmos`, which has no default: likewise a connection string (`AccountEndpoint=...`), or the prefix
    of NAME__accountEndpoint."""

    container: Text = "db-state"
    """For `blob`: the container. It is created where it is missing and the identity may create it. For `cosmos`: the
    container, which must exist, with the partition key /app."""

    table: Text = "dbstate"
    """For `table`: the table. It is created where it is missing and the identity may create it."""

    database: Text = "poller"
    """For `cosmos`: the database, which must exist."""

    bucket: Text | None = None
    """For `s3`: the bucket, which must exist. Credentials are those that boto3 finds: AWS_ACCESS_KEY_ID, the profile of
    AWS_PROFILE, or the role of the function, task or machine."""

    region: Text | None = None
    """For `s3`: the bucket's region. Default: what boto3 finds in AWS_REGION or the profile."""

    endpoint: Text | None = None
    """For `s3`: the https address of another service that speaks S3's protocol; none but AWS is tested. Default:
    AWS."""

    url: SecretStr | None = Field(default=None, min_length=1)
    """For `sql`: the database, as any SQLAlchemy URL. Default: `sqlite:///state.db` beside `poller.toml`."""

    identity: bool | Text = False
    """For `sql`: sign in with a Microsoft Entra identity instead of a password, as a source's `identity` does."""

    _written: Mapping[str, str] = PrivateAttr(default_factory=dict)

    def written_as(self, texts: Mapping[str, str]) -> None:
        """Note what is in the file, by the value that settings make of it."""
        self._written = texts

    def without_values(self, text: str) -> str:
        """A text of an error, with what is in the file in place of what settings made of it."""
        for value, written in self._written.items():
            text = text.replace(value, written)
        return text

    @property
    def lists(self) -> bool:
        """True if one request says which documents there are, as the dispatcher needs."""
        return self.store in {"blob", "table"}

    @model_validator(mode="after")
    def _keys_of_this_store(self) -> Self:
        for key in self.model_fields_set - {"store"}:
            stores = _STORES_WITH.get(key, (self.store,))
            wanted = stores[0]
            if self.store not in stores:
                raise PydanticCustomError(
                    "other_store",
                    'has no meaning for store = "{store}"; set state.store = "{wanted}"',
                    {"key": key, "store": self.store, "wanted": wanted},
                )
        if self.store in _STORES_WITH["connection"] and not set(self.connection).isdisjoint("=;"):
            raise PydanticCustomError(
                "connection_string",
                "must be the name of an app setting that holds the connection string, not the string itself",
                {"key": "connection"},
            )
        return self


class FunctionsOptions(Options):
    """How an Azure Functions app runs its pollers: the table `[functions]`."""

    mode: Literal["timer", "queue"] = "timer"
    """`timer`: one timer function per poller; right for a few. `queue`: two functions, however many pollers there are:
    one looks who is due, and sends a message for each; the other does a tick per message. Needs `store = "blob"` or
    `"table"`."""

    dispatch_schedule: ScheduleText = "*/5 * * * * *"
    """When the dispatcher looks, with `mode = "queue"`: a six-field NCRONTAB expression, in UTC."""

    queue: QueueName | None = None
    """The queue of the work messages, with `mode = "queue"`, in the storage account of `[state]`. One for each app.
    Default: `poller-{app_name}`."""


class RunOptions(Options):
    """How `poller run` shares a process among its pollers: the table `[run]`."""

    max_concurrent: int | None = Field(default=None, ge=1, le=1000)
    """The most ticks at once; at most half of them for one database server. Default: the number of processors and
    4."""

    slice: PositiveDuration = timedelta(seconds=30)
    """The time that a tick goes on while others wait for their turn: then it gives its lease back, and comes again
    later. One that does not end goes on beside the others, at most four for each of `max_concurrent`."""


class PruneOptions(Options):
    """What is deleted of the change table that a poller reads, or of its outbox."""

    older_than: PositiveDuration | None = None
    """How old a change must be. If it is set, `poller run` prunes the change table once an hour. Default: only
    `poller prune` does, and takes 7 days."""

    outbox: bool = False
    """True if the poller's own table is an outbox: `poller run` deletes once an hour the rows that every reader is done
    with, and `poller prune` needs no `--outbox`. Their age is not known, so it does not go with `older_than`."""

    readers: tuple[Text, ...] = ()
    """Further pollers that read this table, as `application/poller`, if they know the database by another name. No row
    is deleted that one of them has not passed."""

    url_env: Text | None = None
    """The setting that has the URL of a user who may delete rows. Default: `capture_url_env` of the source, or its own
    `url`."""

    warn_size: Size = 1_000_000_000
    """The size of the table, in bytes with its indexes, above which `poller check` and each automatic prune warn."""

    @property
    def automatic(self) -> bool:
        """True if `poller run` prunes."""
        return self.outbox or self.older_than is not None

    @model_validator(mode="after")
    def _an_outbox_has_no_age(self) -> Self:
        if self.outbox and self.older_than is not None:
            reason = "is for change tables: how old the rows of an outbox are is not known. Leave it out"
            raise PydanticCustomError("prune", "{reason}", {"key": "older_than", "reason": reason})
        return self


class PollerConfig(PollerOptions):
    """One poller of the file: its options and its source."""

    template: Name | None = None
    """The `[templates.NAME]` from which the poller has what it does not set itself."""

    source: SourceConfig
    """The table `[pollers.NAME.source]`."""

    relay: RelayTable = Field(default=None, validate_default=True)
    """The table `[pollers.NAME.relay]`: the settings of a relay, with `handler = "poller.relays:..."`."""

    prune: PruneOptions | None = None
    """The table `[pollers.NAME.prune]`: what is deleted of its table (docs/recipes/prune.md)."""

    @model_validator(mode="after")
    def _no_outbox_is_captured(self) -> Self:
        if self.prune is not None and self.prune.outbox and getattr(self.source, "capture", False):
            reason = "has no meaning for a captured table, whose changes are deleted: set older_than instead"
            raise PydanticCustomError("prune", "{reason}", {"key": "prune.outbox", "reason": reason})
        return self

    @model_validator(mode="after")
    def _relay_has_its_handler(self) -> Self:
        if self.relay is not None and relay_name(self.handler) is None:
            reason = f'has no meaning without a relay: set handler = "{PREFIX}{next(iter(RELAYS))}", or another relay'
            raise PydanticCustomError("relay", "{reason}", {"key": "relay", "reason": reason})
        return self


class AppConfig(Options):
    """The whole file."""

    app_name: Name
    """The name of the application: the state of its pollers is stored under `state/{app_name}/`."""

    environment: Environment = "development"
    """Where this runs. `production` tightens the guardrails of the `poller` command."""

    include: tuple[Text, ...] = ()
    """Further files with `[pollers.NAME]` and `[templates.NAME]`, such as `["pollers.d/*.toml"]`: paths from the folder
    of this file; `*` is any part of a name, `**` any folders."""

    state: StateOptions = StateOptions()
    """Where checkpoints and leases are kept."""

    connections: int = Field(default=4, ge=1, le=1000)
    """The most connections that this process has to one database as one user, for all pollers that read from it. To all
    databases of one server it has at most half of those that others leave."""

    telemetry: Literal["otlp", "azure-monitor", "prometheus"] | None = None
    """Where `poller run`, `poller dispatch` and Functions export metrics and traces to; each needs the extra of its
    name. `otlp`: a collector, by OpenTelemetry's variables. `azure-monitor`: Application Insights, by
    `APPLICATIONINSIGHTS_CONNECTION_STRING`. `prometheus`: metrics alone, at an HTTP endpoint; not in Functions.
    Default: what OpenTelemetry's variables say, else nowhere."""

    telemetry_port: int | None = Field(default=None, ge=1, le=65535)
    """The port of Prometheus's endpoint. Default: `OTEL_EXPORTER_PROMETHEUS_PORT`, else 9464."""

    functions: FunctionsOptions = FunctionsOptions()
    """How an Azure Functions app runs its pollers."""

    run: RunOptions = RunOptions()
    """How `poller run` shares a process among its pollers."""

    pollers: dict[Name, PollerConfig] = Field(min_length=1)
    """The pollers, by name."""

    _elsewhere: Mapping[tuple[str, str], str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _queue_can_be(self) -> Self:
        if self.functions.mode == "queue" and not self.state.lists:
            reason = 'must be "blob" or "table" with functions.mode = "queue": the dispatcher lists the documents there'
            raise PydanticCustomError("store", "{reason}", {"key": "state.store", "reason": reason})
        if self.functions.mode == "queue" and self.functions.queue is None and not is_queue(f"poller-{self.app_name}"):
            reason = f"is not set, and poller-{{app_name}} cannot be the name of a queue: {QUEUE_RULE}; set one"
            raise PydanticCustomError("queue", "{reason}", {"key": "functions.queue", "reason": reason})
        return self

    def written_in(self, elsewhere: Mapping[tuple[str, str], str]) -> Self:
        """Itself, once it is known which of its tables are in files that are included."""
        self._elsewhere = elsewhere
        return self

    def file_of(self, name: str, main: str) -> str:
        """The file in which a poller stands; `main`: the name of `poller.toml`."""
        return self._elsewhere.get(("pollers", name), main)
