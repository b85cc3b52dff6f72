"""A lost request and a lost answer of each write, with the state in a database server: the same laws as for blobs."""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from poller.model.document import State
from poller.stores import SqlStore
from poller.stores.sql.engine import engine_for
from tests.resilience.faults.accounts import hold_to_account, in_line
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
            _break(connection, statement)


def _break(connection: Any, statement: str) -> None:
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


class Mixed:
    """Three in ten statements that ask for or change a document meet a fault: they are lost, their answer is, they come
    late (their connection breaks, and they are applied later), or they are slow."""

    def __init__(self, engine: Engine, late: Engine, seed: int) -> None:
        self.given: Counter[str] = Counter()
        self._late, self._chance, self._lock = late, random.Random(seed), threading.Lock()
        self._timers: list[threading.Timer] = []
        self._answer = threading.local()
        event.listen(engine, "before_cursor_execute", self._before)
        event.listen(engine, "after_cursor_execute", self._after)

    def settle(self) -> None:
        """Until nothing is on its way any more."""
        for timer in self._timers:
            timer.join()

    def _before(self, connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        self._answer.lost = False
        if "poller_documents" not in statement:
            return
        with self._lock:
            point, delay = self._chance.random(), self._chance.uniform(0, 0.05)
        changes = statement.split(maxsplit=1)[0].upper() in {"INSERT", "UPDATE"}
        kind = "request" if point < 0.08 else "answer" if point < 0.18 else "slow" if point < 0.24 else ""
        if changes and 0.24 <= point < 0.32:
            kind = "late"
        if not kind:
            return
        with self._lock:
            self.given[kind] += 1
        self._answer.lost = kind == "answer"
        if kind == "slow":
            threading.Event().wait(delay)
        elif kind == "late":
            timer = threading.Timer(delay, self._land, (statement, parameters))
            timer.start()
            self._timers.append(timer)
        if kind in {"request", "late"}:
            _break(connection, statement)

    def _after(self, connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if self._answer.lost:
            _break(connection, statement)

    def _land(self, statement: str, parameters: Any) -> None:
        with self._late.connect() as connection:
            connection.exec_driver_sql(statement, parameters)


def _keep_history(engine: Engine) -> None:
    """The database itself writes down each version of a document that it had: the truth."""
    number, text = ("bigserial", "text") if engine.dialect.name == "postgresql" else ("serial", "longtext")
    insert = "INSERT INTO history (was, tag, body) VALUES"
    with engine.connect() as connection:
        run = connection.exec_driver_sql
        run(f"CREATE TABLE history (number {number}, was varchar(32), tag varchar(32), body {text})")
        if engine.dialect.name == "postgresql":
            run(
                "CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                f"{insert} (OLD.tag, NEW.tag, NEW.body); RETURN NEW; END $$"
            )
            run("CREATE TRIGGER remember AFTER UPDATE ON poller_documents FOR EACH ROW EXECUTE FUNCTION remember()")
        else:
            run(
                "CREATE TRIGGER remember AFTER UPDATE ON poller_documents FOR EACH ROW "
                f"{insert} (OLD.tag, NEW.tag, NEW.body)"
            )


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("any_db", "seed"), [("postgres", 21), ("mariadb", 22)], indirect=["any_db"])
def test_in_a_database_writers_learn_the_truth_in_many_writes(any_db: str, seed: int) -> None:
    engine, direct = engine_for(any_db, Path()), engine_for(any_db, Path())
    bench = Bench(None, cast(Any, None), "", ttl=3.0, stores={False: SqlStore(engine), True: SqlStore(direct)})
    bench.acquire().release(give_back=True)
    _keep_history(direct)
    mixed = Mixed(engine, direct, seed)

    def chain() -> list[State]:
        mixed.settle()
        with direct.connect() as connection:
            rows = connection.exec_driver_sql("SELECT was, tag, body FROM history ORDER BY number").all()
        assert len({row.was for row in rows}) == len(rows), "one version was replaced twice"
        return in_line({row.was: (row.tag, State.model_validate_json(row.body)) for row in rows})

    summary = hold_to_account(bench, 400, chain, mixed.given, f"seed {seed}")
    print(f"\n{any_db.partition(':')[0]}: {summary}")
    assert summary["lost"] > 0
    assert summary["resolved"] > 10
    bench.close()
    engine.dispose()
    direct.dispose()
