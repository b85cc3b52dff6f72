"""Answers of HTTP servers: under one time limit as a whole, and with complete headers; for a session of requests.

A socket's timeout counts for each receive, so that an answer that arrives byte by byte can delay its caller without
limit. http.client treats the end of a connection as the end of the headers, so that an answer that broke off there
looks like a success without an ETag, or with half of one.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

SLOWEST = 100_000
"""Bytes per second: an answer may take the read timeout, and one second more for this many bytes of it."""
_SECONDS_IDLE_BEFORE_PROBE = 30


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


class Limited(HTTPAdapter):
    """Limits each answer as a whole, and probes idle connections: a gateway that silently forgets them (Azure's after 4
    minutes) costs a read timeout."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
            option = getattr(socket, name, None)  # not every system has these
            if option is not None:
                options.append((socket.IPPROTO_TCP, option, _SECONDS_IDLE_BEFORE_PROBE))
        super().init_poolmanager(*args, socket_options=options, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def close(self) -> None:
        """Close the connections now. urllib3 leaves that to the code that frees the last reference to a pool, and after
        an error answer that is the garbage collector."""
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
