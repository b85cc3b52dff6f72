"""Engines and pools for the URLs of sources, in autocommit, with each dialect's own arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Any

from sqlalchemy.engine import URL, Engine
from sqlalchemy.pool import NullPool

from poller.databases import pools, tokens, urls
from poller.databases.pools import Pool
from poller.entra import Identity
from poller.sources.database import Dialect
from poller.sources.identity import identify, place
from poller.sources.user_sql.literals import escape_colons


def read_url(url: str | URL | Engine) -> URL:
    """The URL of a text, a URL or an engine.

    Raises: ConfigError naming `url`; it does not repeat the text, which may hold a password.
    """
    if isinstance(url, Engine):
        return url.url
    if isinstance(url, URL):
        return url
    return urls.read_url(url, key="url")


def make_engine(url: URL, dialect: Dialect, timeout: timedelta, identity: Identity | None = None) -> Engine:
    """An engine without a pool, for one connection that is held. `identity`: signs in, instead of a password.

    Raises: ConfigError naming `url`, where the driver is not installed, or `identity`, where it cannot be used there.
    """
    return _engine(url, dialect, timeout, identity, poolclass=NullPool)


def make_pool(
    url: URL,
    dialect: Dialect,
    timeout: timedelta,
    connections: int,
    identity: Identity | None = None,
    *,
    of: Hashable = (),
) -> Pool | None:
    """The process's pool for this URL; None for SQLite, whose connections cost nothing, and which locks per process.

    Args:
        of: whose pool it is, if it is not that of all sources.
    Raises: as `make_engine`.
    """
    if dialect.is_file:
        return None

    def make() -> Engine:
        return _engine(
            url,
            dialect,
            timeout,
            identity,
            poolclass=NullPool,  # they rest in ours
            pool_reset_on_return=None,
            isolation_level="AUTOCOMMIT",
            query_cache_size=pools.STATEMENTS_KEPT,
        )

    found = identify(url)
    server = found.dialect, found.host, found.port
    beside = identity, of
    return pools.pool_of(url, make, place=place(found), connections=connections, beside=beside, server=server)


def _engine(url: URL, dialect: Dialect, timeout: timedelta, identity: Identity | None, **options: Any) -> Engine:
    def connect_args(chosen: URL) -> dict[str, Any]:
        args = dialect.connect_args(chosen.get_driver_name(), timeout)
        return {name: value for name, value in args.items() if name not in chosen.query or name in dialect.forced}

    return tokens.open_engine(
        url,
        connect_args,
        key="url",
        identity=identity,
        hide_parameters=True,
        skip_autocommit_rollback=True,
        # SQLAlchemy would take `%(v)s` in a name or a text of the user's for a parameter, where it numbers them itself.
        **({"paramstyle": "named"} if dialect.is_file else {}),
        **options,
    )


def quoter(engine: Engine) -> Callable[[str], str]:
    """Quotes a name where it needs it, ready for `sqlalchemy.text`, which doubles percents and reads colons itself."""
    preparer = engine.dialect.identifier_preparer
    doubles = bool(getattr(preparer, "_double_percents", False))

    def quote(name: str) -> str:
        quoted = preparer.quote(name)
        return escape_colons(quoted.replace("%%", "%") if doubles else quoted)

    return quote
