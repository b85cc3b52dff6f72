"""Rows as CloudEvents or as plain JSON to an HTTP endpoint, with an `Idempotency-Key` for each request.

What an answer means is in docs/relays.md: 2xx is done, less the rows that its body names; an outage is never a
row's fault; any other answer is a failure. Addresses and headers may hold secrets: of an address, only scheme, host and
port are ever shown.
"""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from pydantic_core import PydanticCustomError

from poller.entra import Identity
from poller.errors import ConfigError
from poller.handler.batch import Batch
from poller.handler.reports import RetryLater
from poller.model.finding import Finding, error, ok, warn
from poller.relays.base import Relay
from poller.relays.http_answers import (
    EndpointRefused,
    failed_events,
    read_body,
    wanted_pause,
    was_slow,
    without_address,
)
from poller.relays.http_bodies import OutgoingRequest, content_type, requests_of
from poller.relays.http_sessions import HttpSessions
from poller.relays.http_settings import HEADER_VALUE, HttpSettings, parsed
from poller.relays.http_signatures import Signer
from poller.relays.http_tokens import STEP, Bearer
from poller.relays.messages import TookTooLong, retry_later
from poller.tls import is_loopback

if TYPE_CHECKING:
    import requests

__all__ = ["HttpRelay", "HttpSettings"]

_AGAIN = frozenset({408, 425, 429})
_NO_ROWS_FAULT = frozenset({401, 403, 407})


class HttpRelay(Relay[HttpSettings]):
    """Sends a request at a time, in order; a lane has a connection of its own, which is kept open."""

    knows_changes = True

    def __init__(
        self, settings: HttpSettings, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        super().__init__(settings, environ=environ, folder=folder)
        self._url = self._address()
        self._place = _place(urlsplit(self._url))
        self._headers = {**settings.headers, **{name: self._secret(name) for name in settings.headers_env}}
        self._signer = self._signing(settings.signing_env)
        self._bearer = None if settings.identity is None else Bearer(settings.identity, Identity(settings.client_id))
        self._check_transport()
        self._sessions = HttpSessions(self._url)

    def __call__(self, batch: Batch) -> None:
        """Raises: RetryLater (an outage), TookTooLong, Refused, LeaseLost, ConfigError (rows lack a column)."""
        for request in requests_of(batch, self.settings):
            batch.check()
            self._send(batch, request)

    def checkup(self) -> list[Finding]:
        """Findings: does a server accept connections there, and is there a token for it. Nothing is sent there."""
        address = urlsplit(self._url)
        found = []
        if address.scheme == "http" and not is_loopback(address.hostname or ""):
            message = f"Rows go over plain http to {address.hostname}: others on the way can read and change them."
            found.append(warn("relay", message, "Write https:// in the relay's address."))
        if self._bearer is not None:
            try:
                self._bearer.header()
            except RetryLater as failed:
                said = str(failed)
                return [*found, error("relay", f"{said[:1].upper()}{said[1:]}.", STEP)]
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

    def _send(self, batch: Batch, request: OutgoingRequest) -> None:
        """Raises: as `__call__`."""
        import requests

        headers = {
            **self._headers,
            "Content-Type": content_type(self.settings),
            "Idempotency-Key": request.key,
            "Accept-Encoding": "identity",
        }
        if self._bearer is not None:
            headers["Authorization"] = self._bearer.header()
        if self._signer is not None:
            headers |= self._signer.headers(request.key, int(time.time()), request.body)
        body_sent = request.body
        if self.settings.compression == "gzip":
            body_sent = gzip.compress(body_sent, mtime=0)
            headers["Content-Encoding"] = "gzip"
        limit = self.settings.timeout.total_seconds()
        until = time.monotonic() + limit
        try:
            with self._sessions.current().post(
                self._url, data=body_sent, headers=headers, timeout=limit, allow_redirects=False, stream=True
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

    def _judge(self, batch: Batch, request: OutgoingRequest, answer: requests.Response, body: bytes) -> None:
        """Raises: RetryLater, Refused."""
        status = answer.status_code
        said = f"{self._place} answered {status}"
        if status in _AGAIN or status >= 500:
            raise retry_later(said, wanted_pause(answer.headers))
        if 200 <= status < 300:
            for id_, why in failed_events(answer, body):
                if id_ not in request.rows:
                    raise EndpointRefused(f"{self._place} named an event as failed that was not in its request.")
                batch.fail(request.rows[id_], why)
        elif status == 401 and self._bearer is not None:
            self._bearer.doubt()
            raise EndpointRefused(
                f"{said} to a token for {self.settings.identity} as {self._bearer}.",
                next_step="Look at which application and which roles the endpoint asks for.",
            )
        elif 300 <= status < 400:
            raise EndpointRefused(
                f"{said}: redirects are not followed.", next_step="Write the new address into the relay's url."
            )
        elif self.settings.mode == "single" and status not in _NO_ROWS_FAULT:
            for row in request.rows.values():
                batch.fail(row, said)
        else:
            raise EndpointRefused(f"{said} to a request with {len(request.rows)} rows.")

    # ------------------------------------------------------------------------------------------------------ settings

    def _address(self) -> str:
        given = self.settings
        if given.url is not None:
            return given.url.get_secret_value()
        url = self.variable("url_env", given.url_env or "").strip()
        try:
            parsed(url)
        except PydanticCustomError as refused:
            raise ConfigError(f"`url_env`: what {given.url_env} holds {refused}.", key="url_env") from None
        return url

    def _secret(self, header: str) -> str:
        value = self.variable("headers_env", self.settings.headers_env[header]).strip()
        if HEADER_VALUE.fullmatch(value) is None:
            name = self.settings.headers_env[header]
            raise ConfigError(f"what {name} holds cannot be the value of a header.", key="headers_env")
        return value

    def _signing(self, name: str | None) -> Signer | None:
        if name is None:
            return None
        return Signer(self.variable("signing_env", name), name=name, key="signing_env")

    def _check_transport(self) -> None:
        """Refuse a secret that would leave this machine in clear text. Raises: ConfigError."""
        address = urlsplit(self._url)
        secret = (
            self.settings.identity
            or self.settings.headers_env
            or self.settings.url_env
            or address.username
            or address.password
        )
        if address.scheme == "http" and secret and not is_loopback(address.hostname or ""):
            raise ConfigError(
                "is plain http to another machine: others on the way could read the secrets that are sent with it.",
                key="url" if self.settings.url_env is None else "url_env",
                next_step="Write https://.",
            )


def _place(parts: SplitResult) -> str:
    """What may be shown of an address."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"
