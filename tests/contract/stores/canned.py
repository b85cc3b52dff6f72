"""A server that gives prepared answers and counts what it was asked: answers that no service gives on demand."""

from __future__ import annotations

import socket
import ssl
import threading
from types import TracebackType
from typing import Self

from tests.support.azurite import ACCOUNT, KEY

ERROR = """<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>"""


def answer(status: int, *, code: str = "", body: bytes = b"", claim: int | None = None, **headers: str) -> bytes:
    """One HTTP answer. `code`: the service's error code; `claim`: a Content-Length that is not the body's."""
    if code and not body:
        body = ERROR.format(code=code, message="sig=SIGNATURE was refused").encode()
    lines = [f"HTTP/1.1 {status} Canned", f"Content-Length: {len(body) if claim is None else claim}"]
    lines += ["Date: Tue, 07 Apr 2026 01:23:45 GMT", "Content-Type: application/xml"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if code:
        lines.append(f"x-ms-error-code: {code}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class Canned:
    """Gives its answers one after the other, the last one for ever; `None` is silence, and an answer that lacks an end
    also ends its connection. `tls`: what to speak it over. `asked`: method and target."""

    def __init__(self, *answers: bytes | None, tls: ssl.SSLContext | None = None) -> None:
        self._answers = list(answers)
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.asked: list[tuple[str, str]] = []
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/{ACCOUNT}"

    @property
    def connection_string(self) -> str:
        return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={self.endpoint};"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            connection = self._tls.wrap_socket(connection, server_side=True) if self._tls else connection
            with connection, connection.makefile("rb") as stream:
                while self._take(stream.readline(), stream):
                    given = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                    if given is None:
                        stream.read()  # until the other side gives up
                        return
                    connection.sendall(given)
                    if b"Content-Length: 999999" in given or b"\r\n\r\n" not in given:
                        return
        except (OSError, ValueError):
            return

    def _take(self, request_line: bytes, stream: object) -> bool:
        readline, read = stream.readline, stream.read  # type: ignore[attr-defined]
        if not request_line.strip():
            return False
        length = 0
        while (header := readline().strip()) != b"":
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        read(length)
        method, target, _ = request_line.decode().split(" ", 2)
        self.asked.append((method, target))
        return True
