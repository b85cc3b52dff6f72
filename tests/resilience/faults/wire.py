"""HTTP/1.1 messages on raw sockets: exactly as much of the protocol as a storage client and Azurite speak.

A library would repair what the proxy wants to break (lengths, half answers, resets), so the proxy reads and
writes the bytes itself. Headers keep their order and spelling, because the client signed some of them.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from dataclasses import dataclass

Headers = tuple[tuple[str, str], ...]

_MAX_HEAD = 256 * 1024
_NO_BODY = frozenset({204, 304})


class WireError(Exception):
    """The other side sent something that is not HTTP/1.1, or went away in the middle of a message."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request or response, its body already freed of transfer encoding.

    `start` is the first line without its line end; `chunked` says how the body came, and goes out again.
    """

    start: str
    headers: Headers
    body: bytes = b""
    chunked: bool = False

    def get(self, name: str) -> str | None:
        """The first header of that name, in any case; None without one."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    def replacing(self, name: str, value: str | None) -> Message:
        """The same message with the header's value changed where it stands; None takes it out."""
        wanted = name.lower()
        kept = tuple(
            (key, value if key.lower() == wanted else old)
            for key, old in self.headers
            if key.lower() != wanted or value is not None
        )
        return Message(self.start, tuple((k, v) for k, v in kept if v is not None), self.body, self.chunked)

    @property
    def status(self) -> int:
        """A response's status code."""
        return int(self.start.split(" ", 2)[1])

    @property
    def closes(self) -> bool:
        """Whether the sender ends the connection after this message."""
        connection = (self.get("connection") or "").lower()
        return "close" in connection or (self.start.startswith("HTTP/1.0") or self.start.endswith("HTTP/1.0"))

    def encode(self) -> bytes:
        """The bytes to send."""
        return self.encode_head() + self.encode_body()

    def encode_head(self) -> bytes:
        """First line, headers and the empty line."""
        lines = [self.start, *(f"{key}: {value}" for key, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1")

    def encode_body(self) -> bytes:
        """The body as it goes over the wire: one chunk if it came in chunks."""
        if not self.chunked:
            return self.body
        return (b"%x\r\n%b\r\n" % (len(self.body), self.body) if self.body else b"") + b"0\r\n\r\n"


class Connection:
    """A socket with the buffer that HTTP's lines need. One thread reads it; others may only interrupt it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = bytearray()
        self.resetting = False
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        """Send everything. Raises OSError when the other side is gone, or a reset was asked for."""
        if self.resetting:
            raise ConnectionResetError("this connection is to be reset")
        self._sock.sendall(data)

    def read_request(self) -> Message | None:
        """The next request; None when the client ended the connection between requests. Raises WireError."""
        if not self._fill_until_head(may_end=True):
            return None
        head = self._take_head()
        if (head.get("expect") or "").lower() == "100-continue":
            # The proxy wants the body whatever comes, so it invites it, and the server never sees the header.
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = head.replacing("Expect", None)
        return self._with_body(head, until_end=False)

    def read_response(self, method: str) -> Message:
        """The answer to a request of that method, skipping 1xx. Raises WireError, OSError."""
        while True:
            self._fill_until_head(may_end=False)
            head = self._take_head()
            if head.status >= 200:
                break
        if method == "HEAD" or head.status in _NO_BODY:
            return head
        return self._with_body(head, until_end=True)

    def wait_until_left(self) -> None:
        """Block until the other side ends the connection or somebody interrupts it; drops what it still
        sends.
        """
        with contextlib.suppress(OSError):
            while self._sock.recv(65536):
                pass

    def is_stale(self) -> bool:
        """Whether an idle connection has something to read: a goodbye, as nothing was asked."""
        self._sock.setblocking(False)
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            with contextlib.suppress(OSError):
                self._sock.setblocking(True)
        return True

    def interrupt(self, *, reset: bool) -> None:
        """From another thread: wake the reader with an end of file. With `reset` its close() sends a RST."""
        self.resetting = self.resetting or reset
        with contextlib.suppress(OSError):
            # Only the reading half: shutting both would send an orderly FIN where a reset was asked for.
            self._sock.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)

    def close(self) -> None:
        """Close; with a RST if one was asked for."""
        if self.resetting:
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)  # a forked child may still hold a copy of the socket
        self._sock.close()

    def _with_body(self, head: Message, *, until_end: bool) -> Message:
        if "chunked" in (head.get("transfer-encoding") or "").lower():
            return Message(head.start, head.headers, self._take_chunks(), chunked=True)
        length = head.get("content-length")
        if length is not None:
            return Message(head.start, head.headers, self._take(int(length)))
        if not until_end:
            return head
        while self._fill():
            pass
        body = self._take(len(self._buffer))
        return Message(head.start, (*head.headers, ("Content-Length", str(len(body)))), body)

    def _take_chunks(self) -> bytes:
        body = bytearray()
        while size := int(self._take_line().split(b";")[0], 16):
            body += self._take(size)
            self._take_line()
        while self._take_line():
            pass  # trailers: nobody here reads them
        return bytes(body)

    def _take_head(self) -> Message:
        end = self._buffer.index(b"\r\n\r\n")
        start, *lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        if start.count(" ") < 2 and not start.startswith("HTTP/"):
            raise WireError(f"not a request line: {start[:80]!r}")
        pairs = (line.partition(":") for line in lines)
        return Message(start, tuple((key, value.strip()) for key, _, value in pairs))

    def _fill_until_head(self, *, may_end: bool) -> bool:
        searched = 0
        while self._buffer.find(b"\r\n\r\n", max(0, searched - 3)) < 0:
            searched = len(self._buffer)
            if searched > _MAX_HEAD:
                raise WireError("the head of the message does not end")
            if not self._fill():
                if may_end and not self._buffer:
                    return False
                raise WireError("the connection ended inside the head of a message")
        return True

    def _fill(self) -> bool:
        data = self._sock.recv(65536)
        self._buffer += data
        return bool(data)

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not self._fill():
                raise WireError(f"the connection ended {size - len(self._buffer)} bytes before the end of a body")
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _take_line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if not self._fill():
                raise WireError("the connection ended inside a line")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line
