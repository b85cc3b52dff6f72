"""Health to answer with, and sockets that send bytes as no client of a library would."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from poller.admin import Health, PollerHealth
from poller.admin.status import ConditionOutput
from poller.http import Endpoints, Hosts, Keys
from poller.http.looks import SharedLook
from poller.http.shown import ShownHealth, shown_health
from poller.model.view import Severity

TOKEN = "a-token-of-32-characters-exactly"
NOW = datetime(2026, 4, 7, 1, 23, 45, tzinfo=UTC)
SECURITY = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of every answer."""


def poller(
    name: str = "orders",
    word: str = "idle",
    severity: Severity = "well",
    sentence: str = "Nothing waits.",
    next_step: str | None = None,
    **facts: Any,
) -> PollerHealth:
    """A poller of which one thing is so: if nothing else is given, that nothing waits."""
    one = ConditionOutput(name=word, severity=severity, sentence=sentence, next_step=next_step)
    return PollerHealth(
        name=name,
        healthy=severity != "unhealthy",
        word=word,
        severity=severity,
        sentence=sentence,
        next_step=next_step,
        conditions=[one],
        **facts,
    )


def health(*pollers: PollerHealth) -> Health:
    """Of these pollers, or of two that are well."""
    several = pollers or (poller(pending=7, lag_seconds=12.5), poller("refunds", pending=0, lag_seconds=0.0))
    return Health(app_name="shop", healthy=all(one.healthy for one in several), computed_at=NOW, pollers=list(several))


class Asked:
    """A look at databases that only counts how often it is made."""

    def __init__(self, found: Callable[[], Health] = health) -> None:
        self.found = found
        self.times = 0

    def __call__(self) -> ShownHealth:
        self.times += 1
        return shown_health(self.found())


def endpoints(
    asked: Asked | None = None,
    *,
    token: str | None = TOKEN,
    closed: bool = False,
    names: Sequence[str] = ("orders", "refunds"),
    hosts: Sequence[str] = ("poller.example.com",),
    kept: float = 0.0,
) -> Endpoints:
    """Of two pollers; each request makes a look of its own, unless the last one is `kept`."""
    look = SharedLook(asked or Asked(), kept=kept)
    return Endpoints(look, names, Keys(token, closed=closed), Hosts(hosts))


@dataclass(frozen=True)
class Received:
    """An answer as it came from a socket."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def send(port: int, data: bytes, *, half_close: bool = True) -> Received | None:
    """Send bytes, and read until the server closes; None where it says nothing."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(data)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        return received(connection)


def received(connection: socket.socket) -> Received | None:
    """What a server sends until it closes."""
    got = b""
    while more := connection.recv(65_536):
        got += more
    if not got:
        return None
    head, _, body = got.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    version, status, _ = first.split(" ", 2)
    assert version == "HTTP/1.1"
    return Received(int(status), {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}, body)


def session_of(headers: Mapping[str, str], page: bytes) -> dict[str, str]:
    """The headers by which the script of a page asks for a change: its cookie, and the token that stands in it."""
    token = re.search(rb'data-token="([^"]+)"', page)
    assert token is not None, "a page without a token"
    return {"Cookie": headers["set-cookie"].partition(";")[0], "x-poller-csrf": token[1].decode()}


def request(
    path: str = "/api/health", *lines: str, method: str = "GET", host: str = "localhost", key: str | None = None
) -> bytes:
    """A request as a client writes it."""
    keys = [] if key is None else [f"x-functions-key: {key}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *keys, *lines, "", ""]).encode("latin-1")
