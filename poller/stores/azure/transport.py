"""HTTP under the SDK: one send is one request, an answer is whole or an error, and no error or log shows a secret.

This module changes six things in the layers below. The SDK reads a download's body outside its own retry policy, and
when that body breaks off it sends the GET again, up to three times with a second's sleep between, whatever
`retry_total` says. urllib3 logs the whole address, with the SAS token's signature, at level DEBUG. A socket's timeout
counts for each receive, so that an answer that arrives byte by byte can delay a write without limit. http.client treats
the end of a connection as the end of the headers, so that an answer that broke off there looks like a success without
an ETag, or with half of one. And requests reads the environment for every request, a quarter of the time that one
takes, where a `.netrc` that names the host replaces the signature. And urllib3 keeps 10 connections, however many were
needed at once.
"""

from __future__ import annotations

import http.client
import io
import logging
import socket
import time
from typing import Any

import requests
from azure.core.pipeline.transport._requests_basic import RequestsTransport
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from poller.model.redact import redact
from poller.ports import DEFAULT_TIMEOUT, Timeout

SLOWEST = 100_000
"""Bytes per second: an answer may take the read timeout, and one second more for this many bytes of it."""
_SECONDS_IDLE_BEFORE_PROBE = 30
_KEPT = 1_000
"""Connections that rest at most: as many as were needed at once, up to the most ticks at once of a process. Beyond its
own 10 urllib3 closes each after its request, with a warning."""


def seconds(timeout: Timeout | None) -> dict[str, Any]:
    """The keywords with `timeout` for one call: `connect` once, `read` for each receive."""
    chosen = timeout or DEFAULT_TIMEOUT
    return {"connection_timeout": chosen.connect, "read_timeout": chosen.read}


# --- answers: under one time limit as a whole, and with complete headers


class _Received(io.RawIOBase):
    """A socket's data within the answer's time limit. Raises TimeoutError after it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._limit = sock.gettimeout()
        self._began = time.monotonic()
        self._bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._limit is None:
            return self._raw.readinto(buffer) or 0
        left = self._began + self._limit + self._bytes / SLOWEST - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer arrived too slowly")
        self._sock.settimeout(min(left, self._limit))
        try:
            count = self._raw.readinto(buffer) or 0
        finally:
            self._sock.settimeout(self._limit)  # the connection's next request is sent under it
        self._bytes += count
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Lines(io.BufferedReader):
    """Remembers the last line that was read."""

    last = b""

    def readline(self, size: int | None = -1, /) -> bytes:
        self.last = super().readline(size)
        return self.last


class _Opened:
    """The part of a socket that `HTTPResponse` uses."""

    def __init__(self, sock: socket.socket) -> None:
        self.lines = _Lines(_Received(sock))

    def makefile(self, _mode: str) -> io.BufferedReader:
        return self.lines


class _Answer(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        self._opened = _Opened(sock)
        super().__init__(self._opened, *args, **kwargs)  # type: ignore[arg-type]

    def begin(self) -> None:
        """Read status and headers. Raises, beside the usual: RemoteDisconnected (they broke off)."""
        super().begin()
        if self._opened.lines.last not in (b"\r\n", b"\n"):
            raise http.client.RemoteDisconnected("the connection ended inside an answer's headers")


class _Connection(HTTPConnection):
    response_class = _Answer


class _SecureConnection(HTTPSConnection):
    response_class = _Answer


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


_POOLS = {"http": _Pool, "https": _SecurePool}
"""For `urllib3.PoolManager.pool_classes_by_scheme`."""


# --- requests


class _Redaction(logging.Filter):
    """Passes every record, redacted. One instance, attached once, to the only logger that gets whole addresses."""

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
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def close(self) -> None:
        """Close the connections now. urllib3 leaves that to whoever frees the last reference to a pool, and after an
        error answer that is the garbage collector."""
        for manager in (self.poolmanager, *self.proxy_manager.values()):
            for key in manager.pools.keys():  # noqa: SIM118 - it is no mapping that can be iterated
                pool = manager.pools.get(key)
                if pool is not None:
                    pool.close()
        super().close()

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager


class WholeAnswers(RequestsTransport):
    """Reads every answer to its end before handing it on, so that a truncated one fails here, and once."""

    def __init__(self) -> None:
        session = requests.Session()
        adapter = _KeptAlive(max_retries=0, pool_maxsize=_KEPT)
        session.mount("http://", adapter)
        session.mount("https://", adapter)
        super().__init__(session=session)
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
