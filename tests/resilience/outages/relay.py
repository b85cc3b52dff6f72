"""A TCP relay in front of a database that can be taken away and given back, on the same port."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from tests.resilience.faults.listener import Listener
from tests.resilience.faults.wire import Connection


class Relay:
    """Passes bytes on to 127.0.0.1:`port`. `hang`: connections stay up and nothing comes through; `down`: reset."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._flowing = threading.Event()
        self._flowing.set()
        self._listener = Listener(self._serve, "relay")
        self._listener.up()
        self.connections = 0

    @property
    def port(self) -> int:
        return self._listener.port

    def down(self) -> None:
        self._listener.down()

    def up(self) -> None:
        self._listener.up()

    def lead_to(self, port: int) -> None:
        """From now on to another port of 127.0.0.1; connections to the one before are reset."""
        self.down()
        self._upstream = port
        self.up()

    def hang(self) -> None:
        """From now on what is sent, by either side, waits."""
        self._flowing.clear()

    def flow(self) -> None:
        """Undo `hang`."""
        self._flowing.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._flowing.set()
        self._listener.close()

    def _serve(self, connection: Connection) -> None:
        client = connection._sock
        try:
            server = socket.create_connection(("127.0.0.1", self._upstream), timeout=5)
        except OSError:
            connection.resetting = True
            return
        server.settimeout(None)
        self.connections += 1
        back = threading.Thread(target=self._pump, args=(server, client), name="relay-back", daemon=True)
        back.start()
        self._pump(client, server)
        back.join(10)
        server.close()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
