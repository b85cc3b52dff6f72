"""Owners of one poller at one target: a stale one before and after its successor, and the lanes of one tenure.

Each schedule is driven step by step: that somebody waits for a lock is seen in the database, never assumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import pytest
from sqlalchemy import Connection, Engine
from sqlalchemy.dialects.postgresql import insert

from poller import Batch, Fenced
from poller.sinks.sql import fenced
from poller.sinks.statements import Names, PostgreSqlFencing, statements_for
from tests.integration.sinks.conftest import emptied
from tests.integration.sinks.target import apply, batch_of, engine_of, handler, ids, run
from tests.support.services import wait_until

SERVERS = [
    ("postgres", "READ COMMITTED"),
    ("postgres", "REPEATABLE READ"),
    ("postgres", "SERIALIZABLE"),
    ("mariadb", "READ COMMITTED"),
    ("mariadb", "REPEATABLE READ"),
    ("mysql", "REPEATABLE READ"),
]
WAITING = {
    "postgresql": "SELECT 'waiting', count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
    "AND datname = current_database()",
    "mysql": "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'",  # INNODB_TRX is stale to who looks often
}


class Owners:
    """Processes that write to one target: each has an engine of its own, and so a memory of its own of the fence."""

    def __init__(self, shop: Engine, isolation: str) -> None:
        self.shop, self.isolation = shop, isolation
        self.engines: list[Engine] = []
        self.threads = ThreadPoolExecutor(16)

    def process(self) -> Engine:
        url = self.shop.url.render_as_string(hide_password=False)
        self.engines.append(engine_of(url, self.isolation, pool_size=16))
        return self.engines[-1]

    def begin(self, engine: Engine, batch: Batch) -> Future[None]:
        """Start a handler, and come back when it waits for a lock."""
        before = self.waiting()
        started = self.threads.submit(run, batch, handler(engine))
        wait_until(lambda: started.done() or self.waiting() > before, "the handler waits, or has ended")
        return started

    def waiting(self) -> int:
        with self.shop.connect() as connection:
            asked = WAITING["postgresql" if connection.dialect.name == "postgresql" else "mysql"]
            return int(connection.exec_driver_sql(asked).one()[1])


@contextmanager
def _owners(shop: Engine, isolation: str) -> Iterator[Owners]:
    made = Owners(shop, isolation)
    try:
        yield made
    finally:
        made.threads.shutdown(wait=False)
        for engine in made.engines:
            engine.dispose()


def _named(server: tuple[str, str]) -> str:
    return "-".join(server).replace(" ", "_").lower()


@pytest.fixture(params=SERVERS, ids=_named)
def owners(request: pytest.FixtureRequest, databases: dict[str, Engine]) -> Iterator[Owners]:
    server, isolation = request.param
    with _owners(emptied(databases[server]), isolation) as made:
        yield made


def in_mid_transaction(engine: Engine, batch: Batch) -> Connection:
    """What a handler has before its commit."""
    connection = engine.connect()
    with fenced(connection, batch) as fresh:
        apply(connection, fresh)
    return connection


def known(engine: Engine) -> None:
    """The process has raised the fence to token 1, so that it asks for it shared."""
    run(batch_of([1], token=1), handler(engine))


def test_a_successor_waits_for_a_stale_owner_in_mid_transaction(owners: Owners) -> None:
    stale, successor = owners.process(), owners.process()
    known(stale)
    open_ = in_mid_transaction(stale, batch_of([2, 3], token=1, untried=True, through=3))
    begun = owners.begin(successor, batch_of([2, 3, 4], token=2, untried=True, through=4))
    assert not begun.done()
    open_.commit()
    open_.close()
    begun.result()
    assert ids(owners.shop) == [1, 2, 3, 4]


def test_a_successor_goes_on_where_the_stale_owner_rolls_back(owners: Owners) -> None:
    stale, successor = owners.process(), owners.process()
    known(stale)
    open_ = in_mid_transaction(stale, batch_of([2, 3], token=1, untried=True, through=3))
    begun = owners.begin(successor, batch_of([2, 3], token=2, through=3))
    assert not begun.done()
    open_.close()
    begun.result()
    assert ids(owners.shop) == [1, 2, 3]


def test_a_stale_owner_that_waits_for_its_successor_is_fenced(owners: Owners) -> None:
    stale, successor = owners.process(), owners.process()
    known(stale)
    run(batch_of([2], token=2, through=2), handler(successor))
    open_ = in_mid_transaction(successor, batch_of([3], token=2, through=3))  # alone: it may have been tried before
    begun = owners.begin(stale, batch_of([3], token=1, through=3))
    open_.commit()
    open_.close()
    with pytest.raises(Fenced):
        begun.result()
    assert ids(owners.shop) == [1, 2, 3]


def test_a_commit_whose_answer_was_lost_is_waited_for(owners: Owners) -> None:
    """The row is tried again under the same token while its first transaction is still on its way."""
    worker = owners.process()
    known(worker)
    lost = in_mid_transaction(worker, batch_of([2], token=1, untried=True, through=2))
    again = owners.begin(worker, batch_of([2], token=1, through=2))
    assert not again.done()
    lost.commit()
    lost.close()
    again.result()
    assert ids(owners.shop) == [1, 2]


LANES = pytest.mark.parametrize(
    "owners", [one for one in SERVERS if one[1] != "SERIALIZABLE"], indirect=True, ids=_named
)
"""Under SERIALIZABLE transactions fail that only came near each other, with or without a fence: no lanes there."""


@LANES
def test_lanes_do_not_wait_for_each_other(owners: Owners) -> None:
    worker = owners.process()
    known(worker)
    slow = in_mid_transaction(worker, batch_of([2], token=1, untried=True, through=2, lane=0, lanes=3))
    for number in range(3, 9):
        lane = 1 + number % 2
        batch = batch_of([number], token=1, untried=True, settled=1, through=number, lane=lane, lanes=3)
        begun = owners.begin(worker, batch)
        assert begun.done(), "a lane has waited for another"
        begun.result()
    slow.commit()
    slow.close()
    assert ids(owners.shop) == list(range(1, 9))


@LANES
def test_who_wants_the_fence_alone_is_not_passed_by_lanes(owners: Owners) -> None:
    """Else lanes that overlap keep a successor, or a row that is tried again, waiting for as long as they like."""
    worker = owners.process()
    known(worker)
    first = in_mid_transaction(worker, batch_of([2], token=1, untried=True, settled=1, through=2, lane=0, lanes=3))
    alone = owners.begin(worker, batch_of([3], token=1, settled=1, through=3, lane=1, lanes=3))
    later = owners.begin(worker, batch_of([4], token=1, untried=True, settled=1, through=4, lane=2, lanes=3))
    assert not alone.done()
    assert not later.done(), "a lane has passed who waits"
    first.commit()
    first.close()
    alone.result()
    later.result()
    assert ids(owners.shop) == [1, 2, 3, 4]


@LANES
def test_lanes_that_begin_a_tenure_at_once_all_get_in(owners: Owners) -> None:
    """One raises the fence, the others find it raised: none of them fails."""
    lanes = 6
    for token in (1, 2):
        workers, together = [owners.process() for _ in range(lanes)], Barrier(lanes)

        def lane(number: int, token: int = token, workers: list[Engine] = workers, all_: Barrier = together) -> None:
            batch = batch_of(
                [token * 100 + number],
                token=token,
                untried=True,
                settled=(token - 1) * lanes,
                through=(token - 1) * lanes + number + 1,
                lane=number,
                lanes=lanes,
            )
            batch.keys()
            all_.wait()
            run(batch, handler(workers[number]))

        if token == 1:
            known(owners.process())  # the tables are there; that they are made at once has a test of its own
        list(owners.threads.map(lane, range(lanes)))
    assert ids(owners.shop) == [1, *range(100, 100 + lanes), *range(200, 200 + lanes)]


@LANES
def test_processes_that_make_the_tables_at_once_all_get_in(owners: Owners) -> None:
    workers, together = [owners.process() for _ in range(4)], Barrier(4)

    def first(number: int) -> None:
        workers[number].connect().close()
        together.wait()
        run(batch_of([number], poller=f"orders-{number}"), handler(workers[number]))

    list(owners.threads.map(first, range(4)))
    assert ids(owners.shop) == [0, 1, 2, 3]


# --- controls: why it is done so --------------------------------------------------------------------------------------


def test_postgresqls_raise_in_the_handlers_transaction_doubles(
    databases: dict[str, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under REPEATABLE READ the snapshot is taken before the wait; the stale owner has only shared the fence, so that
    nothing of the fence has changed when the wait is over."""

    def naive(
        self: PostgreSqlFencing, connection: Connection, names: Names, token: int, *, stands: bool, shared: bool
    ) -> int:
        if stands and shared:
            return int(connection.execute(self._shared, names).one()[0])
        fence = statements_for("postgresql").tables.fence
        raising = insert(fence).values(**names, token=token)
        raised = raising.on_conflict_do_update(
            index_elements=list(fence.primary_key.columns), set_={"token": raising.excluded.token}
        )
        connection.execute(raised)
        return token

    with _owners(emptied(databases["postgres"]), "REPEATABLE READ") as owners:
        stale, successor = owners.process(), owners.process()
        known(stale)
        monkeypatch.setattr(PostgreSqlFencing, "enter", naive)
        open_ = in_mid_transaction(stale, batch_of([2], token=1, untried=True, through=2))
        begun = owners.begin(successor, batch_of([2], token=2, through=2))
        assert not begun.done()
        open_.commit()
        open_.close()
        begun.result()
        assert ids(owners.shop) == [1, 2, 2]


def test_rows_tried_before_double_where_the_fence_is_shared(owners: Owners) -> None:
    worker = owners.process()
    known(worker)
    lost = in_mid_transaction(worker, batch_of([2], token=1, untried=True, through=2))
    run(batch_of([2], token=1, untried=True, through=2), handler(worker))
    try:
        lost.commit()
    except Exception:  # noqa: BLE001 - SERIALIZABLE sees it
        assert owners.isolation == "SERIALIZABLE"
    lost.close()
    assert ids(owners.shop) == ([1, 2] if owners.isolation == "SERIALIZABLE" else [1, 2, 2])
