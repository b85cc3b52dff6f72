"""Sessions of a browser, which grant nothing: they tie the page that was served to the change that it asks for.

A page gets a cookie with a random session, and a token that is a keyed hash of the session and of its own end. The key
derives from the key for changes, so that each instance of a function app can check what another gave out. A page of
another worker's can make a browser send the cookie at most; the token it cannot read.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from poller.http.hosts import names_loopback
from poller.http.keys import ChangesKey
from poller.http.messages import Request

COOKIE = "poller_session"
HEADER = "x-poller-csrf"
"""In which a change brings the token."""
PATH = "/api/dashboard"
VALID = timedelta(hours=8)
"""For so long a page may ask for changes; then it has to be loaded again."""
_PLACE = re.compile(r"(?:/[A-Za-z0-9_.-]+)*?/dashboard(?=/|$)", re.ASCII | re.IGNORECASE)
"""The page's own path, whatever the `routePrefix` of the Functions host is."""
_SESSION = re.compile(r"[A-Za-z0-9_-]{43}")
_TOKEN = re.compile(r"(?P<until>[1-9][0-9]{0,11})\.(?P<hash>[0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class PageSession:
    """What a page needs, so that it may ask for changes.

    Attributes:
        token: for its script, which sends it as `x-poller-csrf`. headers: for the answer: the cookie.
    """

    token: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)


class Sessions:
    """Gives out sessions, and checks them.

    Args:
        now: with a zone.
    """

    def __init__(self, key: ChangesKey, now: Callable[[], datetime]) -> None:
        self._key = key.derived("poller: sessions of the status page, 1")
        self._now = now

    def begin(self, request: Request) -> PageSession:
        """For the answer to a page's request. A browser keeps the session that it has, so that two tabs work."""
        session = _session(request) or secrets.token_urlsafe(32)
        until = int((self._now() + VALID).timestamp())
        place = _PLACE.match(request.path)
        cookie = f"{COOKIE}={session}; Path={place[0] if place else PATH}; HttpOnly; SameSite=Strict"
        if not all(map(names_loopback, request.values("host"))):
            cookie += "; Secure"
        return PageSession(f"{until}.{self._hash(session, until)}", (("Set-Cookie", cookie),))

    def allow(self, request: Request) -> bool:
        """True if a change is asked for by a page that we served to this very session, not too long ago."""
        session, tokens = _session(request), request.values(HEADER)
        given = _TOKEN.fullmatch(tokens[0]) if len(tokens) == 1 else None
        if session is None or given is None:
            return False
        until = int(given["until"])
        ours = hmac.compare_digest(given["hash"], self._hash(session, until))
        left = until - self._now().timestamp()
        return ours and 0 < left <= VALID.total_seconds() + _CLOCKS_APART

    def _hash(self, session: str, until: int) -> str:
        return hmac.digest(self._key, f"{session}.{until}".encode("ascii"), "sha256").hex()


_CLOCKS_APART = 300.0
"""Seconds by which the clocks of two instances may differ."""


def _session(request: Request) -> str | None:
    """The one that the browser has; None if it has none, or several: another on this host may have added its own."""
    parts = [part.strip(" \t").partition("=") for value in request.values("cookie") for part in value.split(";")]
    found = {value for name, _, value in parts if name == COOKIE}
    session = found.pop() if len(found) == 1 else ""
    return session if _SESSION.fullmatch(session) else None
