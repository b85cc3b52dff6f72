"""The answers with a page: the list, one poller, the sign-in, and those that have nothing to show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from poller.http.messages import Answer
from poller.http.page.details import Details
from poller.http.page.list_query import BadQuery, ListQuery
from poller.http.page.listing import listing_of
from poller.http.page.one_poller import page_of
from poller.http.page.rendering import rendered
from poller.http.sessions import PageSession
from poller.http.shown import ShownHealth


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
