"""A queue that the relay `queue` sends to."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

from azure.storage.queue import QueueClient

from poller.relays import QueueRelay, QueueSettings
from tests.support.azurite import Azurite


class Queue:
    """A queue of the run's Azurite, and relays that send to it."""

    def __init__(self, azurite: Azurite) -> None:
        self.connection = azurite.connection_string_with_queues
        self.name = f"q-{uuid.uuid4().hex[:12]}"
        self.client = QueueClient.from_connection_string(self.connection, self.name)

    def relay(self, **settings: Any) -> QueueRelay:
        own = QueueSettings(queue=self.name, connection_env="TARGET", **settings)
        return QueueRelay(own, environ={"TARGET": self.connection})

    def taken(self) -> list[Any]:
        """What a queue trigger gets of the messages, in order."""
        return [json.loads(base64.b64decode(one.content)) for one in self.client.receive_messages(messages_per_page=32)]
