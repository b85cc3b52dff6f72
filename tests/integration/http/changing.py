"""A shop whose page may change something: its pollers, its server, and requests as the page's script sends them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from pathlib import Path
from typing import Any

from poller import App, load_app
from poller.admin import QuarantineOutput
from poller.http import HttpServer, serve
from poller.ports import Found
from poller.runtime import SystemRuntime
from tests.support.http import Received, request, send, session_of
from tests.support.services import wait_until
from tests.support.shop_folder import write_shop

KEY = "the-key-for-changes-of-the-shop"
SECRET = "ana@example.com"
"""Stands in a row, and in what the handler says of it."""
HANDLERS = f"""
hook = None

def on_orders(batch):
    if hook is not None:
        hook(batch)
    for row in batch if not batch.replay else ():
        batch.reject(row, "{SECRET} is unknown")
"""


@dataclass
class Shop:
    """A folder with one order, the application as this process has it, and its server."""

    folder: Path
    app: App
    server: HttpServer
    token: str | None = None

    @property
    def host(self) -> str:
        return f"localhost:{self.server.port}"

    @cached_property
    def page(self) -> dict[str, str]:
        """The headers of the page that a person has open: it was loaded before the first change."""
        return self.opened()

    def opened(self) -> dict[str, str]:
        """The headers that a page's script sends with a change, for a session of its own, if changes are offered."""
        answers: list[Received | None] = []

        def loaded() -> bool:
            """On a busy machine the first look may take too long: then a person loads the page again."""
            answers.append(send(self.server.port, request("/api/dashboard/orders", host=self.host, key=self.token)))
            return answers[-1] is not None and answers[-1].status == 200

        wait_until(loaded, "the page")
        page = answers[-1]
        assert page is not None
        return {
            "Host": self.host,
            "Content-Type": "application/json",
            "Origin": f"http://{self.host}",
            **(session_of(page.headers, page.body) if "set-cookie" in page.headers else {}),
            "Authorization": f"Bearer {KEY}",
            **({} if self.token is None else {"x-functions-key": self.token}),
        }

    def change(
        self, change: str = "pause", *, headers: dict[str, str | None] | None = None, name: str = "orders", **body: Any
    ) -> Received:
        """A change as the page asks for it, but for these headers (None: without it) and fields."""
        return self.post(json.dumps({"change": change, "name": name, "by": "ana", **body}).encode(), headers=headers)

    def post(
        self,
        body: bytes,
        *lines: str,
        headers: dict[str, str | None] | None = None,
        path: str = "/api/dashboard/orders/changes",
    ) -> Received:
        """These bytes; `lines`: further headers."""
        given: dict[str, str | None] = {**self.page, "Content-Length": str(len(body)), **(headers or {})}
        head = [f"POST {path} HTTP/1.1", *(f"{k}: {v}" for k, v in given.items() if v is not None), *lines, "", ""]
        received = send(self.server.port, "\r\n".join(head).encode() + body, half_close=False)
        assert received is not None
        return received

    def pages(self) -> list[str]:
        """The list and the page of the poller, as they are now."""
        given = [send(self.server.port, request(f"/api/dashboard{path}")) for path in ("", "/orders")]
        return [unescape(one.body.decode()) for one in given if one is not None and one.status == 200]

    def waiting(self) -> list[str]:
        """The ids of the rows that wait."""
        listed: QuarantineOutput = self.app.poller("orders").quarantine.list()
        return [row.id for row in [*listed.aside, *listed.pending]]

    def document(self) -> dict[str, Any]:
        """The state document, as the store has it."""
        found = self.app.store.read("state/shop/orders.json")
        assert isinstance(found, Found)
        document: dict[str, Any] = json.loads(found.body)
        return document

    def audit(self) -> list[dict[str, Any]]:
        """What the trail says that persons did."""
        return [json.loads(line) for line in self.app.store.lines("audit/shop/orders.jsonl")]

    @property
    def handlers(self) -> Any:
        """The handler's module, whose `hook` a test may set."""
        _ = self.app.poller("orders").handler
        return sys.modules["handlers"]


@contextmanager
def shop(
    folder: Path,
    *,
    runtime: SystemRuntime | None = None,
    token: str | None = None,
    container: str = "",
    storage: str = "",
    **options: Any,
) -> Iterator[Shop]:
    """A shop whose one order was rejected, and waits. `container`: of Blob Storage, with this connection string, in
    which its documents are kept; default: a SQL store."""
    write_shop(folder, HANDLERS)
    text = (folder / "poller.toml").read_text()
    text = text.replace("[pollers.orders.source]", 'on_poison = "quarantine"\n[pollers.orders.source]')
    if container:
        text = text.replace('store = "sql"', f'store = "blob"\ncontainer = "{container}"')
    (folder / "poller.toml").write_text(text)
    environ = {} if token is None else {"POLLER_HTTP_TOKEN": token}
    settings = {"AzureWebJobsStorage": storage} if storage else {}
    with load_app(folder / "poller.toml", settings, observers=[], runtime=runtime) as app:
        app.poller("orders").tick()
        with serve(app, "0", environ=environ, **{"changes_key": KEY, **options}) as server:
            yield Shop(folder, app, server, token)
