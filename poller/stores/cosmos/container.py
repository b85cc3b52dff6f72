"""One container: its client, the HTTP under it, its queries, and the refusal of accounts with several write regions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from threading import Lock, local
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError
from azure.cosmos import CosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError

from poller import forks
from poller.errors import StoreDenied, StoreError, StoreUnavailable
from poller.ports import DEFAULT_TIMEOUT, Timeout
from poller.stores.azure.transport import WholeAnswers, seconds
from poller.stores.cosmos.account import CosmosAccount, check_name
from poller.stores.cosmos.errors import (
    FAILURES,
    SERVICE,
    is_cosmos,
    is_the_services,
    no_container,
    status_of,
    translate,
)
from poller.stores.refusals import not_the_services
from poller.stores.times import header_time

PAGE = 1000
"""Items in one answer to a query."""
_OPTIONS: dict[str, Any] = {
    "retry_total": 0,  # resending is the caller's (protocol 2)
    "retry_throttle_total": -1,  # after a 429; 0 would be the SDK's own 9
    "retry_connect": 0,
    "retry_read": 0,
    "retry_status": 0,
    "enable_endpoint_discovery": False,  # with it the SDK sends to other regions, and reads and 503s again
    "enable_compact_utf8_item_writes": True,
    "connection_timeout": 2,
    "read_timeout": 5,
}
_T = TypeVar("_T")


class Answered(NamedTuple):
    """The status of an answer, and its headers."""

    status: int
    headers: Mapping[str, str]


class _NotConnectedError(Exception):
    """Passes through the SDK, which sends a request for the account's properties four times, whatever the answer was,
    with time limits of its own. `error`: what the SDK would have raised."""

    def __init__(self, error: AzureError) -> None:
        super().__init__()
        self.error = error


class _LastAnswer(WholeAnswers):
    """Remembers each thread's last answer: the SDK hands on neither a 304 nor the headers of an error."""

    def __init__(self) -> None:
        super().__init__()
        self._kept = local()
        self._account: Any = None

    @contextmanager
    def connecting(self, timeout: Timeout | None) -> Iterator[None]:
        """In the block this thread's requests are sent once, within `timeout`."""
        self._kept.limits = seconds(timeout)
        try:
            yield
        finally:
            self._kept.limits = None

    def send(self, request: Any, **kwargs: Any) -> Any:
        """See `WholeAnswers.send`; the SDK's own wish not to verify a server on this machine is not heeded. Threads of
        the SDK ask for the account again and again, and log an error if the store is closed: they get its first answer.

        Raises: also ValueError for a success or a redirect of something in between, which the SDK would take for the
        service's success."""
        kwargs.pop("connection_verify", None)
        self._kept.answer = None
        limits = getattr(self._kept, "limits", None)
        if limits is None and self._account is not None and urlsplit(request.url).path in {"", "/"}:
            return self._account
        try:
            answer = super().send(request, **{**kwargs, **(limits or {})})
        except AzureError as error:
            if limits is None:
                raise
            raise _NotConnectedError(error) from None
        if answer.status_code < 400 and not is_cosmos(answer.headers):
            raise ValueError("the answer is not Azure Cosmos DB's")
        if limits is not None and answer.status_code >= 400:
            raise _NotConnectedError(CosmosHttpResponseError(response=answer))  # type: ignore[no-untyped-call]
        self._kept.answer = answer
        if self._account is None:
            self._account = answer  # the SDK asks for it first
        return answer

    def close(self) -> None:
        """Close the connections."""
        super().close()  # type: ignore[no-untyped-call]

    def last(self) -> Answered:
        """The answer to this thread's last request."""
        answer = getattr(self._kept, "answer", None)
        return Answered(0, {}) if answer is None else Answered(answer.status_code, answer.headers)

    def account(self) -> Mapping[str, Any]:
        """The account's properties, once the SDK asked for them."""
        found = json.loads(self._account.body()) if self._account is not None else {}
        return found if isinstance(found, dict) else {}


class CosmosContainer:
    """A container that exists; safe to use from several threads. It connects on first use.

    Raises, from the constructor: ConfigError (no name of a database or container).
    """

    def __init__(self, account: CosmosAccount, database: str, container: str) -> None:
        self._account = account
        self._database = check_name(database, "state.database")
        self.name = check_name(container, "state.container")
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    @property
    def address(self) -> str:
        """The account's address; it holds no secret."""
        return self._account.endpoint

    def _reset_after_fork(self) -> None:
        """In a child process too, which forgets the parent's connections."""
        self._lock = Lock()
        self._made: tuple[CosmosClient, Any, _LastAnswer] | None = None

    def ask(self, name: str, question: Callable[[Any, dict[str, Any]], _T], timeout: Timeout | None) -> _T:
        """What `question` makes of the SDK's container and of the keywords of one call.

        Raises: what the SDK raises (`FAILURES`); StoreError (where connecting fails).
        """
        _, container, _ = self._connected(name, timeout)
        return question(container, seconds(timeout))

    def last(self) -> Answered:
        """The answer to this thread's last request."""
        made = self._made
        return Answered(0, {}) if made is None else made[2].last()

    def server_time(self) -> datetime | None:
        """The service's clock at this thread's last answer."""
        return header_time(self.last().headers, "Date")

    def query(
        self, text: str, values: Mapping[str, str], app: str | None, *, name: str, page: int = PAGE,
        timeout: Timeout | None = None,
    ) -> Iterator[dict[str, Any]]:  # fmt: skip
        """The items that a query selects, by one request for each `page`. `app`: their partition; None: any.

        Raises: StoreUnavailable, StoreDenied.
        """
        parameters = [{"name": f"@{key}", "value": value} for key, value in values.items()]
        where: dict[str, Any] = {"enable_cross_partition_query": True} if app is None else {"partition_key": app}
        _, container, _ = self._connected(name, timeout)
        try:
            yield from container.query_items(
                text, parameters=parameters, max_item_count=page, **where, **seconds(timeout)
            )
        except FAILURES as error:
            raise self.translated(error, name, reading=True) from None

    def locate(self, name: str) -> str:
        """Where the document `name` is; the container itself when it is empty."""
        document = f"document {name} in " if name else ""
        return f"{document}container {self.name} of database {self._database} of {self.address}"

    def translated(self, error: Exception, name: str, *, creating: bool = False, reading: bool = False) -> StoreError:
        """The error to raise, `from None`: the SDK's texts quote answers."""
        return translate(error, self.locate(name), name, creating=creating, reading=reading)

    def no_cosmos(self, name: str) -> StoreUnavailable:
        """The error for an answer that is not the service's."""
        return not_the_services(SERVICE, self.locate(name), name)

    def close(self) -> None:
        """Close connections."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made[0].__exit__(None, None, None)  # type: ignore[no-untyped-call]
            made[2].close()

    def _connected(self, name: str, timeout: Timeout | None) -> tuple[CosmosClient, Any, _LastAnswer]:
        if (made := self._made) is not None:
            return made
        limit, lock = timeout or DEFAULT_TIMEOUT, self._lock
        if not lock.acquire(timeout=limit.connect + limit.read):
            raise StoreUnavailable(
                f"Another thread is still connecting for {self.locate(name)}.",
                document=name,
                next_step="Check that the endpoint is right and reachable.",
                sent=False,
            )
        try:
            if self._made is None:
                self._made = self._connect(name, timeout)
            return self._made
        finally:
            lock.release()

    def _connect(self, name: str, timeout: Timeout | None) -> tuple[CosmosClient, Any, _LastAnswer]:
        """Two requests: for the account's properties and the container's. Raises: StoreError."""
        transport = _LastAnswer()
        try:
            with transport.connecting(timeout):
                client = CosmosClient(
                    self._account.endpoint, credential=self._account.credential(), transport=transport, **_OPTIONS
                )
                self._check_regions(transport.account(), name)
                container = client.get_database_client(self._database).get_container_client(self.name)
                container.read()
        except (*FAILURES, _NotConnectedError) as found:
            transport.close()
            error = found.error if isinstance(found, _NotConnectedError) else found
            if status_of(error) == 404 and is_the_services(error):
                raise no_container(self.locate(""), name) from None
            raise self.translated(error, name, reading=True) from None
        except StoreError:
            transport.close()
            raise
        return client, container, transport

    def _check_regions(self, account: Mapping[str, Any], name: str) -> None:
        """With several write regions the last writer wins, so that two workers could hold one lease."""
        if not account.get("writableLocations"):
            raise self.no_cosmos(name)
        if account.get("enableMultipleWriteLocations") or len(account.get("writableLocations") or ()) > 1:
            raise StoreDenied(
                f"The account of {self.locate('')} writes in several regions, and resolves conflicts by the last "
                "writer: two workers could hold one lease.",
                document=name,
                next_step="Use an account with one write region: az cosmosdb update --enable-multiple-write-locations "
                "false.",
            )
