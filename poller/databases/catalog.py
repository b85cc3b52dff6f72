"""Questions about a database's catalog, which within a command are asked once per place (`poller.once`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Inspector

from poller import once
from poller.databases.pools import PooledSession

_T = TypeVar("_T")


def rows(
    connection: Connection, question: sa.TextClause, params: Mapping[str, Any] | None = None
) -> Sequence[sa.Row[Any]]:
    """All rows of the answer. Raises what the driver raises."""
    values = dict(params or {})
    key = question.text, _frozen(values)
    return asked(connection, key, lambda: connection.execute(question, values).all())


def asked(connection: Connection, key: Hashable, question: Callable[[], _T]) -> _T:
    """The answer to a question over this connection. Raises what the question raises."""
    place = place_of(connection)
    return question() if place is None else once.ask((place, key), question)


def inspector(connection: Connection) -> Inspector:
    """SQLAlchemy's view of the database; what it learns serves all inspectors of the same place. Raises what the
    driver raises."""
    made: Inspector = sa.inspect(connection)
    place = place_of(connection)
    if place is not None:
        made.info_cache = once.ask((place, "inspector"), lambda: made.info_cache)
    return made


def place_of(connection: Connection) -> Hashable | None:
    """Where a pool's connection leads; None for any other connection, whose answers are not kept."""
    session = PooledSession.of(connection)
    return None if session is None else session.place


def _frozen(values: Mapping[str, Any]) -> Hashable:
    return tuple((name, tuple(one) if isinstance(one, list) else one) for name, one in sorted(values.items()))
