"""A real browser, and the front end of a Functions host, for the status page."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser, Dialog, Page, ViewportSize, sync_playwright

from poller.http import ROUTES, Endpoints, HttpServer, Request, read_address
from tests.support.dashboard import Shop
from tests.support.services import Unavailable

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_CONTRASTS = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const found = parse(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = {};
  while (walk.nextNode()) {
    const one = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || one.closest("svg, script, style, noscript")) continue;
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
    found[`${one.tagName}.${one.className}`] = (a + 0.05) / (b + 0.05);
  }
  return found;
}"""

_SMALL = """() => [...document.querySelectorAll("a, button, input, select, textarea, summary")]
  .filter((one) => one.checkVisibility())
  .map((one) => [one.outerHTML.slice(0, 60), one.getBoundingClientRect()])
  .filter(([_, box]) => box.width < 24 || box.height < 24).map(([text, box]) => [text, box.width, box.height])"""
"""What can be clicked and is too small for a thumb."""


DESK: ViewportSize = {"width": 1200, "height": 900}
PHONE: ViewportSize = {"width": 360, "height": 740}


def serve(shop: Shop, token: str | None = None) -> HttpServer:
    return HttpServer(shop.endpoints(token), read_address("0"))


def address(server: HttpServer, name: str = "") -> str:
    """That of the status page, or of a poller's."""
    return f"http://127.0.0.1:{server.port}/api/dashboard{name and '/'}{name}"


@contextmanager
def chromium() -> Iterator[Browser]:
    """The machine's own. Raises: Unavailable."""
    named = os.environ.get("POLLER_TEST_CHROMIUM")
    path = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        raise Unavailable("no Chromium: install it (Debian: chromium), or name it in POLLER_TEST_CHROMIUM")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*sandbox, "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A page, what it asked for, and what it complained of: a refused script or style is among that."""

    page: Page
    requests: list[Any] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.requests.append(request))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Dialog) -> None:
        self.complaints.append(dialog.message)
        dialog.dismiss()

    @property
    def hosts(self) -> set[str]:
        """That were asked."""
        return {urlsplit(one.url).netloc for one in self.requests}

    @property
    def too_wide(self) -> int:
        """Pixels by which the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    @property
    def too_small(self) -> list[Any]:
        """What can be clicked and has less than 24 pixels, with its width and height."""
        found: list[Any] = self.page.evaluate(_SMALL)
        return found

    @property
    def contrasts(self) -> dict[str, float]:
        """Of each kind of text with what is behind it."""
        found: dict[str, float] = self.page.evaluate(_CONTRASTS)
        return found


@contextmanager
def watched(browser: Browser, **options: Any) -> Iterator[Watched]:
    """A page of a window of its own."""
    context = browser.new_context(**options)
    try:
        yield Watched(context.new_page())
    finally:
        context.close()


class FunctionsHost:
    """What stands before the endpoints in Azure: it takes a key from a header or from `?code=`, and finds the route."""

    def __init__(self, served: Endpoints, key: str) -> None:
        self.asked: list[tuple[str, str | None]] = []
        """Each address, and the key in a header."""
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                address, given = urlsplit(self.path), self.headers.get("x-functions-key")
                host.asked.append((self.path, given))
                if key not in (given, *parse_qs(address.query).get("code", ())):
                    self.send_response(401)
                    self.end_headers()
                    return
                found = [(route, route.match(address.path)) for route in ROUTES]
                route, name = next((route, name) for route, name in found if name is not None)
                headers = tuple((name.lower(), value) for name, value in self.headers.items())
                answer = served.at(route, name, Request("GET", address.path, address.query, headers), trusted=True)
                self.send_response(answer.status)
                for header in answer.headers:
                    self.send_header(*header)
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/dashboard"

    def __enter__(self) -> FunctionsHost:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
