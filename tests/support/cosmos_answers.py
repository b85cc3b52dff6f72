"""A server that answers what Azure Cosmos DB does and `cosmosdb-server` never: 304, 429, 449, sub-statuses, accounts
with several write regions. It is pretended: its account and container are constants, and each answer about an item is
prepared by the test, after the service's documentation.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

ACCOUNT = {
    "id": "shop",
    "writableLocations": [{"name": "West Europe", "databaseAccountEndpoint": "https://shop.example/"}],
    "readableLocations": [{"name": "West Europe", "databaseAccountEndpoint": "https://shop.example/"}],
    "enableMultipleWriteLocations": False,
    "userConsistencyPolicy": {"defaultConsistencyLevel": "Session"},
}
CONTAINER = {
    "id": "db-state",
    "_rid": "gAABAIAAAAE=",
    "partitionKey": {"paths": ["/app"], "kind": "Hash", "version": 2},
}


@dataclass(frozen=True)
class Said:
    """One answer. `ours`: with the header that each answer of the service has."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    ours: bool = True


class CosmosAnswers:
    """Gives its answers about items one after the other, the last one for ever. `asked`: method, path, headers of each
    request about an item."""

    def __init__(self, *answers: Said, account: Mapping[str, Any] = ACCOUNT, container: Said | None = None) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self._answers = list(answers)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(account, container or Said(200, CONTAINER)))
        self._server.daemon_threads = True

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _next(self, method: str, path: str, headers: Mapping[str, str]) -> Said:
        self.asked.append((method, path, dict(headers)))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def _handler(self, account: Mapping[str, Any], container: Said) -> type[BaseHTTPRequestHandler]:
        following = self._next

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.path.split("?")[0].strip("/")
                if not path:
                    said = Said(200, account)
                elif "/docs" not in path:
                    said = container
                else:
                    said = following(self.command, path, dict(self.headers.items()))
                body = b"" if said.body is None else json.dumps(said.body).encode()
                self.send_response(said.status)
                if said.ours:
                    self.send_header("x-ms-activity-id", "5bd1c0b4")
                for name, value in {"Content-Length": str(len(body)), **said.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - as http.server looks for them

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Nothing is printed."""

        return Handler
