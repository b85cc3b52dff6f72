"""A proxy that counts bytes: whatever is said to a server and by it."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class CountingProxy:
    """Listens on a free port of 127.0.0.1 and passes everything on to another one.

    Attributes:
        sent, received: bytes that clients sent, and that they received.
    """

    def __init__(self, port: int) -> None:
        self.sent = self.received = 0
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def take(self) -> tuple[int, int]:
        """What was sent and received since the last call."""
        found, self.sent, self.received = (self.sent, self.received), 0, 0
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            self._open += [client, server]
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, sent: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if sent:
                    self.sent += len(data)
                else:
                    self.received += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
