"""Rows as CloudEvents to an HTTP endpoint, with an `Idempotency-Key` for each request.

What an answer means stands in docs/relays.md: 2xx is done, less the rows that its body names; an outage is never a
row's fault; any other answer is a failure. Addresses and headers may hold secrets: of an address, only scheme, host and
port are ever shown.
"""

from __future__ import annotations

import hashlib
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from poller.config.options import Options, Text
from poller.config.types import PositiveDuration, Size
from poller.errors import ConfigError
from poller.handler.batch import Batch
from poller.model.finding import Finding, error, ok, warn
from poller.ports import Row
from poller.relays.base import Relay
from poller.relays.http_answers import Refused, failed_events, read_body, wanted_pause, was_slow, without_address
from poller.relays.http_sessions import HttpSessions
from poller.relays.messages import TookTooLong, json_bytes, message_id, readable, retry_later
from poller.tls import is_loopback

if TYPE_CHECKING:
    import requests

_AGAIN = frozenset({408, 425, 429})
_NO_ROWS_FAULT = frozenset({401, 403, 407})
_OURS = frozenset({"content-type", "content-length", "idempotency-key", "host", "accept-encoding", "transfer-encoding"})
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)
_REFERENCE = re.compile(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+", re.ASCII)
"""The characters of a URI reference."""


class HttpSettings(Options):
    """`poller.relays:http`: rows as CloudEvents to an HTTP endpoint."""

    url: SecretStr | None = Field(default=None, min_length=1)
    """Where events are sent by POST: an address that begins with `https://` or `http://`. Redirects are not followed.
    Give this or `url_env`."""

    url_env: Text | None = None
    """The environment variable that holds the address, where a part of it is secret."""

    mode: Literal["batch", "single"] = "batch"
    """`batch`: the rows of a batch in one request, a JSON list of events (`application/cloudevents-batch+json`).
    `single`: a request for each row (`application/cloudevents+json`), so that the service can refuse one by itself."""

    max_request: Size = Field(default="1MB", validate_default=True)
    """The largest body of a request. A batch that is larger takes several; a row that is larger by itself is
    rejected."""

    event_type: Text = "poller.row"
    """The `type` of the events."""

    event_source: Text | None = None
    """The `source` of the events: a URI reference, as CloudEvents asks for, such as `/shop` or `https://example.com/shop`.
    Default: `/{app_name}/{poller}`."""

    headers: dict[str, str] = Field(default_factory=dict)
    """Further headers of each request."""

    headers_env: dict[str, str] = Field(default_factory=dict)
    """The same for secrets: the environment variable that holds the value of each, such as
    `{Authorization = "SHOP_AUTHORIZATION"}`."""

    timeout: PositiveDuration = timedelta(seconds=30)
    """How long the endpoint may take: until it is connected, and then for its whole answer, with a second more for each
    100,000 bytes of it. If the answer takes longer, the batch fails, so that after `max_attempts` smaller ones are
    tried, until the row that takes too long is alone."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            _parsed(url.get_secret_value())
        return url

    @field_validator("event_source")
    @classmethod
    def _is_a_reference(cls, source: str | None) -> str | None:
        if source is not None:
            with suppress(ValueError):
                if _REFERENCE.fullmatch(source) and source.count("#") < 2 and urlsplit(source) is not None:
                    return source
            raise PydanticCustomError("reference", "is not a URI reference, such as /shop or https://example.com/shop")
        return source

    @field_validator("headers", "headers_env")
    @classmethod
    def _can_be_sent(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if _HEADER.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
                raise PydanticCustomError("header", "has a header that HTTP does not allow")
            if name.lower() in _OURS:
                reason = f"sets {name}, which the relay sets itself"
                raise PydanticCustomError("header", "{reason}", {"reason": reason})
        return headers

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if (self.url is None) == (self.url_env is None):
            key = "url" if self.url is None else "url_env"
            reason = "is missing: give url or url_env" if self.url is None else "and url exclude each other"
            raise PydanticCustomError("address", "{reason}", {"key": key, "reason": reason})
        return self


class _Request(NamedTuple):
    """A request, and the rows in it by the ids of their events."""

    key: str
    body: bytes
    rows: Mapping[str, Row]


class HttpRelay(Relay[HttpSettings]):
    """Sends a request at a time, in order; a lane has a connection of its own, which is kept open."""

    def __init__(
        self, settings: HttpSettings, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        super().__init__(settings, environ=environ, folder=folder)
        self._url = self._address()
        self._place = _place(urlsplit(self._url))
        self._headers = {**settings.headers, **{name: self._secret(name) for name in settings.headers_env}}
        self._check_transport()
        self._sessions = HttpSessions(self._url)

    def __call__(self, batch: Batch) -> None:
        """Raises: RetryLater (an outage), TookTooLong, Refused, LeaseLost."""
        source = self.settings.event_source or f"/{batch.standing.app_name}/{batch.poller_name}"
        for request in self._requests(batch, source):
            batch.check()
            self._send(batch, request)

    def checkup(self) -> list[Finding]:
        """Whether somebody accepts connections there. Nothing is sent."""
        address = urlsplit(self._url)
        found = []
        if address.scheme == "http" and not is_loopback(address.hostname or ""):
            message = f"Rows go over plain http to {address.hostname}: others on the way can read and change them."
            found.append(warn("relay", message, "Write https:// in the relay's address."))
        if self._sessions.current().proxies:
            return [*found, ok("relay", f"{self._place} is reached through a proxy, and was not tried")]
        port = address.port or (443 if address.scheme == "https" else 80)
        try:
            socket.create_connection((address.hostname or "", port), timeout=5).close()
        except OSError as failed:
            message = f"{self._place} accepts no connections ({type(failed).__name__})."
            return [*found, error("relay", message, "Look at the relay's address, and whether the service runs.")]
        return [*found, ok("relay", f"{self._place} accepts connections")]

    def close(self) -> None:
        """See `Relay.close`."""
        self._sessions.close()

    # ------------------------------------------------------------------------------------------------ what is sent

    def _requests(self, batch: Batch, source: str) -> Iterator[_Request]:
        """The batch as requests, in order; a row that is larger than one may be is rejected by name."""
        size, parts = 2, dict[str, tuple[Row, bytes]]()
        single, largest = self.settings.mode == "single", self.settings.max_request
        for row, values in readable(batch):
            id_ = message_id(batch, row)
            event = _event(id_, source, self.settings.event_type, values)
            if len(event) + 2 > largest:
                batch.reject(row, f"the row's event has {len(event)} bytes, and max_request is {largest}")
                continue
            if parts and (single or size + len(event) + 1 > largest):
                yield self._request(parts)
                size, parts = 2, {}
            parts[id_] = row, event
            size += len(event) + 1
        if parts:
            yield self._request(parts)

    def _request(self, parts: Mapping[str, tuple[Row, bytes]]) -> _Request:
        rows = {id_: row for id_, (row, _) in parts.items()}
        if self.settings.mode == "single":
            ((id_, (_, event)),) = parts.items()
            return _Request(id_, event, rows)
        key = hashlib.sha256("".join(parts).encode()).hexdigest()
        return _Request(key, b"[%s]" % b",".join(event for _, event in parts.values()), rows)

    def _send(self, batch: Batch, request: _Request) -> None:
        """Raises: as `__call__`."""
        import requests

        kind = "cloudevents" if self.settings.mode == "single" else "cloudevents-batch"
        headers = {
            **self._headers,
            "Content-Type": f"application/{kind}+json; charset=utf-8",
            "Idempotency-Key": request.key,
            "Accept-Encoding": "identity",
        }
        limit = self.settings.timeout.total_seconds()
        until = time.monotonic() + limit
        try:
            with self._sessions.current().post(
                self._url, data=request.body, headers=headers, timeout=limit, allow_redirects=False, stream=True
            ) as answer:
                body = read_body(answer, until)
                self._judge(batch, request, answer, body)
        except (requests.RequestException, OSError) as failed:  # its text may quote the address
            if was_slow(failed):
                count = len(request.rows)
                what = f"a request with {count} row{'s' * (count > 1)}"
                raise TookTooLong(self._place, what, self.settings.timeout) from None
            raise retry_later(f"{self._place} gave no answer ({without_address(failed)})") from None

    # ---------------------------------------------------------------------------------------------- what comes back

    def _judge(self, batch: Batch, request: _Request, answer: requests.Response, body: bytes) -> None:
        """Raises: RetryLater, Refused."""
        status = answer.status_code
        said = f"{self._place} answered {status}"
        if status in _AGAIN or status >= 500:
            raise retry_later(said, wanted_pause(answer.headers))
        if 200 <= status < 300:
            for id_, why in failed_events(answer, body):
                if id_ not in request.rows:
                    raise Refused(f"{self._place} named an event as failed that was not in its request.")
                batch.fail(request.rows[id_], why)
        elif 300 <= status < 400:
            raise Refused(
                f"{said}: redirects are not followed.", next_step="Write the new address into the relay's url."
            )
        elif self.settings.mode == "single" and status not in _NO_ROWS_FAULT:
            for row in request.rows.values():
                batch.fail(row, said)
        else:
            raise Refused(f"{said} to a request with {len(request.rows)} rows.")

    # ------------------------------------------------------------------------------------------------------ settings

    def _address(self) -> str:
        given = self.settings
        if given.url is not None:
            return given.url.get_secret_value()
        url = self.variable("url_env", given.url_env or "").strip()
        try:
            _parsed(url)
        except PydanticCustomError as refused:
            raise ConfigError(f"`url_env`: what {given.url_env} holds {refused}.", key="url_env") from None
        return url

    def _secret(self, header: str) -> str:
        value = self.variable("headers_env", self.settings.headers_env[header]).strip()
        if _VALUE.fullmatch(value) is None:
            name = self.settings.headers_env[header]
            raise ConfigError(f"what {name} holds cannot be the value of a header.", key="headers_env")
        return value

    def _check_transport(self) -> None:
        """Refuse a secret that would leave this machine in clear text. Raises: ConfigError."""
        address = urlsplit(self._url)
        secret = self.settings.headers_env or self.settings.url_env or address.username or address.password
        if address.scheme == "http" and secret and not is_loopback(address.hostname or ""):
            raise ConfigError(
                "is plain http to another machine: others on the way could read the secrets that are sent with it.",
                key="url" if self.settings.url_env is None else "url_env",
                next_step="Write https://.",
            )


def _event(id_: str, source: str, kind: str, values: Mapping[str, Any]) -> bytes:
    return json_bytes(
        {
            "specversion": "1.0",
            "id": id_,
            "source": source,
            "type": kind,
            "datacontenttype": "application/json",
            "data": values,
        }
    )


def _parsed(url: str) -> SplitResult:
    """Raises: PydanticCustomError, which does not quote it."""
    with suppress(ValueError):
        parts = urlsplit(url)
        _ = parts.port
        if parts.scheme in {"http", "https"} and parts.hostname and url.isprintable() and " " not in url:
            return parts
    raise PydanticCustomError("address", "is not an address that begins with https:// or http://")


def _place(parts: SplitResult) -> str:
    """What may be shown of an address."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"
