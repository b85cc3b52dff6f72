"""A real HTTP server that keeps what it gets and answers as it was told; and what a call of a relay came to."""

from __future__ import annotations

import contextlib
import gzip
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from poller import Batch, Handler
from poller.handler import CallResult, ThreadExecutor
from tests.support.certificates import Certificates


@dataclass
class Answer:
    """`status` 0: the connection is closed without one; -1: none comes until the endpoint ends. `drips`: what is sent
    byte by byte, without an end."""

    status: int = 204
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    drips: bytes = b""

    @classmethod
    def failed(cls, *ids: str, **more: str) -> Answer:
        """200, with events that failed."""
        body = {"batchItemFailures": [{"itemIdentifier": one, **more} for one in ids]}
        return cls(200, {"Content-Type": "application/json"}, json.dumps(body).encode())


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any
    raw: bytes = b""
    """The body, unpacked."""

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.body if isinstance(self.body, list) else [self.body]

    @property
    def rows(self) -> list[Any]:
        return [event["data"] for event in self.events]


class Endpoint:
    """`answers`: given one after the other, then 204. `hangs`: which requests get none. `requests`: what came."""

    def __init__(self, tls: Certificates | None = None) -> None:
        self.answers: list[Answer] = []
        self.hangs: Callable[[Request], bool] = lambda _: False
        self.requests: list[Request] = []
        self.over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.server, tls.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}/rows"

    @contextmanager
    def serving(self) -> Iterator[Endpoint]:
        self._thread.start()
        try:
            yield self
        finally:
            self.over.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(10)

    def _handler(endpoint) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                raw = gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
                request = Request(self.path, dict(self.headers), json.loads(raw), raw)
                endpoint.requests.append(request)
                answer = endpoint.answers.pop(0) if endpoint.answers else Answer()
                if endpoint.hangs(request):
                    answer = Answer(-1)
                if answer.drips:
                    self._drip(answer.drips)
                if answer.status == -1:
                    endpoint.over.wait(60)
                if answer.status <= 0:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if answer.status != 204:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def _drip(self, begin: bytes) -> None:
                with contextlib.suppress(OSError):
                    self.connection.sendall(begin)
                    while not endpoint.over.wait(0.01):
                        self.connection.sendall(b"x")

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def called(handler: Handler, batch: Batch) -> CallResult:
    """What a call comes to; an exception counts as the call's."""
    try:
        return ThreadExecutor().run(handler, batch, batch._lease, 60)
    except Exception as error:  # noqa: BLE001 - as a tick does
        return CallResult.of_error(error)
