"""A lost request and a lost answer of each write, with the state in a database server: the same laws as for blobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from poller.stores import SqlStore
from poller.stores.sql.engine import engine_for
from tests.resilience.faults.bench import Bench, commit, cursor
from tests.resilience.faults.operations import OPERATIONS, Operation


class Breaks:
    """Breaks the connection at one statement that writes: before the server has it, or after it is done."""

    def __init__(self, engine: Engine, *, applied: bool) -> None:
        self.left = 0
        event.listen(engine, "after_cursor_execute" if applied else "before_cursor_execute", self._statement)

    def _statement(self, connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if self.left and statement.split(maxsplit=1)[0].upper() in {"INSERT", "UPDATE"}:
            self.left -= 1
            connection.invalidate()
            closed = ConnectionResetError("server closed the connection")
            raise OperationalError(statement, {}, closed, connection_invalidated=True)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
@pytest.mark.parametrize("applied", [False, True], ids=["request-lost", "answer-lost"])
def test_in_a_database_a_break_loses_neither_lease_nor_write(
    postgres_db: str, operation: Operation, applied: bool
) -> None:
    engine = engine_for(postgres_db, Path())
    breaks = Breaks(engine, applied=applied)
    bench = Bench(None, cast(Any, None), "", stores={False: SqlStore(engine), True: SqlStore(postgres_db)})
    bench.acquire().release(give_back=True)
    tenure, before = bench.acquire(), bench.truth()
    breaks.left = 1

    operation.act(tenure)

    assert not breaks.left
    now = bench.truth()
    assert operation.shows(before, now)
    writes = len(now.write_ids) - len(before.write_ids)
    assert 1 <= writes <= (2 if operation.ends else 1), "one write, whatever became of its copies"
    assert now.lease.fencing_token == before.lease.fencing_token
    assert bench.emitted("write_resent") + bench.emitted("write_resolved") >= 1
    if operation.ends:
        assert tenure.released
    else:
        commit(tenure, cursor(8), batch_id="batch_2", release=True)
        assert bench.truth().checkpoint.cursor == cursor(8)
    assert bench.emitted("lease_lost") == 0
    bench.close()
    engine.dispose()
