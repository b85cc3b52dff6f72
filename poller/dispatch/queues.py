"""The queue of the work messages, in the storage account of `[state]`. Only this module imports azure.storage.queue.

A message is sent once. Whether it arrived is not known where the answer is lost: then the next round sends another, and
the second one of two finds the lease held. The queue is created with the first message, if it is permitted.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

from azure.core.exceptions import AzureError, ResourceExistsError

from poller.dispatch.messages import WorkMessage
from poller.errors import StoreError
from poller.stores.azure.advice import QUEUES
from poller.stores.azure.client import AccountClient, ServiceAccess
from poller.stores.azure.errors import FAILURES, code_of, status_of, translate
from poller.stores.refusals import not_the_services

logger = logging.getLogger("poller")

TIME_TO_LIVE = timedelta(minutes=10)
"""A message that no worker took by then is gone; the dispatcher sends another."""
_AT_ONCE = 32
"""Messages in one answer: the service's own limit."""
_MOST = 10 * _AT_ONCE
_HIDDEN = 60
"""Seconds for which messages that are looked at are hidden from others."""
_NO_MESSAGE = "00000000-0000-0000-0000-000000000000"
_NONE_SUCH = frozenset({400, 404})
"""What the service answers for it to a caller who may remove messages."""


class Queue(Protocol):
    """Where work messages go. May be used from several threads."""

    def send(self, message: WorkMessage) -> None:
        """Put a message into the queue. Raises: StoreUnavailable (it may be there), StoreDenied, StoreError."""
        ...

    def all_taken(self) -> bool:
        """True if no message waits: those that a worker took, and has not finished, do not count. Raises: as
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

    Raises: ConfigError, as `AccountClient`.
    """

    def __init__(self, access: ServiceAccess, name: str) -> None:
        from azure.storage.queue import QueueClient

        self.work = AccountClient(access, QueueClient, name)
        self.poison = AccountClient(access, QueueClient, f"{name}-poison")

    @classmethod
    def from_settings(cls, connection: str, name: str, environ: Mapping[str, str]) -> StorageQueue:
        """For `[state] connection`, as the blob store reads it: a connection string, or an identity with
        `{connection}__queueServiceUri` or `{connection}__accountName`.

        Raises: ConfigError with key `state.connection`; it never repeats a connection string.
        """
        why = '[functions] mode = "queue"'
        return cls(ServiceAccess.from_settings(connection, "queue", environ, why=why), name)

    @classmethod
    def from_connection_string(cls, connection_string: str, name: str) -> StorageQueue:
        """With an account key or a SAS token. Raises: ConfigError, as `from_settings`."""
        return cls(ServiceAccess.by_key(connection_string, "queue"), name)

    @property
    def name(self) -> str:
        """The queue's."""
        return self.work.name

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
            return not self.work.client().peek_messages(max_messages=1)
        except FAILURES as error:
            if code_of(error) == "QueueNotFound":
                return True
            raise self._translated(error, self.name) from None

    def check(self) -> None:
        """See that messages may be read and removed here; nothing is changed. Whether one may be sent shows only when
        one is. Raises: StoreUnavailable, StoreDenied, StoreError."""
        self.all_taken()
        try:
            self.work.client().delete_message(_NO_MESSAGE, pop_receipt=_NO_MESSAGE)
        except FAILURES as error:
            if status_of(error) not in _NONE_SUCH:
                raise self._translated(error, self.name) from None

    def take_poison(self) -> list[str]:
        """See `Queue.take_poison`."""
        taken = []
        try:
            poison = self.poison.client()
            for one in poison.receive_messages(
                messages_per_page=_AT_ONCE, max_messages=_MOST, visibility_timeout=_HIDDEN
            ):
                taken.append(str(one.content))
                poison.delete_message(one)
        except FAILURES as error:
            if code_of(error) == "QueueNotFound" or taken:
                return taken
            raise self._translated(error, self.poison.name) from None
        return taken

    def close(self) -> None:
        """See `Queue.close`."""
        self.work.close()
        self.poison.close()

    def _put(self, text: str) -> None:
        self.work.client().send_message(text, time_to_live=int(TIME_TO_LIVE.total_seconds()))

    def _create(self) -> None:
        with contextlib.suppress(ResourceExistsError):  # several messages are sent at once
            self.work.client().create_queue()

    def _translated(self, error: Exception, name: str) -> StoreError:
        """The error to raise: the SDK's texts may hold a signed address."""
        place = f"the queue {name}"
        if isinstance(error, AzureError):
            return translate(error, place, name, QUEUES)
        return not_the_services(QUEUES, place, name)
