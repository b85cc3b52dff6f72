"""The HTTP endpoints as functions. The host checks the function key and finds the route; everything else is ours.

`health` is anonymous: the host hands over its requests with or without a key, and does not say whether a key was valid.
So it answers with its status alone, unless the caller gives the app's own token (`POLLER_HTTP_TOKEN`). The others have
the auth level `function`: what comes to us has passed the host with a valid key. A change needs ours beside it
(`POLLER_HTTP_CHANGES_KEY`), in `Authorization`; without that setting there is no function for changes. A tick needs
ours alone, so the host checks none: it takes keys in the address too.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import azure.functions as func

from poller.app import App
from poller.errors import ConfigError
from poller.functions.naming import FunctionNames
from poller.http import ROUTES, Answer, Endpoints, Hosts, Keys, Request, Route, endpoints_of
from poller.http.hosts import HOSTS, listed_hosts
from poller.http.keys import ChangesKey, read_changes_key, read_token
from poller.http.messages import refusal

logger = logging.getLogger("poller")

THREADS = 4
"""That answer requests: none of the worker's pool, which ticks may fill."""
CHANGING = 2
"""Threads that wait for changes, which may take some seconds: no reader waits behind them."""
_NAMES = {
    "health": "poller_health",
    "pollers": "poller_list",
    "poller": "poller_details",
    "tick": "poller_tick",
    "scale": "poller_scale",
    "dashboard": "poller_dashboard",
    "dashboard_poller": "poller_dashboard_poller",
    "change": "poller_change",
}


def add_endpoints(
    app: func.FunctionApp | func.Blueprint,
    of: App | None,
    names: FunctionNames,
    *,
    wrong: Mapping[str, ConfigError],
) -> None:
    """Add a function for each endpoint. They run on the worker's event loop and on threads of their own, so that they
    answer while ticks hold every thread of the worker's pool.

    Args:
        app: to which. of: the application; None if none of its pollers can be made. names: those that are taken.
        wrong: its pollers that cannot be made.
    """
    token = _token()
    endpoints = endpoints_of(of, Keys(token, closed=True), Hosts(_hosts()), wrong=wrong, changes=_changes_key(token))
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="poller-http")
    changing = ThreadPoolExecutor(CHANGING, thread_name_prefix="poller-changes")
    for route in ROUTES:
        if not route.changes or endpoints.changes is not None:
            pool = changing if route.name == "change" else threads
            _add(app, route, endpoints, pool, function=names.beside(_NAMES[route.name]))


def _token() -> str | None:
    """A wrong setting must not take the timers along: it is logged, and opens nothing."""
    try:
        return read_token(os.environ)
    except ConfigError as error:
        logger.error("HTTP endpoints: %s", error)
        return None


def _changes_key(token: str | None) -> ChangesKey | None:
    """A wrong one is logged, and offers no changes."""
    try:
        return read_changes_key(os.environ, token=token)
    except ConfigError as error:
        logger.error("HTTP endpoints: %s", error)
        return None


def _hosts() -> list[str]:
    try:
        return listed_hosts(os.environ)
    except ConfigError as error:
        logger.error("HTTP endpoints: %s", error)
        return listed_hosts({name: text for name, text in os.environ.items() if name != HOSTS})


def _add(
    app: func.FunctionApp | func.Blueprint,
    route: Route,
    endpoints: Endpoints,
    threads: ThreadPoolExecutor,
    *,
    function: str,
) -> None:
    checked = not (route.anonymous or route.own_key)

    def answered(req: func.HttpRequest) -> Answer:
        try:
            request = _request(req)
        except ValueError:  # what urllib says of an address that is none
            return refusal(400, "the address is malformed")
        return endpoints.at(route, str(req.route_params.get("name", "")), request, trusted=checked)

    async def serve(req: func.HttpRequest) -> func.HttpResponse:
        return _response(await asyncio.get_running_loop().run_in_executor(threads, answered, req))

    serve.__name__ = serve.__qualname__ = function
    level = func.AuthLevel.FUNCTION if checked else func.AuthLevel.ANONYMOUS
    trigger: Callable[[Any], Any] = app.route(route=route.template, methods=list(route.methods), auth_level=level)
    app.function_name(function)(trigger(serve))


def _request(req: func.HttpRequest) -> Request:
    """The host's request as ours."""
    address = urlsplit(req.url)
    headers = [(str(name).lower(), str(value)) for name, value in req.headers.items()]
    if not any(name == "host" for name, _ in headers):
        headers.append(("host", address.netloc))
    body = req.get_body()
    return Request(req.method, address.path, address.query, tuple(headers), len(body), body=body)


def _response(given: Answer) -> func.HttpResponse:
    kind = dict(given.headers).get("Content-Type")
    return func.HttpResponse(given.body, status_code=given.status, headers=dict(given.headers), mimetype=kind)
