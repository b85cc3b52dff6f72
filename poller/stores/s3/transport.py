"""HTTP under boto3: one call is one request, an answer is whole or an error, and no log shows a secret.

boto3 takes its timeouts once per client, and limits no answer as a whole. So the client's own HTTP session is not used:
botocore asks the handlers of the event `before-send` first, and takes the answer that one returns. At level DEBUG
botocore logs each document, each signature and the session token: its loggers pass warnings only, unless the
application has chosen a level for them.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any

import requests
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from poller.answers import Limited
from poller.ports import DEFAULT_TIMEOUT, Timeout
from poller.stores.s3.errors import BrokenCredentialError

_KEPT = 1_000
"""Connections that rest at most, as in the transport of blobs."""
_LOGGERS = ("botocore", "boto3")


class _Body(io.BytesIO):
    """An answer's body, as botocore reads it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        """The rest of it, at once."""
        yield self.read()


class OneRequest:
    """Sends what botocore has signed, once, over connections that it keeps. Safe to use from several threads.

    Args:
        authorities: the file of certificate authorities that boto3's configuration names; None for those of the
            environment (`REQUESTS_CA_BUNDLE`), or of `certifi`.
    """

    def __init__(self, authorities: str | None) -> None:
        self._session = requests.Session()
        self._adapter = Limited(max_retries=0, pool_maxsize=_KEPT)
        self._authorities = authorities
        self._settings: dict[str, Any] | None = None
        self._chosen = local()
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.WARNING)

    @contextmanager
    def within(self, timeout: Timeout | None) -> Iterator[None]:
        """Limit the requests that this thread makes in the block."""
        self._chosen.timeout = timeout
        try:
            yield
        finally:
            self._chosen.timeout = None

    def __call__(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        """The answer to a request of botocore, as a handler of `before-send`. Raises: requests.RequestException,
        BrokenCredentialError."""
        timeout: Timeout = getattr(self._chosen, "timeout", None) or DEFAULT_TIMEOUT
        prepared = requests.PreparedRequest()
        prepared.method, prepared.url, prepared.body = request.method, request.url, request.body
        prepared.headers = requests.structures.CaseInsensitiveDict(
            {name: value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()}
        )
        if any("\n" in value or "\r" in value for value in prepared.headers.values()):
            raise BrokenCredentialError
        answer = self._adapter.send(
            prepared, timeout=(timeout.connect, timeout.read), stream=False, **self._environment(request.url)
        )
        body = answer.content  # read to its end: one that broke off is an error here
        return AWSResponse(request.url, answer.status_code, answer.headers, _Body(body))

    def close(self) -> None:
        """Close the connections."""
        self._adapter.close()
        self._session.close()

    def _environment(self, url: str) -> dict[str, Any]:
        """Proxies and certificate authorities for this client's only host. What several threads find at once is the
        same."""
        if self._settings is None:
            found = self._session.merge_environment_settings(url, {}, False, self._authorities, None)
            self._settings = {"proxies": found["proxies"], "verify": found["verify"]}
        return self._settings
