"""Rows as events in an event hub of Azure Event Hubs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from poller.config.options import Text
from poller.errors import PollerError
from poller.handler.batch import Batch
from poller.relays.amqp import ATTEMPTS, TIME_LIMIT, AmqpRelay, NamespaceOptions, properties_of
from poller.relays.base import needs
from poller.relays.messages import Message, retry_later

_NOT_FOUND = ("not-found", "entity-not-found")


class EventHubsSettings(NamespaceOptions):
    """`poller.relays:event_hubs`: rows as events in an event hub, or in a topic of what speaks its protocol. Needs the
    extra `event-hubs`. `ordering_key` becomes the partition key; without one events go to any partition, in no order
    among them."""

    event_hub: Text
    """The name of the event hub."""


class EventHubsRelay(AmqpRelay[EventHubsSettings]):
    """Sends as many events at once as the service takes, those of each ordering key apart."""

    def __init__(
        self, settings: EventHubsSettings, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        with needs("event_hubs", package="azure-eventhub", module="azure.eventhub", extra="event-hubs"):
            import azure.eventhub  # noqa: F401
        super().__init__(settings, environ=environ, folder=folder)
        self._place = f"the event hub {settings.event_hub}"

    def _begin(self, sender: Any, key: str | None) -> Any:
        return sender.create_batch(partition_key=key)

    def _add(self, parcel: Any, message: Message, batch: Batch, key: str | None) -> bool:  # noqa: ARG002
        from azure.eventhub import EventData

        event = EventData(message.body)
        event.message_id = message.id
        event.content_type = "application/json"
        event.properties = {"id": message.id, **properties_of(message, batch)}
        try:
            parcel.add(event)
        except ValueError:  # the batch is full
            return False
        return True

    def _send(self, sender: Any, parcel: Any) -> None:
        sender.send_batch(parcel, timeout=TIME_LIMIT)

    def _client(self) -> Any:
        from azure.eventhub import EventHubProducerClient

        own = self.settings
        options: dict[str, Any] = {"retry_total": ATTEMPTS, "retry_backoff_max": 5.0, "auth_timeout": TIME_LIMIT}
        if own.namespace is None:
            return EventHubProducerClient.from_connection_string(
                self._connection, eventhub_name=own.event_hub, **options
            )
        return EventHubProducerClient(own.namespace, own.event_hub, own.credential, **options)

    def _failure(self, error: Exception) -> Exception | None:
        from azure.core.exceptions import ClientAuthenticationError
        from azure.eventhub import exceptions as sdk

        kind, condition = type(error).__name__, str(getattr(error, "error", None) or "")
        if isinstance(error, ClientAuthenticationError | sdk.AuthenticationError) or "unauthorized" in condition:
            return PollerError(
                f"Access to {self._place} was refused ({kind}).",
                next_step=f"Grant this identity 'Azure Event Hubs Data Sender' on {self._place}; it takes minutes to "
                "apply. A connection string needs the claim Send.",
            )
        if condition.endswith(_NOT_FOUND):
            return PollerError(f"{self._place} does not exist.", next_step="Make it, or correct event_hub.")
        if isinstance(error, sdk.EventDataError) or "message-size-exceeded" in condition:
            return PollerError(f"{self._place} did not accept the events ({kind} {condition}).")
        if isinstance(error, sdk.EventHubError | OSError):
            return retry_later(f"{self._place} cannot be reached, or is busy ({kind} {condition})".replace(" )", ")"))
        return None
