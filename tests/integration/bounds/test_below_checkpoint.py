"""A server that has not come as far as the checkpoint: it went back, or the checkpoint was put ahead of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from poller import Poller
from poller.admin import Operator
from poller.model.cursor import Cursor, CursorKind
from poller.model.timing import Timing
from poller.observability import PollerEvent, ServerBelowCheckpoint
from poller.ports import Bound
from poller.runtime import SystemRuntime
from poller.sources import SqlSource
from poller.sources.bound import Rule
from poller.sources.columns import CursorColumn, Family
from poller.stores import MemoryStore
from tests.integration.bounds.pretended import Process, asked
from tests.integration.bounds.tables import INTEGER, XID8, ids, make, make_counted, make_xid8, source
from tests.integration.sources.tables import execute, family
from tests.support.cases import each
from tests.support.operators import reset
from tests.support.postgres import PostgresServer
from tests.support.services import wait_until

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


def _process(kind: CursorKind) -> Process:
    column = CursorColumn("c", Family.INTEGER)
    zone = "UTC" if kind == "timestamp+pk" else None
    return Process(Rule("exact", "asked for", column), asked(column, cursor_kind=kind, cursor_time_zone=zone).options)


def _taken(value: str | None, following: str) -> Bound:
    return Bound("exact", value=value, next=following, clock=NOON.isoformat())


def _at(kind: CursorKind, value: str, *, delivered: bool = True) -> Cursor:
    return Cursor(kind=kind, value=value, tiebreaker={"id": 1} if delivered else None)


@each(
    ("kind", "bounds", "checkpoint", "held"),
    [
        ("integer+pk", [("101", "101"), ("51", "51"), ("140", "140")], "100", [False, True, True]),
        ("integer+pk", [("101", "101"), ("100", "100"), ("140", "140")], "100", [False, True, True]),
        ("integer+pk", [("101", "101"), ("90", "101")], "100", [False, False]),  # another process's older sample
        ("integer+pk", [("101", "101"), (None, "101")], "100", [False, False]),  # cold
        ("xid8+pk", [("750", "760"), ("700", "705"), ("900", "900")], "740", [False, True, True]),
        ("xid8+pk", [("750", "760"), ("730", "790"), ("900", "900")], "740", [False, True, True]),  # passed, open below
        ("xid8+pk", [("730", "760"), ("745", "760")], "740", [False, False]),  # a reset to a row above the bound
        ("rowversion+pk", [("000000000000ffff", "0000000000010000"), ("0000000000000fff",) * 2], "000000000000fffe",
         [False, True]),
    ],
)  # fmt: skip
def test_a_server_below_the_checkpoint_holds_until_it_is_moved(
    kind: CursorKind, bounds: list[tuple[str | None, str]], checkpoint: str, held: list[bool]
) -> None:
    process, after = _process(kind), _at(kind, checkpoint)
    found = [process.see(_taken(*bound), after) for bound in bounds]
    assert [bound.below_checkpoint for bound in found] == held
    assert all(bound.value is None for bound in found if bound.below_checkpoint)


def test_another_process_holds_and_a_moved_checkpoint_does_not() -> None:
    first, second, later = _process("integer+pk"), _process("integer+pk"), _taken("140", "140")
    assert first.see(_taken("51", "51"), _at("integer+pk", "100")).below_checkpoint
    memory = first.remember()
    assert memory is not None
    second.recall(memory)
    assert second.see(later, _at("integer+pk", "100")).below_checkpoint
    assert second.see(later, _at("integer+pk", "50")).value == "140"
    assert second.see(later, _at("integer+pk", "100")).value == "140"


def test_a_start_at_what_is_handed_out_next_is_not_ahead() -> None:
    """As `start_from = "now"` finds it on an idle server."""
    start = _at("xid8+pk", "740", delivered=False)
    assert _process("xid8+pk").see(_taken("740", "740"), start).value == "740"


def test_a_start_configured_ahead_is_waited_for_and_no_longer() -> None:
    process, start = _process("integer+pk"), _at("integer+pk", "1000", delivered=False)
    assert process.see(_taken("51", "51"), start).below_checkpoint
    assert process.see(_taken("1001", "1001"), start).value == "1001"


@pytest.mark.parametrize(
    ("kind", "fallen"), [("integer+pk", ("120", "120")), ("xid8+pk", ("120", "120")), ("xid8+pk", ("120", "170"))]
)
def test_a_server_that_fell_above_the_checkpoint_is_read_as_usual(kind: CursorKind, fallen: tuple[str, str]) -> None:
    process, after = _process(kind), _at(kind, "100")
    assert [process.see(_taken(*one), after).value for one in (("150", "150"), fallen)] == ["150", "120"]


@pytest.mark.parametrize(
    ("value", "delivered", "ahead"),
    [
        ("2026-07-01T12:00:01", True, True),
        ("2026-07-01T12:00:00", True, False),
        ("2026-07-02T00:00:00", False, False),  # start_from: somebody means to begin then
    ],
)
def test_a_checkpoint_ahead_of_the_clock_is_named_as_that(value: str, delivered: bool, ahead: bool) -> None:
    after = _at("timestamp+pk", value, delivered=delivered)
    bound = _process("timestamp+pk").see(_taken("2026-07-01T11:59:59", ""), after)
    assert bound.below_checkpoint is ahead
    assert ("ahead of the database's clock" in str(bound.reason)) is ahead


class _Shop:
    """A poller over a table whose numbers the database hands out; each process looks at it anew."""

    def __init__(self, url: str, **keys: Any) -> None:
        self.url = url
        self.keys = {"table": "stamped", "pk_columns": ["id"], **keys}
        self.store = MemoryStore()
        self.got: list[int] = []
        self.events: list[PollerEvent] = []

    def tick(self) -> Bound:
        """By a process of its own."""
        made = SqlSource(self.url, **self.keys)
        poller = Poller("orders", app_name="shop", store=self.store, source=made, observers=[self.events.append])
        try:
            bound = poller.tick(lambda batch: self.got.extend(row["id"] for row in batch)).bound
        finally:
            poller.close()
        assert bound is not None
        return bound

    def deliver(self, many: int) -> None:
        wait_until(lambda: bool(self.tick()) and len(self.got) >= many, f"{many} rows")

    def reset(self, cursor: Cursor | None = None) -> None:
        operator = Operator(
            self.store, app_name="shop", poller_name="orders", runtime=SystemRuntime(), timing=Timing(60, 15), by="ada"
        )
        reset(operator, cursor)


BEGUN_ANEW = {
    "postgresql": ("truncate stamped restart identity",),
    "mysql": ("truncate stamped",),
    "sqlite": ("delete from stamped", "update sqlite_sequence set seq = 0"),
}


def _of_three(url: str) -> _Shop:
    """Three rows were delivered."""
    make_counted(url)
    shop = _Shop(url, **INTEGER)
    execute(url, *["insert into stamped (v) values (1)"] * 3)
    shop.deliver(3)
    return shop


@pytest.mark.guarantee(
    "Rows that commit late",
    "A server that went back skips no row unnoticed: while it is below the checkpoint nothing is read, until an "
    "operator moves the checkpoint",
)
@pytest.mark.parametrize("server", ["sqlite_url", "postgres_db", "mariadb_db"])
def test_numbers_handed_out_again_wait_for_a_person(server: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(server)
    shop = _of_three(url)
    execute(url, *BEGUN_ANEW[family(url)], "insert into stamped (v) values (2)")
    held = shop.tick()
    assert held.below_checkpoint
    assert "reset-to-cursor" in str(held.reason)
    execute(url, *["insert into stamped (v) values (2)"] * 4)
    assert shop.tick().below_checkpoint  # it has passed the checkpoint again, and ids 1 to 3 are new rows
    assert shop.got == [1, 2, 3]
    assert next(event.kind for event in shop.events if isinstance(event, ServerBelowCheckpoint)) == held.kind
    shop.reset()
    shop.deliver(8)
    assert shop.got[3:] == [1, 2, 3, 4, 5]


@each("again", [(), ("insert into stamped (v) values (2)",)])
def test_sqlites_count_that_was_deleted_with_the_rows_holds_too(sqlite_url: str, again: tuple[str, ...]) -> None:
    """As people begin a table anew: then no count stands there, as in a table that never had a row."""
    shop = _of_three(sqlite_url)
    execute(sqlite_url, "delete from stamped", "delete from sqlite_sequence", *again)
    assert shop.tick().below_checkpoint
    execute(sqlite_url, *["insert into stamped (v) values (2)"] * 4)
    assert shop.tick().below_checkpoint
    assert shop.got == [1, 2, 3]


@each(
    "edit",
    ["delete from sqlite_sequence", "update sqlite_sequence set seq = 0", "update stamped set id = 1000 where id = 3"],
)
def test_sqlites_count_below_its_own_rows_holds_nothing(sqlite_url: str, edit: str) -> None:
    """It hands out what comes after both: the count and the greatest id."""
    shop = _of_three(sqlite_url)
    execute(sqlite_url, edit)
    assert [shop.tick().below_checkpoint for _ in range(2)] == [False, False]
    execute(sqlite_url, "insert into stamped (v) values (2)")
    last = shop.tick()
    assert not last.below_checkpoint
    assert str(shop.got[-1]) == last.value
    assert shop.got[-1] > 3


@pytest.mark.parametrize("server", ["sqlite_url", "postgres_db", "mariadb_db"])
def test_a_table_that_was_emptied_holds_before_its_first_row(server: str, request: pytest.FixtureRequest) -> None:
    """Else a load between two looks passes the checkpoint again, unseen."""
    url = request.getfixturevalue(server)
    shop = _of_three(url)
    execute(url, *BEGUN_ANEW[family(url)])
    assert shop.tick().below_checkpoint
    execute(url, *["insert into stamped (v) values (2)"] * 5)
    assert shop.tick().below_checkpoint
    assert shop.got == [1, 2, 3]


def test_a_reset_to_the_same_row_ends_the_hold(sqlite_url: str) -> None:
    """Where the count was wrong for a moment only, and nothing was written below."""
    shop = _of_three(sqlite_url)
    execute(sqlite_url, *BEGUN_ANEW["sqlite"])
    assert shop.tick().below_checkpoint
    execute(sqlite_url, "update sqlite_sequence set seq = 3")
    assert shop.tick().below_checkpoint
    shop.reset(_at("integer+pk", "3").model_copy(update={"tiebreaker": {"id": 3}}))
    execute(sqlite_url, "insert into stamped (v) values (2)")
    shop.deliver(4)
    assert shop.got == [1, 2, 3, 4]


def test_transaction_ids_that_were_not_handed_out_yet_hold(postgres_db: str) -> None:
    make_xid8(postgres_db)
    execute(postgres_db, "insert into stamped (id) values (1)")
    with source(postgres_db, **XID8) as reader:
        last = reader.page(None, 10).cursors[-1]
        assert not reader.page(last, 10).bound.below_checkpoint
        ahead = last.model_copy(update={"value": str(int(last.value) + 1_000_000)})
        page = reader.page(ahead, 10)
        assert page.bound.below_checkpoint
        assert ahead.value in str(page.bound.reason)
        execute(postgres_db, "insert into stamped (id) values (2)")
        assert ids(reader, last) == [2]


@pytest.mark.soak
def test_a_crash_that_lost_commits_skips_no_row() -> None:
    with PostgresServer.start({"wal_writer_delay": "10s"}) as server:
        url = server.new_database()
        make(url, "id bigserial primary key, v integer, xid xid8 not null default pg_current_xact_id()")
        execute(url, "insert into stamped (v) values (0)")
        server.execute("checkpoint")
        shop = _Shop(url, **XID8)
        for _ in range(60):
            execute(url, "insert into stamped (v) values (1)")
        shop.deliver(61)
        server.crash()
        left = int(str(server.execute("select count(*) from stamped", database=make_url(url).database)[0][0]))
        assert left < 61, "nothing was lost, so nothing is shown"
        assert shop.tick().below_checkpoint
        for _ in range(80):
            execute(url, "insert into stamped (v) values (2)")
        assert shop.tick().below_checkpoint
        shop.reset()
        shop.deliver(61 + left + 80)
