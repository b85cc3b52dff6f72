"""Ready-made handlers for common targets, so that a job needs no code: `handler = "poller.relays:stdout"`.

In `poller.toml` a relay's settings are in `[pollers.NAME.relay]`; in Python:

    from poller.relays import relay

    orders.tick(relay("stdout", envelope=True))

A module for each relay, with its settings and its class, which are names of this package too: `StdoutRelay`,
`StdoutSettings`. Each is imported when it is first used. `poller.config.relays` lists them all; `base` is what they
have in common, `messages` how a row becomes JSON, what its id is, and how a row is named that a target does not take. A
relay is a handler like any other: it has the public interface of handlers, and nothing else of this library's workings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.doors import door

if TYPE_CHECKING:
    from poller.relays.base import Relay
    from poller.relays.blob import BlobRelay, BlobSettings
    from poller.relays.event_hubs import EventHubsRelay, EventHubsSettings
    from poller.relays.http import HttpRelay, HttpSettings
    from poller.relays.opening import relay
    from poller.relays.queue import QueueRelay, QueueSettings
    from poller.relays.service_bus import ServiceBusRelay, ServiceBusSettings
    from poller.relays.sql import SqlRelay, SqlSettings
    from poller.relays.stdout import StdoutRelay, StdoutSettings

__all__ = [
    "BlobRelay",
    "BlobSettings",
    "EventHubsRelay",
    "EventHubsSettings",
    "HttpRelay",
    "HttpSettings",
    "QueueRelay",
    "QueueSettings",
    "Relay",
    "ServiceBusRelay",
    "ServiceBusSettings",
    "SqlRelay",
    "SqlSettings",
    "StdoutRelay",
    "StdoutSettings",
    "relay",
]

_HOMES = {
    "BlobRelay": "blob",
    "BlobSettings": "blob",
    "EventHubsRelay": "event_hubs",
    "EventHubsSettings": "event_hubs",
    "HttpRelay": "http",
    "HttpSettings": "http",
    "QueueRelay": "queue",
    "QueueSettings": "queue",
    "Relay": "base",
    "ServiceBusRelay": "service_bus",
    "ServiceBusSettings": "service_bus",
    "SqlRelay": "sql",
    "SqlSettings": "sql",
    "StdoutRelay": "stdout",
    "StdoutSettings": "stdout",
    "relay": "opening",
}

__getattr__, __dir__ = door(__name__, _HOMES)
