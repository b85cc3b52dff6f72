"""Rows as messages in a queue or topic of Azure Service Bus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from poller.config.options import Text
from poller.errors import PollerError
from poller.handler.batch import Batch
from poller.relays.account import problem
from poller.relays.amqp import ATTEMPTS, TIME_LIMIT, AmqpRelay, NamespaceOptions, properties_of
from poller.relays.base import needs
from poller.relays.messages import Message, retry_later

_FULL_PAUSE = 60.0


class ServiceBusSettings(NamespaceOptions):
    """`poller.relays:service_bus`: rows as messages in a queue or topic of Azure Service Bus. Needs the extra
    `service-bus`."""

    queue: Text | None = None
    """The queue. Give this or `topic`."""

    topic: Text | None = None
    """The topic. Give this or `queue`."""

    sessions: bool = False
    """True if `ordering_key` becomes the session's id, for a queue or subscriptions with sessions; else it is the
    partition key."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.queue is None) == (self.topic is None):
            key = "queue" if self.queue is None else "topic"
            raise problem(
                key, "is missing: give queue or topic" if self.queue is None else "and queue exclude each other"
            )
        if self.sessions and not self.ordering_key:
            raise problem("ordering_key", "is missing: with sessions it says which rows are of one")
        return self


class ServiceBusRelay(AmqpRelay[ServiceBusSettings]):
    """Sends as many messages at once as the service takes, those of each ordering key apart."""

    def __init__(
        self, settings: ServiceBusSettings, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        with needs("service_bus", package="azure-servicebus", module="azure.servicebus", extra="service-bus"):
            import azure.servicebus  # noqa: F401
        super().__init__(settings, environ=environ, folder=folder)
        self._place = f"the queue {settings.queue}" if settings.queue else f"the topic {settings.topic}"

    def _begin(self, sender: Any, key: str | None) -> Any:  # noqa: ARG002
        return sender.create_message_batch()

    def _add(self, parcel: Any, message: Message, batch: Batch, key: str | None) -> bool:
        from azure.servicebus import ServiceBusMessage
        from azure.servicebus.exceptions import MessageSizeExceededError

        made = ServiceBusMessage(
            message.body,
            message_id=message.id,
            content_type="application/json",
            application_properties=properties_of(message, batch),
            session_id=key if self.settings.sessions else None,
            partition_key=key,
        )
        try:
            parcel.add_message(made)
        except MessageSizeExceededError:
            return False
        return True

    def _send(self, sender: Any, parcel: Any) -> None:
        sender.send_messages(parcel, timeout=TIME_LIMIT)

    def _client(self) -> Any:
        from azure.servicebus import ServiceBusClient

        own = self.settings
        options: dict[str, Any] = {"retry_total": ATTEMPTS, "retry_backoff_max": 5.0}
        if own.namespace is None:
            client = ServiceBusClient.from_connection_string(self._connection, **options)
        else:
            client = ServiceBusClient(own.namespace, own.credential, **options)
        return client.get_queue_sender(own.queue) if own.queue else client.get_topic_sender(str(own.topic))

    def _failure(self, error: Exception) -> Exception | None:
        from azure.core.exceptions import AzureError, ClientAuthenticationError
        from azure.servicebus import exceptions as sdk

        kind = type(error).__name__
        if isinstance(
            error, ClientAuthenticationError | sdk.ServiceBusAuthenticationError | sdk.ServiceBusAuthorizationError
        ):
            return PollerError(
                f"Access to {self._place} was refused ({kind}).",
                next_step=f"Grant this identity 'Azure Service Bus Data Sender' on {self._place}; it takes minutes to "
                "apply. A connection string needs the claim Send.",
            )
        if isinstance(error, sdk.MessagingEntityNotFoundError):
            return PollerError(
                f"{self._place} does not exist.",
                next_step="Make it, with duplicate detection where rows must not double.",
            )
        if isinstance(error, sdk.ServiceBusQuotaExceededError):
            return retry_later(f"{self._place} is full", _FULL_PAUSE)
        if isinstance(
            error,
            sdk.ServiceBusConnectionError
            | sdk.ServiceBusCommunicationError
            | sdk.ServiceBusServerBusyError
            | sdk.OperationTimeoutError
            | sdk.MessagingEntityDisabledError
            | OSError,
        ):
            return retry_later(f"{self._place} cannot be reached, or is busy ({kind})")
        if isinstance(error, AzureError):
            return PollerError(f"{self._place} did not accept the messages ({kind}).")
        return None
