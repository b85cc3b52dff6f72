"""MariaDB and MySQL: turns at looking at innodb_trx, among all processes that poll one server.

Two looks less than 0.1 s apart show stale data: the view is a cache that does not refresh while it is read more often.
So a look is made under a named lock of the server (GET_LOCK; a read-only session may take it, and it is not
replicated). The server grants the lock in the order of the requests. Other clients may read the view without it: each
look still proves that it is fresh.

A look takes milliseconds. A session that holds the lock for a whole wait hangs, or has lost its connection without the
server noticing, which keeps the lock for hours. The others then use another lock, named after that session.
"""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

NAME = "poller.innodb_trx"
WAIT = 1
"""How many seconds to wait for a turn: about eight looks."""
_WAITS = re.compile(rf"select get_lock\('{re.escape(NAME)}(?:/\d+)?', \d+\)")
_CUT_SHORT = frozenset({1317, 1969, 3024, 3058, 3168})
"""Errors of a wait that was ended: killed, the session's own time limit, a deadlock of named locks."""


class Turn(enum.Enum):
    """How a turn was obtained."""

    AT_ONCE = "at once"
    AFTER_ANOTHER = "after another's look"
    """That look has just ended: another one now would be too early."""
    MISSED = "others were looking all the time"
    UNREGULATED = "the server has no named locks"


class Turns:
    """The turns of one tracker, and the sessions that it found to hang in theirs."""

    def __init__(self) -> None:
        self._hang: frozenset[int] = frozenset()

    @contextlib.contextmanager
    def turn(self, connection: Connection) -> Iterator[Turn]:
        """A turn to look, kept until the block ends. Raises what the driver raises where the connection broke."""
        name, got = self._ask(connection)
        try:
            yield got
        finally:
            if got in (Turn.AT_ONCE, Turn.AFTER_ANOTHER):
                _release(connection, name)

    def _ask(self, connection: Connection) -> tuple[str, Turn]:
        name, holder = NAME, None
        try:
            for _ in range(len(self._hang) + 1):
                if _has(connection, lock(name, 0)):
                    self._hang = self._hang if name != NAME else frozenset()
                    return name, Turn.AT_ONCE
                holder = _holder(connection, name)
                if holder not in self._hang:
                    break
                name = f"{NAME}/{holder}"
            if _has(connection, lock(name, WAIT)):
                return name, Turn.AFTER_ANOTHER
            if holder is not None and _holder(connection, name) == holder:
                self._hang |= {holder}
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            arguments: Any = getattr(error.orig, "args", ())
            return name, Turn.MISSED if arguments and arguments[0] in _CUT_SHORT else Turn.UNREGULATED
        return name, Turn.MISSED


def lock(name: str, seconds: int) -> str:
    """The statement that asks for a lock and waits for it so long."""
    return f"select get_lock('{name}', {seconds})"


def waits(statement: str | None) -> bool:
    """Whether a session that runs this only waits for its turn."""
    return statement is not None and _WAITS.fullmatch(statement) is not None


def _has(connection: Connection, sql: str) -> bool:
    return bool(connection.exec_driver_sql(sql).scalar_one() == 1)


def _holder(connection: Connection, name: str) -> int | None:
    found = connection.exec_driver_sql(f"select is_used_lock('{name}')").scalar_one()
    return None if found is None else int(found)


def _release(connection: Connection, name: str) -> None:
    """Twice if need be: a lock that stayed would keep all others from looking."""
    for _ in range(2):
        if connection.invalidated:
            return
        with contextlib.suppress(DBAPIError):  # a connection that broke has lost its lock
            connection.exec_driver_sql(f"select release_lock('{name}')")
            return
