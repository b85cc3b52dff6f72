"""What a driver knows of its connection, without a statement being sent; and what it does behind SQLAlchemy's back.

A fenced transaction must be able to say that nothing was sent before its first statement: then that may be committed
alone, or sent again, without anything of the handler being committed or lost.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, TwoPhaseTransaction

from poller.errors import ConfigError

_IN_TRANSACTION = 1
"""MySQL's SERVER_STATUS_IN_TRANS: since a table was touched."""


def check(connection: Connection, family: str) -> None:
    """Refuse a connection on which a fence would not hold.

    Raises: ConfigError: it commits each statement at once, is inside a savepoint or a two-phase transaction, or has
    sent a statement in this transaction.
    """
    if _autocommits(connection, family):
        raise ConfigError(
            "The connection commits each statement at once (AUTOCOMMIT): the fence would not be held.",
            next_step="Use an engine without AUTOCOMMIT, and `with engine.begin() as connection`.",
        )
    if connection.in_nested_transaction() or isinstance(connection.get_transaction(), TwoPhaseTransaction):
        raise ConfigError(
            "A fenced block needs an ordinary transaction, not a savepoint or a two-phase transaction.",
            next_step="Enter `fenced` right after `engine.begin()`; savepoints may be used inside the block.",
        )
    if _has_begun(connection, family):
        raise ConfigError(
            "Something was sent on this connection before the fence: what it read may be stale.",
            next_step="Make `fenced` the first thing in its transaction.",
        )


def commit(connection: Connection) -> None:
    """Commit what was sent so far, and go on in a new transaction of the database; for SQLAlchemy it is the same."""
    connection.dialect.do_commit(connection.connection)


def roll_back(connection: Connection) -> None:
    """As `commit`."""
    connection.dialect.do_rollback(connection.connection)


def _autocommits(connection: Connection, family: str) -> bool:
    driver: Any = connection.connection.driver_connection
    if family != "sqlite":
        return connection.dialect.detect_autocommit_setting(connection.connection.dbapi_connection)  # type: ignore[arg-type]
    # Where it begins transactions by itself no longer, an event of the engine may have begun one (BEGIN IMMEDIATE).
    by_hand = driver.isolation_level is None or getattr(driver, "autocommit", None) is True
    return by_hand and not driver.in_transaction


def _has_begun(connection: Connection, family: str) -> bool:
    """True if a statement was sent in this transaction.

    SQLite is not asked: there a transaction that has read something old cannot write. PyMySQL learns it by a ping,
    MariaDB is asked; with other drivers MySQL cannot say.
    """
    driver: Any = connection.connection.driver_connection
    if family == "postgresql":
        status = getattr(getattr(driver, "info", None), "transaction_status", None)
        if status is None:
            raise ConfigError(
                f"The driver {connection.dialect.driver} does not say whether a transaction has begun.",
                next_step="Use psycopg: postgresql+psycopg://...",
            )
        return bool(status != 0)
    if family == "mysql":
        if connection.dialect.driver == "pymysql":
            driver.ping(reconnect=False)  # results of a SELECT bring no status
            return bool(driver.server_status & _IN_TRANSACTION)
        if getattr(connection.dialect, "is_mariadb", False):
            return bool(connection.exec_driver_sql("SELECT @@in_transaction").scalar())
    return False
