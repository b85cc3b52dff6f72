"""A listening port that can refuse connections for a while without losing its number, with a thread per
connection.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable

from tests.resilience.faults.wire import Connection


class Listener:
    """Listens on a free port of 127.0.0.1 and calls `serve` for each connection, in a daemon thread of its
    own.

    `serve` returns when the connection is done, or ended by `down` or `close`; the connection is closed for
    it.
    """

    def __init__(self, serve: Callable[[Connection], None], name: str) -> None:
        self._serve = serve
        self._name = name
        self._lock = threading.Lock()
        self._live: dict[Connection, threading.Thread] = {}
        self._socket = _bound(0)
        self.port: int = self._socket.getsockname()[1]
        self._accepting: threading.Thread | None = None
        self._wake: socket.socket | None = None

    def up(self) -> None:
        """Accept connections. Does nothing where it already does."""
        if self._accepting is None:
            self._socket.listen(128)
            woken, self._wake = socket.socketpair()
            self._accepting = threading.Thread(
                target=self._accept, args=(self._socket, woken), name=f"{self._name}-accept", daemon=True
            )
            self._accepting.start()

    def down(self) -> None:
        """Reset all connections and refuse new ones until `up`. The port stays bound, so that nobody else
        gets it.
        """
        if self._accepting is not None:
            self._stop_accepting()
            self._socket = _bound(self.port)
        self._interrupt(reset=True)

    def close(self, timeout: float = 10.0) -> None:
        """End everything and wait for the threads. Raises AssertionError when one of them does not end."""
        if self._accepting is not None:
            self._stop_accepting()
        self._socket.close()
        threads = self._interrupt(reset=False)
        for thread in threads:
            thread.join(timeout)
        stuck = [thread.name for thread in threads if thread.is_alive()]
        assert not stuck, f"threads of the proxy do not end: {stuck}"

    def _interrupt(self, *, reset: bool) -> list[threading.Thread]:
        with self._lock:
            live = dict(self._live)
        for connection in live:
            connection.interrupt(reset=reset)
        return list(live.values())

    def _stop_accepting(self) -> None:
        assert self._accepting is not None
        assert self._wake is not None
        self._wake.close()
        self._accepting.join()
        self._accepting = None

    def _accept(self, listening: socket.socket, woken: socket.socket) -> None:
        with selectors.DefaultSelector() as ready, listening, woken:
            ready.register(listening, selectors.EVENT_READ)
            ready.register(woken, selectors.EVENT_READ)
            listening.setblocking(False)
            while all(key.fileobj is not woken for key, _ in ready.select()):
                try:
                    accepted, _ = listening.accept()
                except OSError:
                    continue  # the client was gone before we got to it
                accepted.setblocking(True)
                self._start(Connection(accepted))

    def _start(self, connection: Connection) -> None:
        thread = threading.Thread(target=self._run, args=(connection,), name=f"{self._name}-connection", daemon=True)
        with self._lock:
            self._live[connection] = thread
        thread.start()

    def _run(self, connection: Connection) -> None:
        try:
            self._serve(connection)
        finally:
            connection.close()
            with self._lock:
                del self._live[connection]


def _bound(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock
