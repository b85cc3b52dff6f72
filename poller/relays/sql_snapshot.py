"""Which snapshot of a captured table is open in a target: an entry of the ledger, a part of its own without rows.

So it is read behind the fence, and written in the transaction of the batch that begins or ends the snapshot: what comes
again after a crash, or from a stale owner, changes nothing. An entry of another generation is over: a reset was in
between, or was taken back, and rows may have been passed that this snapshot did not mark.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection

from poller.handler.batch import Batch
from poller.sinks.ledger import LedgerRow
from poller.sinks.schema import family_of
from poller.sinks.statements import statements_for


class OpenSnapshot:
    """The snapshot that is open before a batch, in its fenced transaction.

    Attributes:
        mark: of the rows that it named; None if none is open.
    """

    def __init__(self, connection: Connection, batch: Batch, table: str) -> None:
        self._connection = connection
        self._batch = batch
        self._statements = statements_for(family_of(connection.dialect.name))
        part = f"snapshot of {hashlib.sha256(table.encode()).hexdigest()[:32]}"  # no name of a handler's has blanks
        names = {"app": batch.standing.app_name, "poller": batch.poller_name, "shard": batch.standing.shard}
        self._names = {**names, "part": part}
        self._there = self._statements.read(connection, self._names)
        here = [one.id for one in self._there if one.generation == batch.standing.generation]
        self.mark = here[0] if here else None

    def become(self, mark: int | None) -> None:
        """The snapshot that is open behind the batch."""
        ids = [one.id for one in self._there]
        if mark is None:
            self._statements.remove(self._connection, self._names, ids)
        elif mark != self.mark:
            generation, token = self._batch.standing.generation, self._batch.fencing_token
            entry = LedgerRow(mark, lane=0, generation=generation, token=token, through=0, row_keys=b"")
            self._statements.write(self._connection, self._names, entry, ids)
