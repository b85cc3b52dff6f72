"""The HTTP under the SDK: one send is one request, an answer is whole or an error, and no log shows a signature.

Two habits of the SDK are taken away here. It reads a download's body outside its own retry policy, and when that
body breaks off it sends the GET again, up to three times with a second's sleep between, whatever `retry_total` says.
And urllib3 logs the whole address, with the SAS token's signature, at level DEBUG. (`answers` takes two more from
the layers below it.)
"""

from __future__ import annotations

import logging
import socket
from typing import Any

import requests
from azure.core.pipeline.transport._requests_basic import RequestsTransport
from requests.adapters import HTTPAdapter

from poller.model.redact import redact
from poller.stores.blob.answers import POOLS

_SECONDS_IDLE_BEFORE_PROBE = 30


class _Redaction(logging.Filter):
    """Passes every record, redacted. One instance, attached once, to the only logger that is given whole addresses."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), None
        return True


_redaction = _Redaction()


class _KeptAlive(HTTPAdapter):
    """Probes idle connections: a gateway that silently forgets them (Azure's after 4 minutes) costs a read timeout."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
            option = getattr(socket, name, None)  # not every system has these
            if option is not None:
                options.append((socket.IPPROTO_TCP, option, _SECONDS_IDLE_BEFORE_PROBE))
        super().init_poolmanager(*args, socket_options=options, **kwargs)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = POOLS
        return manager


class WholeAnswers(RequestsTransport):
    """Reads every answer to its end before handing it on, so that a truncated one fails here, and once."""

    def __init__(self) -> None:
        session = requests.Session()
        adapter = _KeptAlive(max_retries=0)
        session.mount("http://", adapter)
        session.mount("https://", adapter)
        super().__init__(session=session)
        logging.getLogger("urllib3.connectionpool").addFilter(_redaction)

    def send(self, request: Any, **kwargs: Any) -> Any:
        """See `RequestsTransport.send`."""
        kwargs["stream"] = False
        return super().send(request, **kwargs)
