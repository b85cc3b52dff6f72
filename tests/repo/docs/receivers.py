"""What recipes send to: a web server and a mail server of a few lines, which keep what they get."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Web:
    """Attributes: requests: path, headers and body of each. refuse: how many of the next ones get `refusal`, although
    they are kept: as if the answer had been lost."""

    url: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    refuse: int = 0
    refusal: int = 503


@dataclass
class Mail:
    """Attributes: mails: what was taken. refuse: how many of the next ones are refused. lose: how many of the next ones
    are taken, and the connection ends before the answer."""

    port: int = 0
    mails: list[Message] = field(default_factory=list)
    refuse: int = 0
    lose: int = 0


@contextlib.contextmanager
def web(answer: Callable[[dict[str, str], bytes], bytes] = lambda *_: b"") -> Iterator[Web]:
    """`answer`: what a request of these headers and this body gets as JSON."""
    kept = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            kept.requests.append((self.path, headers, body))
            said = answer(headers, body)
            self.send_response(kept.refusal if kept.refuse else 200)
            kept.refuse = max(0, kept.refuse - 1)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            pass

    with _serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        kept.url = f"http://127.0.0.1:{port}"
        yield kept


@contextlib.contextmanager
def mail() -> Iterator[Mail]:
    kept = Mail()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            for line in self.rfile:
                word = line.strip().upper()
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    body = b"".join(iter(self.rfile.readline, b".\r\n"))
                    if kept.refuse:
                        kept.refuse -= 1
                        self.wfile.write(b"554 not now\r\n")
                        continue
                    kept.mails.append(message_from_bytes(body))
                    if kept.lose:
                        kept.lose -= 1
                        return
                self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 fine\r\n")

    with _serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as port:
        kept.port = port
        yield kept


@contextlib.contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
