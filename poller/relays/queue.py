"""Rows as messages in a queue of Azure Storage, in the form that Azure Functions' queue trigger reads."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from poller.config.options import Text
from poller.config.types import Duration, PositiveDuration
from poller.handler.batch import Batch
from poller.model.finding import Finding, ok
from poller.relays.account import (
    AccountOptions,
    account_client,
    failure,
    looked_at,
    problem,
    sent,
)
from poller.relays.base import Relay
from poller.relays.messages import Message, json_bytes, json_text, message_id, operation, readable
from poller.relays.ordering import chosen, key_value

LARGEST = 65_536
"""Bytes of a message's text: the service's own limit, after the encoding."""
_MOST_HIDDEN = timedelta(days=7)
_NAME = r"[a-z0-9](?:-?[a-z0-9]){2,62}"


class QueueSettings(AccountOptions):
    """`poller.relays:queue`: rows as messages in a queue of Azure Storage."""

    queue: str = Field(pattern=f"^{_NAME}$")
    """The name of the queue: 3 to 63 lower-case letters, digits and single hyphens."""

    encoding: Literal["base64", "text"] = "base64"
    """How a message is written. `base64`: as Azure Functions' queue trigger expects by default. `text`: as it is, for
    `"messageEncoding": "none"` in `host.json` and for other readers; a row takes a quarter less of the 64 KiB."""

    rows_per_message: int = Field(default=1, ge=1, le=1000)
    """The most rows in one message. With 1 a message is one object; with more it is an object with a list, as many rows
    as 64 KiB hold."""

    ordering_key: tuple[Text, ...] = ()
    """With `senders` more than 1: the columns within whose values messages are sent in order."""

    senders: int = Field(default=1, ge=1, le=32)
    """The number of messages that are on their way at once. With more than one, rows are sent in order for each
    `ordering_key`, and one message holds rows of one."""

    time_to_live: PositiveDuration | None = None
    """The time after which a message that no reader took is gone. Default: never."""

    visibility_delay: Duration = timedelta(0)
    """The time for which a message is hidden from readers at first; at most 7 days."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.senders > 1 and not self.ordering_key:
            raise problem("ordering_key", "is missing: with senders > 1 it says what stays in order")
        if self.ordering_key and self.senders == 1:
            raise problem("ordering_key", "has no meaning with senders = 1: all rows are sent in order")
        if self.visibility_delay > _MOST_HIDDEN:
            raise problem("visibility_delay", "must be at most 7 days: the service's own limit")
        if self.time_to_live is not None and self.visibility_delay >= self.time_to_live:
            raise problem("visibility_delay", "must be shorter than time_to_live")
        return self


class QueueRelay(Relay[QueueSettings]):
    """Sends a message for each row, in order, and waits for the answer of each. An answer that is lost, or a process
    that ends, sends messages again: `id` is the same each time."""

    knows_changes = True

    def __init__(
        self, settings: QueueSettings, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        from azure.storage.queue import QueueClient

        super().__init__(settings, environ=environ, folder=folder)
        self._place = f"the queue {settings.queue}"
        connection = ""
        if settings.connection_env is not None:
            connection = self.variable("connection_env", settings.connection_env)
        self._sdk = account_client(settings, connection, "queue", QueueClient, settings.queue)

    def __call__(self, batch: Batch) -> None:
        """Raises: RetryLater, if the service is down; PollerError, if it refuses."""
        if self.settings.senders == 1:
            self._send(batch, self._messages(batch, list(readable(batch, self.settings.columns))))
            return
        by_key: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
        for row, values in readable(batch, self.settings.columns, besides=self.settings.ordering_key):
            key = json.dumps([key_value(values, name) for name in self.settings.ordering_key])
            by_key.setdefault(key, []).append((row, values))
        parcels = [self._messages(batch, rows) for rows in by_key.values()]
        with ThreadPoolExecutor(self.settings.senders, thread_name_prefix="poller-queue") as pool:
            sending = [pool.submit(self._send, batch, parcel) for parcel in parcels]
            try:
                for one in sending:
                    one.result()
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def checkup(self) -> list[Finding]:
        """Check that the queue can be reached. The right to send messages shows only when one is sent."""
        return looked_at(self._look)

    def _look(self) -> Finding:
        from poller.stores.azure.errors import FAILURES, code_of, status_of

        own = self.settings
        try:
            sent(lambda: self._sdk.client().get_queue_properties())
        except FAILURES as failed:
            if status_of(failed) == 403 and own.account_url is not None:
                return ok("relay", f"{self._place} was not looked at: this identity may do no more than send, if that")
            if code_of(failed) == "QueueNotFound" and own.create:
                return ok("relay", f"{self._place} is not there, and is made with the first message")
            raise self._refusal(failed) from None
        return ok("relay", f"{self._place} is there")

    def close(self) -> None:
        """See `Relay.close`."""
        self._sdk.close()

    # --- messages ----------------------------------------------------------------------------------------------------

    def _messages(self, batch: Batch, rows: list[tuple[Any, dict[str, Any]]]) -> list[str]:
        """Their texts, in order, of rows that fit; the others are rejected by name."""
        ascii_only = self.settings.encoding == "text"  # XML, in which it travels, does not have every character
        texts: list[str] = []
        parcel: list[Message] = []
        size = 0
        for row, found in rows:
            values = chosen(found, self.settings.columns)
            body = json_text(values, ascii_only=True).encode() if ascii_only else json_bytes(values)
            message = Message(row, message_id(batch, row), body, operation(batch, row))
            alone = self._size(self._body(batch, [message]))
            if alone > LARGEST:
                batch.reject(row, f"its message has {alone} bytes, and a Storage Queue takes {LARGEST}")
                continue
            if parcel and (len(parcel) >= self.settings.rows_per_message or size + alone > LARGEST):
                texts.append(self._text(self._body(batch, parcel)))
                parcel, size = [], 0
            parcel.append(message)
            size += alone  # more than what it adds: the poller's name is counted each time
        return [*texts, self._text(self._body(batch, parcel))] if parcel else texts

    def _body(self, batch: Batch, messages: list[Message]) -> bytes:
        poller = json.dumps(batch.poller_name).encode()
        if self.settings.rows_per_message == 1:
            (one,) = messages
            return b'{"id":"%s","poller":%s,%s"row":%s}' % (one.id.encode(), poller, _op(one), one.body)
        rows = b",".join(b'{"id":"%s",%s"row":%s}' % (one.id.encode(), _op(one), one.body) for one in messages)
        return b'{"poller":%s,"rows":[%s]}' % (poller, rows)

    def _size(self, body: bytes) -> int:
        """In the queue: encoded, or as it is in XML."""
        if self.settings.encoding == "base64":
            return -(-len(body) // 3) * 4
        return len(body) + 4 * body.count(b"&") + 3 * (body.count(b"<") + body.count(b">"))

    def _text(self, body: bytes) -> str:
        return base64.b64encode(body).decode() if self.settings.encoding == "base64" else body.decode()

    # --- the service -------------------------------------------------------------------------------------------------

    def _send(self, batch: Batch, texts: list[str]) -> None:
        for text in texts:
            batch.check()
            self._put(text)

    def _put(self, text: str) -> None:
        from poller.stores.azure.errors import FAILURES, code_of

        life = self.settings.time_to_live
        timing = {
            "visibility_timeout": int(self.settings.visibility_delay.total_seconds()) or None,
            "time_to_live": -1 if life is None else max(1, int(life.total_seconds())),
        }

        def put() -> None:
            self._sdk.client().send_message(text, **timing)

        try:
            try:
                sent(put)
            except FAILURES as error:
                if code_of(error) != "QueueNotFound" or not self.settings.create:
                    raise
                self._create()
                sent(put)
        except FAILURES as error:  # from None: the SDK's text may hold a signed address
            raise self._refusal(error) from None

    def _refusal(self, error: Exception) -> Exception:
        return failure(
            error,
            self._place,
            role=f"Grant this identity 'Storage Queue Data Message Sender' on {self._place}; it takes minutes to "
            "apply.",
            missing=f"Make it: az storage queue create --name {self.settings.queue}, or set create = true.",
        )

    def _create(self) -> None:
        from azure.core.exceptions import ResourceExistsError

        with contextlib.suppress(ResourceExistsError):
            self._sdk.client().create_queue()


def _op(message: Message) -> bytes:
    """The member of a message that says which operation a row of a captured table is."""
    return b"" if message.op is None else b'"op":"%s",' % message.op.encode()
