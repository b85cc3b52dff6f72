"""The endpoints, independent of who serves them: a table of routes, and what each of them answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from poller.http.changes import PageChanges
from poller.http.hosts import Hosts
from poller.http.keys import Keys
from poller.http.looks import LookTimedOut, SharedLook
from poller.http.messages import FAULT, Answer, Request, answer, answer_with, refusal
from poller.http.shown import ShownHealth, ShownPoller
from poller.observability.events import log_failure

if TYPE_CHECKING:
    from poller.http.page.detail_looks import DetailLooks

LONGEST_PATH = 1024
LARGEST_REQUEST = 8192
"""Bytes of a request, its body included."""
PAGE = "dashboard"
"""The path of the status page, behind the prefix."""
PREFIX = "api"
"""What stands before each route; in Functions the host puts its `routePrefix` there."""
_NAME = r"[a-z0-9][a-z0-9-]{0,62}"
_CHALLENGE = (("WWW-Authenticate", 'Bearer realm="poller"'),)


@dataclass(frozen=True, slots=True)
class AdmittedRequest:
    """A request that has passed the door: its Host is ours, its route is known.

    Attributes:
        name: the poller that the path names, a configured one; empty if the route names none.
        trusted: the caller may see details.
    """

    request: Request
    name: str
    trusted: bool


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint.

    Attributes:
        name: for the function that serves it. template: its path behind the prefix, as the Functions host writes it.
        answer: what it does. anonymous: it may be asked without a key. methods: it may be asked with these.
        changes: it is there only where changes are offered. own_key: the key for changes alone is enough, and in
            Functions the host asks for none: that one could be in the address.
    """

    name: str
    template: str
    answer: Callable[[Endpoints, AdmittedRequest], Answer] = field(repr=False)
    anonymous: bool = False
    methods: tuple[str, ...] = ("GET", "HEAD")
    changes: bool = False
    own_key: bool = False

    def match(self, path: str) -> str | None:
        """The name in a path, empty if the template has none; None for another path. Nothing is decoded: a poller's
        name needs no escape, so a path with one names none."""
        pattern = re.escape(f"/{PREFIX}/{self.template}").replace(r"\{name\}", f"(?P<name>{_NAME})")
        found = re.fullmatch(pattern, path)
        return None if found is None else found.groupdict().get("name", "")


class Endpoints:
    """Answers requests about an application's pollers. Only `changes` changes anything, and has ticks made.

    Args:
        look: the health of an application. names: the pollers that may be named. keys: who may see details.
        hosts: the names of this server. changes: those that a page may ask for; None: they are not offered, and their
            path is like any that is unknown. details: what the store says of a poller; None: its page says its health
            only.
    """

    def __init__(
        self,
        look: SharedLook[ShownHealth],
        names: Collection[str],
        keys: Keys,
        hosts: Hosts,
        changes: PageChanges | None = None,
        details: DetailLooks | None = None,
    ) -> None:
        self._look = look
        self._names = frozenset(names)
        self._keys = keys
        self._hosts = hosts
        self.changes = changes
        self._details = details
        if changes is not None:
            changes.made = changes.ticks.made = self._forget

    def __call__(self, request: Request) -> Answer:
        """The answer to a request of a path below `/api`. Raises nothing that is an Exception."""
        route, name = _find(request.path)
        return self.at(route, name, request, trusted=False)

    def at(self, route: Route | None, name: str, request: Request, *, trusted: bool) -> Answer:
        """The answer where the route is known, None if there is none, with the name in its path. `trusted`: the host
        has checked a key. Raises nothing that is an Exception."""
        try:
            given = self._refused(request) or self._routed(request, route, name, trusted=trusted)
        except _Unknown as unknown:
            given = unknown.answer
        except Exception as error:  # noqa: BLE001 - whatever happens, a caller sees no traceback
            log_failure("http", "A request could not be answered.", error)
            given = refusal(500, FAULT)
        return given.without_body() if request.method == "HEAD" else given

    def settle(self, seconds: float, changes: float = 0.0) -> None:
        """Before the application is closed: wait at most `seconds` for a check that is under way, and at most `changes`
        for changes; none begins any more."""
        if self.changes is not None:
            self.changes.settle(changes)
        self._look.settle(seconds)
        if self._details is not None:
            self._details.settle(seconds)

    def _refused(self, request: Request) -> Answer | None:
        """What is wrong with a request, whatever it asks for."""
        hosts = request.values("host")
        if len(hosts) != 1:
            return refusal(400, "exactly one Host is needed")
        if not self._hosts.accept(hosts[0]):
            return refusal(421, "this server does not answer to that Host")
        if Keys.unclear(request):
            return refusal(400, "a key is given twice")
        if len(request.path) > LONGEST_PATH:
            return refusal(414, "the path is too long")
        if request.body_length > LARGEST_REQUEST:
            return refusal(413, "the request is too large")
        return None

    def _routed(self, request: Request, route: Route | None, name: str, *, trusted: bool) -> Answer:
        """Who asks is known before what there is: without a key, all that is not anonymous looks alike."""
        trusted = trusted or self._keys.allow(request)
        if not trusted and route is not None and route.own_key and self.changes is not None:
            trusted = self.changes.allow(request)
        if not trusted and (route is None or not route.anonymous):
            return _sign_in() if _is_page(request, route) else refusal(401, "a key is needed", _CHALLENGE)
        if route is None or (route.changes and self.changes is None):
            return _not_found(request, route)
        if request.method not in route.methods:
            return refusal(405, "another method is needed", [("Allow", ", ".join(route.methods))])
        if "{name}" in route.template and name not in self._names:
            return _not_found(request, route)
        return route.answer(self, AdmittedRequest(request, name, trusted))

    # --- what the routes do

    def health(self, call: AdmittedRequest) -> Answer:
        """The answer whether all is well, by the status alone; with a key also why not."""
        try:
            known = self._known()
        except _Unknown as unknown:
            return unknown.answer if call.trusted else answer(503)
        status = 200 if known.healthy else 503
        return answer_with(status, known.body) if call.trusted else answer(status)

    def pollers(self, call: AdmittedRequest) -> Answer:  # noqa: ARG002 - what a route calls
        """The health of every poller."""
        return answer_with(200, self._known().body)

    def poller(self, call: AdmittedRequest) -> Answer:
        """The health of one poller."""
        return answer_with(200, self._one(call.name).body)

    def scale(self, call: AdmittedRequest) -> Answer:
        """How much waits for one poller. Where that is not known it is an error or null, never a zero: a scaler that
        reads zero stops the workers."""
        one = self._one(call.name)
        if one.pending is None:
            return refusal(503, "how many rows wait is not known")
        lag = one.lag_seconds
        return answer(200, {"pending": one.pending, "lag_seconds": 0.0 if lag is None and not one.pending else lag})

    def dashboard(self, call: AdmittedRequest) -> Answer:
        """The page of all pollers, or of those that the query asks for."""
        from poller.http.page.list_query import BadQuery, list_query
        from poller.http.page.pages import bad_query_page, list_page, unknown_page

        try:
            asked = list_query(call.request.query)
            return list_page(self._known(), asked)
        except BadQuery as bad:
            return bad_query_page(bad)
        except _Unknown as unknown:
            return unknown_page(call.request.path, unknown.why)

    def dashboard_poller(self, call: AdmittedRequest) -> Answer:
        """The page of one poller."""
        from poller.http.page.pages import poller_page, unknown_page

        try:
            known = self._known()
        except _Unknown as unknown:
            return unknown_page(call.request.path, unknown.why)
        details = None if self._details is None else self._details.take(call.name)
        session = None if self.changes is None else self.changes.sessions.begin(call.request)
        return poller_page(known, call.name, details, session)

    def change(self, call: AdmittedRequest) -> Answer:
        """Pause, resume, replay or discard, as a page of ours asks for it."""
        assert self.changes is not None  # noqa: S101 - else there is no such route
        return self.changes(call.request, call.name)

    def tick(self, call: AdmittedRequest) -> Answer:
        """One tick now, or what came of the last one that was asked for."""
        assert self.changes is not None  # noqa: S101 - else there is no such route
        if call.request.method != "POST":
            return self.changes.ticks.look(call.name)
        if not self.changes.allow(call.request):
            return refusal(403, "a tick needs the key for changes, in Authorization: Bearer")
        return self.changes.ticks.ask(call.name)

    def _forget(self, name: str) -> None:
        """A change or a tick of this poller was tried: the page that is loaded next shows what came of it."""
        self._look.forget()
        if self._details is not None:
            self._details.forget(name)

    def _one(self, name: str) -> ShownPoller:
        found = self._known().pollers.get(name)
        if found is None:
            raise _Unknown("nothing is known of this poller yet")
        return found

    def _known(self) -> ShownHealth:
        """Raises: _Unknown."""
        try:
            return self._look.take()
        except LookTimedOut:
            raise _Unknown("the state store or a database has not answered in time") from None
        except Exception as error:
            raise _Unknown(f"the health is not known: {type(error).__name__}") from error


class _Unknown(Exception):
    """Nothing can be said of the health, which is never a good sign."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.answer = refusal(503, why)


def _find(path: str) -> tuple[Route | None, str]:
    for route in ROUTES:
        name = route.match(path)
        if name is not None:
            return route, name
    return None, ""


def _is_page(request: Request, route: Route | None) -> bool:
    """True if a browser asks: at or below the page's path, whatever may be there. A Functions host, which finds the
    route, may have a prefix of its own."""
    place = f"/{PREFIX}/{PAGE}/"
    below = route.template.startswith(PAGE) if route is not None else f"{request.path}/".startswith(place)
    return below and request.method in ("GET", "HEAD")


def _sign_in() -> Answer:
    from poller.http.page.pages import sign_in_page

    return sign_in_page(_CHALLENGE)


def _not_found(request: Request, route: Route | None) -> Answer:
    if not _is_page(request, route):
        return refusal(404, "there is nothing here")
    from poller.http.page.pages import no_page

    return no_page(request.path)


ROUTES: tuple[Route, ...] = (
    Route("health", "health", Endpoints.health, anonymous=True),
    Route("pollers", "pollers", Endpoints.pollers),
    Route("poller", "pollers/{name}", Endpoints.poller),
    Route(
        "tick",
        "pollers/{name}/tick",
        Endpoints.tick,
        methods=("GET", "HEAD", "POST"),
        changes=True,
        own_key=True,
    ),
    Route("scale", "scale/{name}", Endpoints.scale),
    Route("dashboard", PAGE, Endpoints.dashboard),
    Route("dashboard_poller", f"{PAGE}/{{name}}", Endpoints.dashboard_poller),
    Route("change", "dashboard/{name}/changes", Endpoints.change, methods=("POST",), changes=True),
)
"""All endpoints. A name stands only behind `pollers/`, `scale/` and `dashboard/`, so that no poller can be called like
an endpoint."""
