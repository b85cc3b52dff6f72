"""HTTP under the SDK: one send is one request, an answer is whole or an error, and no error or log shows a secret.

Beside what `poller.answers` does, this module changes four things in the layers below. The SDK reads a download's body
outside its own retry policy, and when that body breaks off it sends the GET again, up to three times with a second's
sleep between, whatever `retry_total` says. urllib3 logs the whole address, with the SAS token's signature, at level
DEBUG. And requests reads the environment for every request, a quarter of the time that one takes, if a `.netrc` that
names the host replaces the signature. And urllib3 keeps 10 connections, however many were needed at once.
"""

from __future__ import annotations

import logging
from typing import Any

import requests
from azure.core.pipeline.transport._requests_basic import RequestsTransport

from poller.answers import Limited
from poller.model.redact import redact
from poller.ports import DEFAULT_TIMEOUT, Timeout

_KEPT = 1_000
"""Connections that rest at most: as many as were needed at once, up to the most ticks at once of a process. Beyond its
own 10 urllib3 closes each after its request, with a warning."""


def seconds(timeout: Timeout | None) -> dict[str, Any]:
    """The keywords with `timeout` for one call: `connect` once, `read` for each receive."""
    chosen = timeout or DEFAULT_TIMEOUT
    return {"connection_timeout": chosen.connect, "read_timeout": chosen.read}


class _Redaction(logging.Filter):
    """Passes every record, redacted. One instance, attached once, to the only logger that gets whole addresses."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), None
        return True


_redaction = _Redaction()


class WholeAnswers(RequestsTransport):
    """Reads every answer to its end before handing it on, so that a truncated one fails here, and once.

    Args:
        limits: of a call that names none. The SDK's clients hand their own to no transport that they are given.
    """

    def __init__(self, limits: Timeout = DEFAULT_TIMEOUT) -> None:
        session = requests.Session()
        adapter = Limited(max_retries=0, pool_maxsize=_KEPT)
        session.mount("http://", adapter)
        session.mount("https://", adapter)
        super().__init__(session=session, **seconds(limits))
        self._verify: bool | str = True
        logging.getLogger("urllib3.connectionpool").addFilter(_redaction)

    def send(self, request: Any, **kwargs: Any) -> Any:
        """See `RequestsTransport.send`."""
        if self.session is not None and self.session.trust_env:
            self._read_environment(self.session, request.url)
        kwargs["stream"] = False
        return super().send(request, connection_verify=self._verify, **kwargs)

    def _read_environment(self, session: requests.Session, url: str) -> None:
        """Keep proxies and CA bundle for this client's only host. What several threads find at once is the same."""
        found = session.merge_environment_settings(url, {}, False, None, None)
        self._verify = found["verify"]
        session.proxies = found["proxies"]
        session.trust_env = False
