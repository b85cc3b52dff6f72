"""Answers as http.client reads them: under one time limit as a whole, and with a whole head or not at all.

Two habits of the layers below are taken away here. A socket's timeout counts for each receive, so that an answer that
comes byte by byte may hold a write up for as long as it likes. And http.client takes the end of a connection for the
end of the headers, so that an answer that broke off there looks like a success without an ETag, or with half of one.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

SLOWEST = 100_000
"""Bytes a second: an answer may take the read timeout, and one second more for every so many bytes of it."""


class _Received(io.RawIOBase):
    """What comes out of a socket, while the answer's time lasts. Raises TimeoutError when it is over."""

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
            raise TimeoutError("the answer came too slowly")
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
    """As much of a socket as `HTTPResponse` asks for."""

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


POOLS = {"http": _Pool, "https": _SecurePool}
"""For `urllib3.PoolManager.pool_classes_by_scheme`."""
