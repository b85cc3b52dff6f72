"""One request from a socket: its head, then the body that the head declares, within one time and one size for both."""

from __future__ import annotations

import socket
import time

from poller.http.endpoints import LARGEST_REQUEST
from poller.http.messages import Request
from poller.http.parsing import END, Malformed, parse


class Receiver:
    """Reads the one request of a connection.

    Args:
        seconds: that the whole request may take, however it drips.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + seconds
        self._got = b""

    def request(self, remote: str) -> Request | None:
        """The whole request; None of a caller that sends nothing. Raises: Malformed, OSError."""
        head = self._head()
        if head is None:
            return None
        request = parse(head, remote)
        return request.with_body(self._body(len(head), request)) if request.values("content-length") else request

    def _head(self) -> bytes | None:
        """What stands before the body, its end included."""
        while END not in self._got:
            if len(self._got) > LARGEST_REQUEST:
                raise Malformed(431, "the headers are too large")
            if self._got and not b"A" <= self._got[:1] <= b"Z":
                raise Malformed(400, "the request line is malformed")  # TLS, say: its end would never come
            if not self._more() and not self._got:
                return None
        head, end, _ = self._got.partition(END)
        if len(head) + len(end) > LARGEST_REQUEST:
            raise Malformed(431, "the headers are too large")
        return head + end

    def _body(self, begins: int, request: Request) -> bytes:
        """As long as the request declares. What follows it belongs to no request: its sender counts otherwise than this
        server does."""
        ends = begins + request.body_length
        while len(self._got) < ends:
            self._more()
        if len(self._got) > ends:
            raise Malformed(400, "more follows than the length of the body")
        return self._got[begins:]

    def _more(self) -> bool:
        """True if more came; not only where nothing ever did. Raises: Malformed, OSError."""
        self._connection.settimeout(max(0.001, self._deadline - time.monotonic()))
        try:
            more = self._connection.recv(LARGEST_REQUEST)
        except TimeoutError:
            if not self._got:
                return False
            raise Malformed(408, "the request took too long") from None
        if not more and self._got:
            raise Malformed(400, "the request is not whole")
        self._got += more
        return bool(more)
