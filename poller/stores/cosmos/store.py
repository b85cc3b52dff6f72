"""Documents as items in a container of Azure Cosmos DB for NoSQL. Only this package imports azure.cosmos.

One `read` is one conditional GET and one `write` is one PUT or POST, sent once: the caller decides about sending again,
because only it can know whether an earlier copy was applied (protocol 2). The first call of a process costs two more,
for the properties of the account and of the container. The tag is `_etag`. Server times are the answer's `Date` and the
item's `_ts`, with a precision of a second.

An account with several write regions is refused when the store connects: there two writes under one tag may both
succeed, and the service keeps the later one. With one write region each condition is judged by the partition's one
primary replica, whatever the consistency level. A level below strong gives stale reads only, and compare-and-swap
survives those: a worker that acts on an old version writes under an old tag, and gets a conflict. A tick that reads
late idles once more, or finds the lease held that was just released.

`Timeout` limits an answer as in the blob store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from azure.core import MatchConditions

from poller import entra
from poller.model.finding import Finding
from poller.ports import Found, Listed, Missing, Timeout, Unchanged, Written, unquoted
from poller.stores.cosmos.account import (
    CosmosAccount,
    from_connection_string,
    from_endpoint,
    from_environment,
)
from poller.stores.cosmos.checkup import examine
from poller.stores.cosmos.container import CosmosContainer
from poller.stores.cosmos.errors import FAILURES, is_gone
from poller.stores.cosmos.items import (
    DOCUMENT,
    LINE,
    app_of,
    app_within,
    body_in,
    check_item,
    id_of,
    item_of,
    modified_at,
    name_of,
)
from poller.stores.cosmos.log import CosmosLog

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

DATABASE, CONTAINER = "poller", "db-state"


class CosmosStore:
    """A `StateStore` in one container, whose partition key is `/app`. Made by `from_connection_string`,
    `from_identity` or `from_settings`.

    A log document is an item for each line. A document has at most 2 MB as JSON.
    """

    def __init__(self, account: CosmosAccount, database: str, container: str) -> None:
        self._container = CosmosContainer(account, database, container)
        self._log = CosmosLog(self._container)

    @classmethod
    def from_connection_string(
        cls, connection_string: str, database: str = DATABASE, container: str = CONTAINER
    ) -> CosmosStore:
        """With an account key: `AccountEndpoint=https://...;AccountKey=...;`.

        Raises: ConfigError; it never repeats the connection string.
        """
        return cls(from_connection_string(connection_string), database, container)

    @classmethod
    def from_identity(
        cls,
        endpoint: str,
        database: str = DATABASE,
        container: str = CONTAINER,
        *,
        client_id: str | None = None,
        credential: TokenCredential | None = None,
    ) -> CosmosStore:
        """Without a key: with `credential`, or else DefaultAzureCredential (`client_id`: the identity's).

        Raises: ConfigError (no https address, no name of a database or container).
        """

        def given() -> TokenCredential:
            return entra.credential_of(entra.Identity(client_id)) if credential is None else credential

        return cls(from_endpoint(endpoint, given), database, container)

    @classmethod
    def from_settings(cls, name: str, database: str, container: str, environ: Mapping[str, str]) -> CosmosStore:
        """For `[state] connection = name`, as `account.from_environment` reads it.

        Raises: ConfigError with key `state.connection`, naming the settings that were searched.
        """
        return cls(from_environment(name, environ), database, container)

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        """See `StateStore.read`: one conditional GET."""
        more: dict[str, Any] = {} if unless is None else {"etag": unless, "match_condition": MatchConditions.IfModified}
        try:
            item = self._container.ask(
                name, lambda made, options: made.read_item(id_of(name), app_of(name), **more, **options), timeout
            )
        except FAILURES as error:
            if is_gone(error):
                return Missing(self._container.server_time())
            raise self._container.translated(error, name, reading=True) from None
        at = self._container.server_time()
        if unless is not None and self._container.last().status == 304:
            return Unchanged(at)
        tag = self._tag(item, name)
        return Unchanged(at) if tag == unless else Found(body_in(item), tag, at, modified_at(item))

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        """See `StateStore.write`: one conditional PUT, or a POST that creates.

        Raises: also StoreError (the document is larger than an item, or the name longer than an id).
        """
        item = item_of(name, body)
        check_item(item, self._container.locate(name), name)
        same: dict[str, Any] = {"etag": if_tag, "match_condition": MatchConditions.IfNotModified}

        def send(made: Any, options: dict[str, Any]) -> Any:
            if if_tag is None:
                return made.create_item(item, **options)
            return made.replace_item(item["id"], item, **same, **options)

        try:
            written = self._container.ask(name, send, timeout)
        except FAILURES as error:
            raise self._container.translated(error, name, creating=if_tag is None) from None
        return Written(self._tag(written, name), self._container.server_time(), modified_at(written))

    def remove(self, name: str, *, if_tag: str, timeout: Timeout | None = None) -> None:
        """See `StateStore.remove`: one conditional DELETE."""
        same: dict[str, Any] = {"etag": if_tag, "match_condition": MatchConditions.IfNotModified}
        try:
            self._container.ask(
                name, lambda made, options: made.delete_item(id_of(name), app_of(name), **same, **options), timeout
            )
        except FAILURES as error:
            raise self._container.translated(error, name) from None

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        """See `StateStore.append`: safe with any number of other appenders."""
        if "\n" in line:
            raise ValueError("a line of a log document contains no line break")
        self._log.append(name, line, timeout)

    def lines(self, name: str, *, limit: int | None = None) -> list[str]:
        """See `StateStore.lines` and `NumberedLog.lines`."""
        return self._log.lines(name, limit)

    def names(self, prefix: str) -> Iterator[str]:
        """See `StateStore.names`: one query for each 1,000."""
        found = self._documents(prefix, "c.id", "c.kind != @kind", LINE)
        return iter(sorted(name_of(str(item.get("id"))) for item in found))

    def listed(self, prefix: str, *, timeout: Timeout | None = None) -> Iterator[Listed]:
        """See `ListingStore.listed`: one query for each 1,000."""
        found = self._documents(prefix, "c.id, c._etag, c._ts", "c.kind = @kind", DOCUMENT, timeout)
        made = (
            Listed(name_of(str(item.get("id"))), unquoted(str(item.get("_etag"))), modified_at(item)) for item in found
        )
        return iter(sorted(made, key=lambda one: one.name))

    def locate(self, name: str) -> str:
        """See `StateStore.locate`."""
        return self._container.locate(name)

    def checkup(self, name: str, *, exists: bool = True) -> list[Finding]:  # noqa: ARG002 - one container for all
        """What `poller check` says of the container and its account; `name`: a document that may exist.

        Raises: StoreUnavailable.
        """
        return examine(self._container, name)

    def close(self) -> None:
        """See `StateStore.close`."""
        self._container.close()

    def _documents(
        self, prefix: str, what: str, kind: str, value: str, timeout: Timeout | None = None
    ) -> Iterator[dict[str, Any]]:
        app = app_within(prefix)
        where, values = f"STARTSWITH(c.id, @id) AND {kind}", {"id": id_of(prefix), "kind": value}
        if app is not None:
            where, values = f"c.app = @app AND {where}", {"app": app, **values}
        return self._container.query(
            f"SELECT {what} FROM c WHERE {where}",  # noqa: S608 - of constants
            values,
            app,
            name=prefix,
            timeout=timeout,
        )

    def _tag(self, item: Any, name: str) -> str:
        """Without one it is unknown what was written. Raises: StoreUnavailable."""
        tag = item.get("_etag") if isinstance(item, Mapping) else None
        if not isinstance(tag, str) or not tag:
            raise self._container.no_cosmos(name)
        return tag
