"""Rows as CloudEvents or as plain JSON to an HTTP endpoint, with an `Idempotency-Key` for each request.

What an answer means is in docs/relays.md: 2xx is done, less the rows that its body names; an outage is never a
row's fault; any other answer is a failure. Addresses and headers may hold secrets: of an address, only scheme, host and
port are ever shown.
"""

from __future__ import annotations

import gzip
import json
import logging
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from pydantic_core import PydanticCustomError

from poller import entra, forks
from poller.answers import Limited
from poller.entra import Identity
from poller.errors import ConfigError, PollerError
from poller.handler.batch import Batch
from poller.handler.reports import RetryLater
from poller.model.finding import Finding, error, ok, warn
from poller.model.redact import redact
from poller.relays.base import Relay
from poller.relays.http_bodies import OutgoingRequest, content_type, requests_of
from poller.relays.http_settings import HEADER_VALUE, HttpSettings, parsed
from poller.relays.http_signatures import Signer
from poller.relays.messages import TookTooLong, retry_later
from poller.tls import is_loopback

if TYPE_CHECKING:
    import requests
    from azure.core.credentials import AccessToken, TokenCredential


__all__ = ["HttpRelay", "HttpSettings"]

_AGAIN = frozenset({408, 425, 429})
_NO_ROWS_FAULT = frozenset({401, 403, 407})
EARLY = 300
"""Seconds before it expires from which a token is not used any more: it may be on its way for a while, and clocks
differ."""
STEP = "Sign in (az login), or give this app a managed identity that may have tokens for the application."
FORM, IDENTIFIER = "batchItemFailures", "itemIdentifier"
"""How the body of an answer names events that failed, as a handler names rows."""
LARGEST_ANSWER = 1_000_000
"""Bytes of an answer's body that are looked at."""


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


class HttpSessions:
    """One for each thread and process: a session serves one at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._mine = threading.local()
        self._all: list[requests.Session] = []
        logging.getLogger("urllib3.connectionpool").addFilter(_without_addresses)

    def current(self) -> requests.Session:
        """This thread's."""
        found: Any = getattr(self._mine, "found", None)
        if found is None or found[0] != forks.generation():
            found = self._mine.found = forks.generation(), self._made()
        session: requests.Session = found[1]
        return session

    def close(self) -> None:
        """Let go of all of them; the next request opens another."""
        self._mine = threading.local()
        while self._all:
            self._all.pop().close()

    def _made(self) -> requests.Session:
        import requests

        session = requests.Session()
        # The environment is read once, for proxies and certificates. A `.netrc` would replace our own headers.
        found = session.merge_environment_settings(self._url, {}, None, None, None)
        session.proxies, session.verify, session.trust_env = found["proxies"], found["verify"], False
        for scheme in ("http://", "https://"):
            session.mount(scheme, Limited())  # an answer as a whole has the time that a silence has
        # A redirect is not looked at either: requests would read all of its body, however long that is.
        session.get_redirect_target = lambda resp: None  # type: ignore[method-assign]  # noqa: ARG005
        self._all.append(session)
        return session


class _WithoutAddresses(logging.Filter):
    """urllib3 logs paths and queries, where keys stand."""

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        record.msg, record.args = redact(re.sub(r"\?[^\s\"]*", "?***", record.getMessage())), None
        return True


_without_addresses = _WithoutAddresses()


class Bearer:
    """The token for one application. May be used by several threads: at worst two of them ask at once.

    Args:
        resource: the application, such as `api://orders`. identity: who signs in.
    """

    def __init__(self, resource: str, identity: Identity) -> None:
        self._scope = f"{resource}/.default"
        self._identity = identity
        self._kept: tuple[int, TokenCredential, AccessToken] | None = None

    def __str__(self) -> str:
        return str(self._identity)

    def header(self) -> str:
        """The value of `Authorization`, with a token that is valid now. Raises: RetryLater, if none is available."""
        kept = self._kept
        if kept is None or kept[0] != forks.generation() or kept[2].expires_on - EARLY <= time.time():
            kept = self._fetched()
            self._kept = kept
        return f"Bearer {kept[2].token}"

    def doubt(self) -> None:
        """The endpoint did not take it: the next one comes from a credential that has none yet."""
        kept, self._kept = self._kept, None
        if kept is not None:
            entra.renew(kept[1])

    def _fetched(self) -> tuple[int, TokenCredential, AccessToken]:
        try:
            credential = entra.credential_of(self._identity)
            token = credential.get_token(self._scope)
            usable = re.fullmatch(r"[!-~]+", token.token) is not None
        except Exception as error:  # noqa: BLE001 - of any part of the chain; their texts are not shown
            said = re.search(r"AADSTS\d+", str(error))
            why = f"{type(error).__name__}{f', {said[0]}' if said else ''}"
        else:
            if usable:
                return forks.generation(), credential, token
            why = "what was issued is not a token"
        raise retry_later(f"no token for {self._scope.removesuffix('/.default')} as {self._identity}: {why}")


class EndpointRefused(PollerError):
    """The endpoint answered that it does not take a request, and which row is at fault is not known."""


def read_body(answer: requests.Response, until: float) -> bytes:
    """An answer's body, and at most a byte more than is looked at. Raises: TimeoutError, and what requests raises."""
    parts, size = [], 0
    for part in answer.iter_content(65_536):
        parts.append(part)
        size += len(part)
        if size > LARGEST_ANSWER:
            break
        if time.monotonic() > until:
            raise TimeoutError("the answer arrived too slowly")
    return b"".join(parts)


def was_slow(failed: Exception) -> bool:
    """True if the endpoint was connected, and took longer than the timeout for the request or for its answer."""
    import requests
    from urllib3.exceptions import ProtocolError, ReadTimeoutError

    reason = failed.args[0] if failed.args else None
    if isinstance(reason, ProtocolError):
        return any(isinstance(one, TimeoutError) for one in reason.args)
    return isinstance(failed, requests.ReadTimeout | TimeoutError) or isinstance(reason, ReadTimeoutError)


def without_address(failed: Exception) -> str:
    """What an exception of requests says, without the address that its text quotes: of TLS, what is wrong with it."""
    reason: object = failed
    for _ in range(4):  # SSLError: MaxRetryError: SSLError: ssl.SSLError
        if isinstance(reason, ssl.SSLError):
            said = getattr(reason, "verify_message", "") or reason.reason or type(reason).__name__
            return f"TLS failed: {said}"
        reason = getattr(reason, "reason", None) or (reason.args[0] if getattr(reason, "args", ()) else None)  # type: ignore[attr-defined]
    return type(failed).__name__


def failed_events(answer: requests.Response, body: bytes) -> Sequence[tuple[str, str]]:
    """The ids of the events that the body of an answer names as failed, and why. Raises: Refused, if it begins as
    such a list and is none, or cannot be looked at as a whole."""
    if "json" not in answer.headers.get("Content-Type", "").lower():
        return []
    if len(body) > LARGEST_ANSWER:
        raise EndpointRefused("The endpoint answered with more JSON than can be looked at.")
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        if FORM.encode() in body:
            raise EndpointRefused(f"The endpoint's {FORM} cannot be read as JSON in UTF-8.") from None
        return []
    return _named(said[FORM]) if isinstance(said, dict) and FORM in said else []


def _named(listed: object) -> Sequence[tuple[str, str]]:
    """The events that are named, and why. Raises: Refused."""
    found = []
    for one in listed if isinstance(listed, list) else [None]:
        if not isinstance(one, dict) or not isinstance(id_ := one.get(IDENTIFIER), str):
            raise EndpointRefused(f'The endpoint\'s {FORM} is not a list of {{"{IDENTIFIER}": "..."}}.')
        why = one.get("error")
        found.append((id_, why if isinstance(why, str) and why else f"named in {FORM}"))
    return found


def wanted_pause(headers: Mapping[str, str]) -> float | None:
    """The seconds of `Retry-After`, None if it says nothing that can be read."""
    said = headers.get("Retry-After", "").strip()
    if said.isascii() and said.isdigit():
        return float(said[:12])
    with suppress(ValueError, TypeError, OverflowError):
        now = datetime.now(UTC)
        with suppress(ValueError, TypeError, OverflowError):
            now = parsedate_to_datetime(headers.get("Date", ""))
        return (parsedate_to_datetime(said) - now).total_seconds()
    return None
