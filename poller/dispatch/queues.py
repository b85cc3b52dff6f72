"""The queue of the work messages, in the storage account of `[state]`. Only this module imports azure.storage.queue.

A message is sent once. Whether it arrived is not known where the answer is lost: then the next round sends another, and
the second one of two finds the lease held. The queue is created with the first message, where it is permitted.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import Lock
from typing import Any, Protocol

from azure.core.exceptions import AzureError, ResourceExistsError

from poller import forks
from poller.dispatch.messages import WorkMessage
from poller.errors import ConfigError, StoreError
from poller.stores.azure.account import (
    KEY,
    check_account_key,
    check_primary,
    check_transport,
    expand_development_storage,
    from_environment,
)
from poller.stores.azure.advice import QUEUES
from poller.stores.azure.credentials import credential_of
from poller.stores.azure.errors import FAILURES, code_of, no_such_service, status_of, translate
from poller.stores.azure.transport import WholeAnswers

logger = logging.getLogger("poller")

TIME_TO_LIVE = timedelta(minutes=10)
"""A message that nobody took by then is gone; the dispatcher sends another."""
_AT_ONCE = 32
"""Messages in one answer: the service's own limit."""
_MOST = 10 * _AT_ONCE
_HIDDEN = 60
"""Seconds for which messages that are looked at are hidden from others."""
_API_VERSION = "2023-11-03"
_CONNECT, _READ = 2.0, 5.0
_NO_MESSAGE = "00000000-0000-0000-0000-000000000000"
_NONE_SUCH = frozenset({400, 404})
"""What the service answers for it to whoever may remove messages."""


class Queue(Protocol):
    """Where work messages go. May be used from several threads."""

    def send(self, message: WorkMessage) -> None:
        """Put a message into the queue. Raises: StoreUnavailable (it may be there), StoreDenied, StoreError."""
        ...

    def all_taken(self) -> bool:
        """Whether no message waits: those that somebody took, and has not finished, do not count. Raises: as
        `send`."""
        ...

    def take_poison(self) -> list[str]:
        """Take messages out of the queue of those that failed: their texts. Raises: as `send`."""
        ...

    def close(self) -> None:
        """Close connections. The queue may be used again afterwards."""
        ...


class StorageQueue:
    """A queue of Azure Storage, and `{name}-poison`, into which the host puts messages whose invocation failed.

    Args:
        connect: makes a client of the queue with a name. name: of the queue.
    """

    def __init__(self, connect: Callable[[str, WholeAnswers], Any], name: str) -> None:
        self._connect = connect
        self.name = name
        self.poison = f"{name}-poison"
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """In a child process too, which forgets the parent's connections."""
        self._lock = Lock()
        self._clients: dict[str, Any] = {}

    @classmethod
    def from_settings(cls, connection: str, name: str, environ: Mapping[str, str]) -> StorageQueue:
        """For `[state] connection`, as the blob store reads it: a connection string, or an identity with
        `{connection}__queueServiceUri` or `{connection}__accountName`.

        Raises: ConfigError with key `state.connection`; it never repeats a connection string.
        """
        found = from_environment(connection, environ)
        if isinstance(found, str):
            return cls.from_connection_string(found, name)
        url, credential = found.url("queue", connection, why='[functions] mode = "queue"'), credential_of(found)

        check_primary(url)

        def connect(queue: str, transport: WholeAnswers) -> Any:
            from azure.storage.queue import QueueClient

            return QueueClient(url, queue, credential=credential(), transport=transport, **_options())

        return cls(connect, name)

    @classmethod
    def from_connection_string(cls, connection_string: str, name: str) -> StorageQueue:
        """With an account key or a SAS token. Raises: ConfigError, as `from_settings`."""
        check_account_key(connection_string)
        check_transport(connection_string)
        full = expand_development_storage(connection_string)

        def connect(queue: str, transport: WholeAnswers) -> Any:
            from azure.storage.queue import QueueClient

            return QueueClient.from_connection_string(full, queue, transport=transport, **_options())

        made = cls(connect, name)
        try:
            check_primary(made._client(name).url)
        except FAILURES:  # from None: the SDK's text may quote its arguments
            raise ConfigError(
                f"{KEY} leads to no queues: its connection string names neither an account nor a QueueEndpoint.",
                key=KEY,
                next_step="Copy the connection string from the account's page 'Access keys'.",
            ) from None
        return made

    def send(self, message: WorkMessage) -> None:
        """See `Queue.send`."""
        text = message.encode()
        try:
            try:
                self._put(text)
            except AzureError as error:
                if code_of(error) != "QueueNotFound":
                    raise
                self._create()
                self._put(text)
        except FAILURES as error:
            raise self._translated(error, self.name) from None

    def all_taken(self) -> bool:
        """See `Queue.all_taken`."""
        try:
            return not self._client(self.name).peek_messages(max_messages=1, **_timeouts())
        except FAILURES as error:
            if code_of(error) == "QueueNotFound":
                return True
            raise self._translated(error, self.name) from None

    def check(self) -> None:
        """See that messages may be read and removed here; nothing is changed. Whether one may be sent shows only when
        one is. Raises: StoreUnavailable, StoreDenied, StoreError."""
        self.all_taken()
        try:
            self._client(self.name).delete_message(_NO_MESSAGE, pop_receipt=_NO_MESSAGE, **_timeouts())
        except FAILURES as error:
            if status_of(error) not in _NONE_SUCH:
                raise self._translated(error, self.name) from None

    def take_poison(self) -> list[str]:
        """See `Queue.take_poison`."""
        taken = []
        try:
            poison = self._client(self.poison)
            for one in poison.receive_messages(
                messages_per_page=_AT_ONCE, max_messages=_MOST, visibility_timeout=_HIDDEN, **_timeouts()
            ):
                taken.append(str(one.content))
                poison.delete_message(one, **_timeouts())
        except FAILURES as error:
            if code_of(error) == "QueueNotFound" or taken:
                return taken
            raise self._translated(error, self.poison) from None
        return taken

    def close(self) -> None:
        """See `Queue.close`."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def _client(self, name: str) -> Any:
        with self._lock:
            if name not in self._clients:
                self._clients[name] = self._connect(name, WholeAnswers())
            return self._clients[name]

    def _put(self, text: str) -> None:
        self._client(self.name).send_message(text, time_to_live=int(TIME_TO_LIVE.total_seconds()), **_timeouts())

    def _create(self) -> None:
        with contextlib.suppress(ResourceExistsError):  # several messages are sent at once
            self._client(self.name).create_queue(**_timeouts())

    def _translated(self, error: Exception, name: str) -> StoreError:
        """The error to raise: the SDK's texts may hold a signed address."""
        place = f"the queue {name}"
        if isinstance(error, AzureError):
            return translate(error, place, name, QUEUES)
        return no_such_service(place, name, QUEUES)


def _options() -> dict[str, Any]:
    return {"api_version": _API_VERSION, "retry_total": 0, "permit_redirects": False}


def _timeouts() -> dict[str, Any]:
    return {"connection_timeout": _CONNECT, "read_timeout": _READ}
