"""The answers with a page: the list, one poller, the sign-in, and those that have nothing to show.

A page is fenced in by its headers (`rendered`): it loads nothing, runs no script and takes no style but its own.
`default-src 'none'` alone would also forbid the page to ask for itself again; `connect-src 'self'` allows that, and
nothing else: no other address can be asked, whatever gets into the page.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from poller.http.messages import ALWAYS, Answer
from poller.http.page.details import Details
from poller.http.page.list_query import BadQuery, ListQuery
from poller.http.page.listing import listing_of
from poller.http.page.one_poller import page_of
from poller.http.sessions import PageSession
from poller.http.shown import ShownHealth
from poller.model.escape import LONGEST_SENTENCE, shown

FOLDER = Path(__file__).with_name("templates")
_CSP = (
    "default-src 'none'; style-src 'nonce-{style}'; script-src 'nonce-{script}'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HTML = ("Content-Type", "text/html; charset=utf-8")


@dataclass(frozen=True, slots=True)
class PageMessage:
    """A page that only says something. `up`: where the list is, seen from there; None on the list itself."""

    title: str
    text: str
    up: str | None


def list_page(health: ShownHealth, asked: ListQuery) -> Answer:
    """Pollers, those that are asked for."""
    return rendered("listing.html", listing_of(health, asked))


def bad_query_page(error: BadQuery) -> Answer:
    """The list cannot be shown as its address asks."""
    return rendered("message.html", PageMessage("This list cannot be shown", f"{error}.", "dashboard"), status=400)


def poller_page(health: ShownHealth, name: str, details: Details | None, session: PageSession | None = None) -> Answer:
    """One poller of the application, also one that no look has found yet. `session`: in which changes are asked for;
    None if none are offered."""
    part = next((one for one in health.parts if one["name"] == name), None)
    if part is None:
        return rendered(
            "message.html", PageMessage(name, "Nothing is known of this poller yet.", "../dashboard"), status=503
        )
    token, headers = (None, ()) if session is None else (session.token, session.headers)
    page = page_of(part, health.computed_at, details, token, environment=health.environment)
    return rendered("poller.html", page, headers=headers)


def unknown_page(path: str, why: str) -> Answer:
    """The page if the health is not known, which is never a good sign."""
    text = f"{why[:1].upper()}{why[1:]}. This page tries again automatically."
    return rendered("message.html", PageMessage("The health is not known", text, _up(path)), status=503)


def no_page(path: str) -> Answer:
    """Where there is nothing, below the list."""
    return rendered(
        "message.html", PageMessage("There is nothing here", "No poller is called so.", _up(path)), status=404
    )


def sign_in_page(headers: Iterable[tuple[str, str]]) -> Answer:
    """The same whatever was asked for: without a key no caller learns what there is."""
    return rendered("sign_in.html", status=401, headers=headers)


def _up(path: str) -> str | None:
    """The list as a relative link: the host of a function app may have put anything before our path."""
    below = path.partition("/dashboard")[2].count("/") if "/dashboard" in path else 1
    return f"{'../' * below}dashboard" if below else None


def rendered(template: str, facts: Any = None, *, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> Answer:
    """The answer with a page: a template of the folder, filled with what it calls `page`. Its nonces are new each time.

    Args:
        status: of the answer. headers: further ones.
    """
    style, script = secrets.token_urlsafe(18), secrets.token_urlsafe(18)
    text = _environment().get_template(template).render(page=facts, style_nonce=style, script_nonce=script)
    body = text.encode("utf-8", "replace")
    policy = _CSP.format(style=style, script=script)
    always = [(name, policy if name == "Content-Security-Policy" else value) for name, value in ALWAYS]
    return Answer(status, (_HTML, *always, *headers), body, len(body))


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _plain(value: Any) -> Any:
    """Every text that a template writes: in one line, cut, and without characters that turn or hide what follows."""
    return shown(value, LONGEST_SENTENCE) if type(value) is str else value  # what a macro gave is no plain text
