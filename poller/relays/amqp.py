"""What the relays over AMQP have in common: which namespace, which rows stay in order, and what fits into one send."""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn, Self, TypeVar

from pydantic import model_validator

from poller import forks
from poller.config.options import Text
from poller.errors import ConfigError
from poller.handler.batch import Batch
from poller.model.finding import Finding, ok
from poller.relays.account import IdentityOptions, check_one_address, looked_at, problem
from poller.relays.base import Relay
from poller.relays.messages import Message, json_bytes, message_id, operation, readable
from poller.relays.ordering import chosen, key_value

LONGEST_KEY = 128
"""Characters of a session's or a partition's key: the services' own limit."""
ATTEMPTS = 2
"""The times that the SDK itself sends again, after short pauses."""
TIME_LIMIT = 30.0
"""Seconds that one send may take, with its attempts."""
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?", re.ASCII)


class NamespaceOptions(IdentityOptions):
    """Which namespace a relay sends to."""

    namespace: Text | None = None
    """The host of the namespace, such as `shop.servicebus.windows.net`: the relay signs in by identity."""

    ordering_key: tuple[Text, ...] = ()
    """The columns within whose values rows stay in order, such as `customer_id`."""

    @model_validator(mode="after")
    def _one_namespace(self) -> Self:
        check_one_address(self, "namespace", self.namespace)
        if self.namespace is not None and _HOST.fullmatch(self.namespace) is None:
            raise problem("namespace", "must be a host, such as shop.servicebus.windows.net")
        return self


SettingsT = TypeVar("SettingsT", bound=NamespaceOptions)


class AmqpRelay(Relay[SettingsT]):
    """Sends rows by an SDK over AMQP. Each lane has a sender of its own, and with it a connection."""

    _place: str
    """What the target is called in an error."""
    knows_changes = True

    def __init__(
        self, settings: SettingsT, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        super().__init__(settings, environ=environ, folder=folder)
        self._connection = ""
        if settings.connection_env is not None:
            self._connection = self.variable("connection_env", settings.connection_env)
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)
        try:
            self._client().close()
        except (ValueError, TypeError, LookupError, AttributeError):
            refused = True
        else:
            refused = False
        if refused:
            self._refuse_the_connection()

    def _reset_after_fork(self) -> None:
        """In a child process too, which forgets the parent's connections."""
        self._lock = Lock()
        self._senders: dict[int, Any] = {}

    def _refuse_the_connection(self) -> NoReturn:
        key = "connection_env" if self.settings.connection_env else "namespace"
        step = "Copy the connection string again from the portal: Endpoint=sb://...;SharedAccessKeyName=..."
        raise ConfigError("leads to no namespace.", key=key, next_step=step)

    @abstractmethod
    def _client(self) -> Any:
        """The SDK's client, or what is closed like one."""

    @abstractmethod
    def _begin(self, sender: Any, key: str | None) -> Any:
        """An empty batch of the SDK, for rows of one ordering key."""

    @abstractmethod
    def _add(self, parcel: Any, message: Message, batch: Batch, key: str | None) -> bool:
        """Add a message to the SDK's batch. False if it has no room."""

    @abstractmethod
    def _send(self, sender: Any, parcel: Any) -> None:
        """Send the SDK's batch, and wait for its answer."""

    @abstractmethod
    def _failure(self, error: Exception) -> Exception | None:
        """What the handler raises for what the SDK raised; None: the same. No text of an answer is repeated."""

    def __call__(self, batch: Batch) -> None:
        """Raises: RetryLater, if the service is down or full; PollerError, if it refuses."""
        try:
            self._send_all(batch)
        except Exception as error:
            self._forget(batch)
            known = self._failure(error)
            if known is None:
                raise
        else:
            return
        raise known  # not in the handler above: the SDK's text would be its context

    def _send_all(self, batch: Batch) -> None:
        for key, messages in self._groups(batch):
            sender = self._sender(batch)
            parcel, count = self._begin(sender, key), 0
            for message in messages:
                added = self._add(parcel, message, batch, key)
                if not added and count:
                    batch.check()
                    self._send(sender, parcel)
                    parcel, count = self._begin(sender, key), 0
                    added = self._add(parcel, message, batch, key)
                count += added
                if not added:
                    most = parcel.max_size_in_bytes
                    batch.reject(message.row, f"its message has more than the {most} bytes that the service takes")
            if count:
                batch.check()
                self._send(sender, parcel)

    def _sender(self, batch: Batch) -> Any:
        """The sender of the batch's lane."""
        lane = batch.standing.lane
        with self._lock:
            if lane not in self._senders:
                self._senders[lane] = self._client()
            return self._senders[lane]

    def _forget(self, batch: Batch) -> None:
        """After a failure: the next call connects again."""
        with self._lock:
            sender = self._senders.pop(batch.standing.lane, None)
        _close(sender)

    def checkup(self) -> list[Finding]:
        """Check that the target can be reached, and is there. Nothing is sent."""
        return looked_at(self._look)

    def _look(self) -> Finding:
        sender = None
        try:
            sender = self._client()
            self._begin(sender, None)
        except Exception as failed:
            known = self._failure(failed)
            if known is None:
                raise
        else:
            return ok("relay", f"{self._place} can be reached")
        finally:
            _close(sender)
        raise known

    def close(self) -> None:
        """See `Relay.close`."""
        with self._lock:
            senders, self._senders = self._senders, {}
        for sender in senders.values():
            _close(sender)

    def _groups(self, batch: Batch) -> Iterable[tuple[str | None, list[Message]]]:
        """The rows of each ordering key, in order; all of them under None if there is none."""
        groups: dict[str | None, list[Message]] = {}
        own = self.settings
        for row, values in readable(batch, own.columns, besides=own.ordering_key):
            key = key_text(values, own.ordering_key)
            body = json_bytes(chosen(values, own.columns))
            message = Message(row, message_id(batch, row), body, operation(batch, row))
            groups.setdefault(key, []).append(message)
        return groups.items()


def properties_of(message: Message, batch: Batch) -> dict[str | bytes, Any]:
    """The properties of a message: the poller's name, and of a captured table the operation."""
    return {"poller": batch.poller_name, **({} if message.op is None else {"op": message.op})}


def _close(sender: Any) -> None:
    try:
        if sender is not None:
            sender.close()
    except Exception:  # noqa: BLE001, S110 - it is given up anyway, and an SDK may raise anything here
        pass


def key_text(values: Mapping[str, Any], columns: tuple[str, ...]) -> str | None:
    """What rows with these values share as session or partition: a text as it is, else JSON; a hash where that is too
    long. None if no columns are named. Raises: ConfigError."""
    if not columns:
        return None
    found = [key_value(values, name) for name in columns]
    whole = found[0] if len(found) == 1 else found
    text = whole if isinstance(whole, str) and whole else json.dumps(whole)
    if len(text.encode("utf-16-le", "surrogatepass")) // 2 <= LONGEST_KEY and text.isprintable():
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
