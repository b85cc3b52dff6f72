"""The endpoints of an application: wired, and served by a socket of this process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from poller.admin.health import Health, PollerHealth
from poller.app import App
from poller.errors import ConfigError
from poller.http.addresses import read_address
from poller.http.changes import PageChanges
from poller.http.endpoints import Endpoints
from poller.http.hosts import Hosts, listed_hosts
from poller.http.keys import TOKEN, ChangesKey, Keys, as_changes_key, read_changes_key, read_token
from poller.http.looks import SharedLook
from poller.http.page.detail_looks import details_of
from poller.http.server import CallerLimits, HttpServer
from poller.http.shown import ShownHealth, shown_health
from poller.ports import Runtime
from poller.runtime import SystemRuntime

KEPT = 10.0
"""Seconds for which a health serves: so many callers cost one look at the databases."""
SETTLING = 2.0
"""Seconds that the end waits for a check that is under way."""
ENDING = 10.0
"""Seconds that the end waits for changes that are under way; a replay that takes longer is made again by a person, as
its handler may have to be called again."""


def endpoints_of(
    app: App | None,
    keys: Keys,
    hosts: Hosts,
    *,
    wrong: Mapping[str, ConfigError] | None = None,
    changes: ChangesKey | None = None,
) -> Endpoints:
    """The endpoints of an application.

    Args:
        app: the application; None if none of its pollers can be made. keys: who may see details.
        hosts: the names of this server. wrong: its pollers that cannot be made; each is unhealthy, and not changed.
        changes: the key for changes; None: they are not offered.
    """
    unmade = dict(wrong or {})
    configured = () if app is None else tuple(app.config.pollers)
    environment = None if app is None else app.config.environment
    runtime: Runtime = SystemRuntime() if app is None else app.runtime

    def look() -> ShownHealth:
        made = [name for name in configured if name not in unmade]
        name, without = "" if app is None else app.app_name, unmade
        found = Health(app_name=name, healthy=True, computed_at=runtime.utcnow())
        if app is not None and made:
            try:
                found = app.health(made)
            except ConfigError as error:  # a store that cannot be made
                without = dict.fromkeys(made, error) | unmade
        pollers = [*_unmade(name, without, runtime), *found.pollers]  # of these each is as bad as can be
        healthy = all(one.healthy for one in pollers)
        return shown_health(found.model_copy(update={"pollers": pollers, "healthy": healthy}), environment)

    if app is not None:
        app.import_parts()
    shared = SharedLook(look, kept=KEPT, now=runtime.monotonic)
    offered = None if app is None or changes is None else PageChanges(app, changes)
    details = None if app is None else details_of(app)
    return Endpoints(shared, {*configured, *unmade}, keys, hosts, offered, details)


def _unmade(app_name: str, wrong: Mapping[str, ConfigError], runtime: Runtime) -> list[PollerHealth]:
    """The health of pollers that cannot be made."""
    from poller.admin.round import failed

    looks = [failed(app_name, name, error, runtime.utcnow()) for name, error in wrong.items()]
    return [PollerHealth.of(one.judged()[0]) for one in looks]


@contextmanager
def serve(
    app: App,
    address: str,
    *,
    token_file: Path | None = None,
    changes_key_file: Path | None = None,
    changes_key: str | None = None,
    environ: Mapping[str, str] | None = None,
    limits: CallerLimits | None = None,
) -> Iterator[HttpServer]:
    """Serve an application's endpoints while the context lasts.

    Args:
        app: whose pollers. It may be at work meanwhile. address: `PORT`, which is of this machine alone, `HOST:PORT` or
            `[IPv6]:PORT`. token_file: holds the token, and only its owner may read it.
        changes_key_file: holds the key for changes, likewise. changes_key: the key itself. Without either, and without
            the setting `POLLER_HTTP_CHANGES_KEY`, no change is offered.
        environ: where `POLLER_HTTP_TOKEN` and other settings are; default: this process's environment.
        limits: what callers may use.
    Raises: ConfigError: an address at which nothing can listen, or that other machines can reach while there is no
        token; a token, a key or a list of hosts that is wrong.
    """
    variables = os.environ if environ is None else environ
    where = read_address(address)
    token = read_token(variables, token_file)
    if token is None and not where.loopback:
        raise ConfigError(
            f"--http {where.given}: other machines can reach this address, and there is no token.",
            key="--http",
            next_step=f"Set {TOKEN}, or give --http-token-file; or give a port alone, which only this machine reaches.",
        )
    own = [] if where.unspecified else [where.host, str(where.place[0])]
    hosts = Hosts([*listed_hosts(variables), *own])
    key = read_changes_key(variables, changes_key_file, token=token)
    if changes_key is not None:
        key = as_changes_key(changes_key, token=token)
    endpoints = endpoints_of(app, Keys(token), hosts, changes=key)
    try:
        with HttpServer(endpoints, where, limits) as server:
            yield server
    finally:
        endpoints.settle(SETTLING, changes=ENDING)
