"""Rows applied to a SQL target once each, however often they are handed over: `fenced`.

    def on_orders(batch):
        with target.begin() as connection, fenced(connection, batch) as fresh:
            if fresh:
                connection.execute(upsert, [to_target(row) for row in fresh])

docs/handlers.md says how it works, and what it does not promise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from poller.handler.batch import Batch
from poller.ports import Row
from poller.sinks.schema import LONGEST_NAME
from poller.sinks.transaction import FencedTransaction

__all__ = ["fenced"]

_PART = re.compile(rf"[A-Za-z0-9_.-]{{0,{LONGEST_NAME}}}")


@contextmanager
def fenced(connection: Connection, batch: Batch, *, part: str = "") -> Iterator[list[Row]]:
    """The rows of a batch that were not applied yet, in a transaction that a stale owner cannot commit.

    It is the first thing in its transaction, which is committed after the block; a handler that returns before that,
    or after it was rolled back, has failed. Rows that `batch.fail` or `batch.reject` names before the block ends are
    not noted as applied. The tables are made on first use.

    Args:
        connection: of the target, in a transaction (PostgreSQL, MariaDB, MySQL or SQLite).
        part: a name, if a batch has several blocks on one database: each applies its rows once.
    Raises: Fenced (a later owner has written here); ConfigError (AUTOCOMMIT, not the first statement, another database,
        a second block of the same name); what the database raises. ValueError for an invalid `part`, TypeError for a
        Session or an AsyncConnection.
    """
    if _PART.fullmatch(part) is None:
        raise ValueError(f"part takes up to {LONGEST_NAME} letters, digits, dots, hyphens and underscores")
    if not isinstance(connection, Connection):
        raise TypeError(
            "fenced takes a Connection: session.connection() of a Session; in async code, run it in a thread"
        )
    transaction = FencedTransaction(connection, batch, part)
    fresh = transaction.enter(connection)
    try:
        yield fresh
    except BaseException:
        transaction.abandon()
        raise
    transaction.leave(connection)
