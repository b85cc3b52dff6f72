"""Engines and pools for the URLs of sources, in autocommit, with each dialect's own arguments; and how a source sets up
a session, adjusts one that another source set up, and gives one its settings back."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.pool import NullPool

from poller.databases import pools, tokens, urls
from poller.databases.pools import Pool, PooledSession
from poller.entra import Identity
from poller.sources.database import Dialect, Form, ServerPlace
from poller.sources.identity import identify, place
from poller.sources.user_sql import escape_colons


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

    Raises: ConfigError naming `url`, if the driver is not installed, or `identity`, if it cannot be used there.
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


# ------------------------------------------------------------------------------------------------------------- sessions


_SETTINGS = "settings"
_IN_TRANSACTION = 1
"""A flag of MySQL's protocol."""


class SessionSetup:
    """What a source needs of a session.

    Args:
        timeout: of each statement. form: how JSON and intervals are read; it may be set to another.
    """

    def __init__(self, engine: Engine, dialect: Dialect, timeout: timedelta, form: Form) -> None:
        self._engine = engine
        self._dialect = dialect
        self._timeout = timeout
        self.form: Form = form

    @property
    def in_memory(self) -> bool:
        """See `Dialect.in_memory`."""
        return self._dialect.in_memory(self._engine)

    def of_held(self, connection: Connection, driver: Any) -> PooledSession:
        """A new session of a connection that one source holds. Raises what the driver raises."""
        self._begin(connection, driver)
        return self._session(ServerPlace(object(), None))

    def of_pooled(self, connection: Connection) -> PooledSession:
        """A new session of a connection of the pool. Raises what the driver raises."""
        driver = connection.connection.driver_connection
        self._begin(connection, driver)
        self._dialect.limit(connection, driver, self._timeout)  # the driver's: the engine was made for another source
        return self._session(self._dialect.place(connection))

    def _begin(self, connection: Connection, driver: Any) -> None:
        self._dialect.adopt(driver, self._timeout)
        self._dialect.read_values(driver, self.form)
        self._dialect.set_up(connection, self._timeout)

    def _session(self, found: ServerPlace) -> PooledSession:
        return PooledSession(found.place, found.reading, self._timeout.total_seconds(), form=self.form)

    def adjust(self, connection: Connection, driver: Any, session: PooledSession) -> None:
        """What another source set up otherwise. Raises what the driver raises."""
        if not session.fresh:
            self._dialect.resume(connection)
        if session.form != self.form:
            self._dialect.read_values(driver, self.form)
            session.form = self.form
        seconds = self._timeout.total_seconds()
        if session.timeout != seconds:
            session.timeout = -1.0  # until it is known that it was set
            for statement in self._dialect.limit(connection, driver, self._timeout):
                connection.execute(sa.text(statement))
            session.timeout = seconds

    def note_settings(self, connection: Connection, session: PooledSession) -> None:
        """Before anything of the users' runs in it: for `restore`. Raises what the driver raises."""
        if _SETTINGS not in session.facts:
            session.facts[_SETTINGS] = self._dialect.settings(connection)

    def restore(self, connection: Connection, session: PooledSession) -> bool:
        """True if the session has its settings again, for its next borrower."""
        session.close_facts()
        try:
            if self._dialect.is_pooled(connection):
                return True  # the settings are of a session that another user has by now
            session.timeout = -1.0
            return self._dialect.restore(connection, self._timeout, session.facts.get(_SETTINGS))
        except Exception:  # noqa: BLE001 - it is not used again
            return False


def is_idle(connection: Connection, driver: Any) -> bool:
    """True if the session is in no transaction and awaits a statement, as far as the driver knows."""
    if connection.closed or connection.invalidated:
        return False
    psycopg = int(getattr(getattr(driver, "info", None), "transaction_status", 0))
    pymysql = int(getattr(driver, "server_status", 0)) & _IN_TRANSACTION
    return not psycopg and not pymysql
