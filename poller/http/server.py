"""A small server for the endpoints, beside pollers at work: one request per connection, and a limit for everything.

Threads, sockets and bytes are bounded, whatever callers do: at most 32 connections are served at a time, each by one
thread, for 10 s and 8 kB of request, its body included; further ones wait in the operating system's queue, if they
cost us nothing. While all places are taken and others wait, callers whose request is not there after half a second are
ended: a hundred that drip must not keep a load balancer from its answer.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Self

from poller.http.addresses import Address
from poller.http.endpoints import LARGEST_REQUEST
from poller.http.messages import Answer, Request, refusal
from poller.http.parsing import END, Malformed, parse
from poller.observability.events import log_failure

WAITING = 128
"""Connections that the operating system keeps until they are served."""
_PLACE_EVERY = 0.1
"""Seconds after which a loop that waits for a place looks whether another does too."""


@dataclass(frozen=True, slots=True)
class CallerLimits:
    """What callers may use.

    Attributes:
        seconds: that a request may take to arrive, and its answer to be taken. connections: served at a time.
        lingering: seconds, and bytes, for which a refused caller may go on sending until it hears so.
        undisturbed: seconds for which a request may arrive although others wait for the place.
    """

    seconds: float = 10.0
    connections: int = 32
    lingering: float = 1.0
    lingering_bytes: int = 65_536
    undisturbed: float = 0.5


class HttpServer:
    """Serves until it is closed. What goes wrong with a caller ends that caller's connection and nothing else."""

    def __init__(
        self, answer: Callable[[Request], Answer], address: Address, limits: CallerLimits | None = None
    ) -> None:
        """Raises: ConfigError, where nothing can listen at the address."""
        self._answer = answer
        self._limits = limits or CallerLimits()
        self._address = address
        self._listener = address.listen(WAITING)
        self._listener.setblocking(False)
        self._places = threading.Semaphore(self._limits.connections)
        self._stopping = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._lock = threading.Lock()
        self._serving: dict[threading.Thread, socket.socket] = {}
        self._arriving: dict[socket.socket, float] = {}
        """Callers whose request is not there yet, the oldest first, with since when."""
        self._lingering: dict[socket.socket, float] = {}
        """Callers who have their answer and have not hung up yet, with since when."""
        self._loop = threading.Thread(target=self._accept_all, name="poller-http", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens at, also where it was asked for any free one."""
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        """Where the health can be asked."""
        return f"{self._base}/api/health"

    @property
    def dashboard_url(self) -> str:
        """The URL of the page for a browser."""
        return f"{self._base}/api/dashboard"

    @property
    def _base(self) -> str:
        host = f"[{self._address.host}]" if ":" in self._address.host else self._address.host
        return f"http://{host}:{self.port}"

    def __enter__(self) -> Self:
        self._loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, grace: float = 2.0) -> None:
        """Take no more callers, read from none, give those that are being answered `grace` seconds, and end all."""
        self._stopping.set()
        self._places.release()  # callers that wait for a place see that it is over
        with contextlib.suppress(OSError):
            self._wake.send(b".")
        deadline = time.monotonic() + grace
        if self._loop.ident is not None:
            self._loop.join(grace)
        for one in (self._listener, self._wake, self._woken):
            one.close()
        with self._lock:
            serving = dict(self._serving)
        self._end(serving, socket.SHUT_RD, deadline)
        self._end(serving, socket.SHUT_RDWR, time.monotonic() + 0.2)

    @staticmethod
    def _end(serving: Mapping[threading.Thread, socket.socket], how: int, deadline: float) -> None:
        for connection in serving.values():
            with contextlib.suppress(OSError):
                connection.shutdown(how)
        for thread in serving:
            thread.join(max(0.0, deadline - time.monotonic()))

    # --- callers come

    def _accept_all(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                while not self._places.acquire(timeout=_PLACE_EVERY):  # before a caller is taken from the queue
                    if selector.select(0) and not self._stopping.is_set():
                        self._make_room()
                taken = False
                while not (taken or self._stopping.is_set()):
                    selector.select()
                    taken = not self._stopping.is_set() and self._accept()
                if not taken:
                    return

    def _make_room(self) -> None:
        """A caller waits for a place: a connection whose request takes too long, or whose answer was sent, is read from
        no more, and its thread ends it."""
        now = time.monotonic()
        with self._lock:
            late = [one for one, since in self._arriving.items() if since <= now - self._limits.undisturbed]
            for connection in (*late, *(one for one, since in self._lingering.items() if since <= now - _PLACE_EVERY)):
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)

    def _accept(self) -> bool:
        """True if a caller was taken, and has the place."""
        try:
            connection, remote = self._listener.accept()
        except BlockingIOError:
            return False  # it has gone away
        except OSError:  # too many open files, say: the queue stays readable
            self._stopping.wait(0.2)
            return False
        thread = threading.Thread(
            target=self._serve, args=(connection, str(remote[0])), name="poller-http-caller", daemon=True
        )
        with self._lock:
            self._serving[thread] = connection
        try:
            thread.start()
        except RuntimeError:  # no more threads
            with self._lock:
                self._serving.pop(thread, None)
            connection.close()
            self._stopping.wait(0.2)
            return False
        return True

    # --- one caller

    def _serve(self, connection: socket.socket, remote: str) -> None:
        try:
            connection.settimeout(self._limits.seconds)
            with connection:
                self._converse(connection, remote)
        except OSError:
            pass  # it has gone away, or takes its answer too slowly
        except Exception as error:  # noqa: BLE001 - one caller's request ends nothing else
            log_failure("http", "A caller could not be served.", error)
        finally:
            with self._lock:
                self._serving.pop(threading.current_thread(), None)
            self._places.release()

    def _converse(self, connection: socket.socket, remote: str) -> None:
        """One request and its answer. Raises: OSError."""
        try:
            request = self._received(connection, remote)
            if request is None:
                return
            given = self._answer(request)
        except Malformed as error:
            given = refusal(error.status, error.why)
        connection.settimeout(self._limits.seconds)
        connection.sendall(_written(given))
        self._linger(connection)

    def _received(self, connection: socket.socket, remote: str) -> Request | None:
        """Raises: Malformed, OSError."""
        with self._lock:
            self._arriving[connection] = time.monotonic()
        try:
            return _Receiver(connection, self._limits.seconds).request(remote)
        finally:
            with self._lock:
                del self._arriving[connection]

    def _linger(self, connection: socket.socket) -> None:
        """Read on for a while: closing with bytes unread would tear the answer out of the caller's hands."""
        connection.shutdown(socket.SHUT_WR)
        with self._lock:
            self._lingering[connection] = time.monotonic()
        try:
            self._read_on(connection)
        finally:
            with self._lock:
                del self._lingering[connection]

    def _read_on(self, connection: socket.socket) -> None:
        deadline, left = time.monotonic() + self._limits.lingering, self._limits.lingering_bytes
        while left > 0 and (seconds := deadline - time.monotonic()) > 0:
            connection.settimeout(seconds)
            more = connection.recv(min(left, LARGEST_REQUEST))
            if not more:
                return
            left -= len(more)


# --- its request


class _Receiver:
    """Reads the one request of a connection: its head, then the body that the head declares, within one time and one
    size for both.

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


# --- its answer


def _written(given: Answer) -> bytes:
    lines = [f"HTTP/1.1 {given.status} {HTTPStatus(given.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in given.headers]
    lines += [f"Content-Length: {given.length}", "Connection: close", f"Date: {formatdate(usegmt=True)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + given.body
