"""A server that keeps what exporters send to it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


@dataclass
class Collector:
    """Where it listens, and the bodies that came, by their path."""

    url: str
    bodies: dict[str, list[bytes]] = field(default_factory=dict)

    def got(self, path: str) -> bytes:
        """All that came there."""
        return b"".join(self.bodies.get(path, []))


class _Keeper(BaseHTTPRequestHandler):
    collector: ClassVar[Collector]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.collector.bodies.setdefault(self.path, []).append(body)
        answer = b'{"itemsReceived": 1, "itemsAccepted": 1, "errors": []}' if "track" in self.path else b""
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class calls it
        pass


@contextmanager
def collector() -> Iterator[Collector]:
    """One on a free port of this machine."""

    class Keeper(_Keeper):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Keeper) as server:
        Keeper.collector = found = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
