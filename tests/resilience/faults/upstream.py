"""The proxy's side towards the server."""

from __future__ import annotations

import contextlib
import socket
import time

from tests.resilience.faults.wire import Connection, Message

_IDLE_LIMIT = 2.0  # seconds; Azurite closes a connection that was idle for 5


class Upstream:
    """The proxy's own connection to the server, kept alive for one client connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._connection: Connection | None = None
        self._used = 0.0

    def exchange(self, message: Message) -> Message:
        """Send a request and read its answer. Raises OSError, WireError; never sends the request a second
        time.
        """
        idle = time.monotonic() - self._used
        if self._connection is not None and (idle > _IDLE_LIMIT or self._connection.is_stale()):
            self.close()
        if self._connection is None:
            sock = socket.create_connection(self._address, timeout=5)
            sock.settimeout(None)
            self._connection = Connection(sock)
        self._connection.send(message.encode())
        answer = self._connection.read_response(message.start.split(" ", 1)[0])
        self._used = time.monotonic()
        if answer.closes:
            self.close()
        return answer

    def interrupt(self) -> None:
        """From another thread: end a wait for an answer."""
        if (connection := self._connection) is not None:
            connection.interrupt(reset=False)

    def close(self) -> None:
        """Close; the next exchange opens anew."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None
