"""How a source sets up a session, adjusts one that another source set up, and gives one its settings back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from poller.databases.pools import Session
from poller.sources.database import Dialect, Form, Place

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

    def of_held(self, connection: Connection, driver: Any) -> Session:
        """A new session of a connection that one source holds. Raises what the driver raises."""
        self._begin(connection, driver)
        return self._session(Place(object(), None))

    def of_pooled(self, connection: Connection) -> Session:
        """A new session of a connection of the pool. Raises what the driver raises."""
        driver = connection.connection.driver_connection
        self._begin(connection, driver)
        self._dialect.limit(connection, driver, self._timeout)  # the driver's: the engine was made for another source
        return self._session(self._dialect.place(connection))

    def _begin(self, connection: Connection, driver: Any) -> None:
        self._dialect.adopt(driver, self._timeout)
        self._dialect.read_values(driver, self.form)
        self._dialect.set_up(connection, self._timeout)

    def _session(self, found: Place) -> Session:
        return Session(found.place, found.reading, self._timeout.total_seconds(), form=self.form)

    def adjust(self, connection: Connection, driver: Any, session: Session) -> None:
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

    def note_settings(self, connection: Connection, session: Session) -> None:
        """Before anything of the users' runs in it: for `restore`. Raises what the driver raises."""
        if _SETTINGS not in session.facts:
            session.facts[_SETTINGS] = self._dialect.settings(connection)

    def restore(self, connection: Connection, session: Session) -> bool:
        """Whether the session has its settings again, for whoever borrows it next."""
        session.close_facts()
        try:
            if self._dialect.is_pooled(connection):
                return True  # the settings are of a session that is somebody else's by now
            session.timeout = -1.0
            return self._dialect.restore(connection, self._timeout, session.facts.get(_SETTINGS))
        except Exception:  # noqa: BLE001 - it is not used again
            return False


def is_idle(connection: Connection, driver: Any) -> bool:
    """Whether the session is in no transaction and awaits a statement, as far as the driver knows."""
    if connection.closed or connection.invalidated:
        return False
    psycopg = int(getattr(getattr(driver, "info", None), "transaction_status", 0))
    pymysql = int(getattr(driver, "server_status", 0)) & _IN_TRANSACTION
    return not psycopg and not pymysql
