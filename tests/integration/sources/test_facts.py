"""A table changes between two pages or across a restart: no row is lost in silence. A document says what its
checkpoint rests on, and that is compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from poller import Batch, Poller
from poller.admin import Changes, Rebind
from poller.errors import SourceError, SourceUnavailable
from poller.observability import PollerEvent
from poller.ports import Found
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.sources.tables import execute, family
from tests.support.cases import each
from tests.support.services import wait_until

DOCUMENT = "state/shop/orders.json"
MANY = 60
HALF = 30
WORDS = [f"{'abc'[n % 3]}{'Zz'[n % 2]}{n}" for n in range(MANY)]
"""Keys that collations sort in different ways."""


class Shop:
    """One poller over `orders`, its document, and what it delivered; `restart` is another process."""

    def __init__(self, url: str, options: dict[str, Any] | None = None, **keys: Any) -> None:
        self.url, self.keys, self.options = url, keys, options or {}
        self.store, self.events = MemoryStore(), list[PollerEvent]()
        self.delivered: list[Any] = []
        self.poller = self._made()

    def _made(self) -> Poller:
        defaults: dict[str, Any] = {
            "table": None if "query" in self.keys else "orders",
            "cursor_column": "updated_at",
            "cursor_time_zone": "UTC",
            "pk_columns": ["id"],
            "bound": "none",
        }
        source = SqlSource(self.url, **(defaults | self.keys))
        chosen: dict[str, Any] = {"batch_size": HALF, "max_batches_per_tick": 1, "read_ahead": 0} | self.options
        observers = [self.events.append]
        return Poller("orders", source=source, store=self.store, app_name="shop", observers=observers, **chosen)

    def restart(self, *, options: Mapping[str, Any] | None = None, **keys: Any) -> None:
        self.poller.close()
        self.keys |= keys
        self.options |= options or {}
        self.poller = self._made()

    def tick(self) -> Any:
        return self.poller.tick(self._take)

    def _take(self, batch: Batch) -> None:
        self.delivered += [row["id"] for row in batch]

    def drain(self) -> list[Any]:
        """All that is left, and what of it came before."""
        before = len(self.delivered)
        while self.tick().rows:
            pass
        return self.delivered[before:]

    @property
    def facts(self) -> dict[str, Any]:
        return dict(json.loads(self._found.body).get("facts") or {})

    @property
    def _found(self) -> Found:
        found = self.store.read(DOCUMENT)
        assert isinstance(found, Found)
        return found

    def edit(self, **fields: Any) -> None:
        """Another program writes these fields of the document; None: it leaves one out."""
        found = self._found
        document = {**json.loads(found.body), **fields}
        left = {name: value for name, value in document.items() if value is not None}
        self.store.write(DOCUMENT, json.dumps(left).encode(), if_tag=found.tag)

    def said(self, name: str) -> list[PollerEvent]:
        return [event for event in self.events if event.name == name]


@pytest.fixture
def shops() -> Iterator[Callable[..., Shop]]:
    made: list[Shop] = []

    def make(url: str, options: dict[str, Any] | None = None, **keys: Any) -> Shop:
        made.append(Shop(url, options, **keys))
        return made[-1]

    yield make
    for one in made:
        one.poller.close()


def make(
    url: str, key: str, stamp: str, ids: list[Any], stamps: Callable[[int], str] | str, name: str = "orders"
) -> None:
    at = (lambda _: stamps) if isinstance(stamps, str) else stamps
    rows = [{"id": one, "at": at(n)} for n, one in enumerate(ids)]
    execute(
        url,
        f"create table {name} (id {key} not null primary key, updated_at {stamp} not null)",
        f"insert into {name} values (:id, :at)",
        rows=rows,
    )


def value(url: str, sql: str) -> Any:
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        return connection.exec_driver_sql(sql).scalar()


def lost(shop: Shop, change: Callable[[], None], ids: list[Any], *, restarts: bool) -> list[Any]:
    """What comes after a change in the middle. Every row comes."""
    assert shop.tick().rows == HALF
    change()
    if restarts:
        shop.restart()
    after = shop.drain()
    assert {*map(str, shop.delivered)} == {*map(str, ids)}
    return after


TIE = "2026-01-01 00:00:00.500000"
COLLATIONS = [
    ("postgres_db", 'text collate "C"', 'alter table orders alter id type text collate "en-x-icu"'),
    ("postgres_db", 'text collate "en-x-icu"', 'alter table orders alter id type text collate "C"'),
    ("mariadb_db", "varchar(20) collate utf8mb4_bin",
     "alter table orders modify id varchar(20) collate utf8mb4_general_ci not null"),
    ("mariadb_db", "varchar(20) collate utf8mb4_general_ci",
     "alter table orders modify id varchar(20) collate utf8mb4_bin not null"),
]  # fmt: skip
STAMP = {"postgresql": "timestamptz", "mysql": "datetime(6)", "sqlite": "text"}


@each("restarts", [False, True])
@each(("database", "key", "change"), COLLATIONS)
def test_a_key_that_sorts_otherwise_begins_the_tie_again(
    database: str, key: str, change: str, restarts: bool, shops: Callable[..., Shop], request: pytest.FixtureRequest
) -> None:
    url: str = request.getfixturevalue(database)
    make(url, key, STAMP[family(url)], WORDS, TIE)
    shop = shops(url)
    lost(shop, lambda: execute(url, change), WORDS, restarts=restarts)
    assert len(shop.said("tie_repeated")) == 1
    assert shop.facts["columns"]["id"]["collation"]


@each("lanes", [1, 2, 4])
def test_a_change_between_pages_ends_the_tick_and_the_next_repeats(
    postgres_db: str, lanes: int, shops: Callable[..., Shop]
) -> None:
    words = [f"{word}{more}" for more in "abcd" for word in WORDS]
    make(postgres_db, 'text collate "C"', "timestamptz", words, TIE)
    shop = shops(postgres_db)
    shop.restart(
        options={"concurrency": lanes, "batch_size": 3, "page_size": 12, "max_batches_per_tick": 0, "read_ahead": 1}
    )
    changes = iter(['alter table orders alter id type text collate "en-x-icu"'])

    def changes_once(batch: Batch) -> None:
        for change in changes:
            execute(postgres_db, change)
        shop.delivered.extend(row["id"] for row in batch)

    first = shop.poller.tick(changes_once)
    assert first.outcome == "delivered"
    assert first.left
    shop.drain()
    assert {*shop.delivered} == {*words}
    assert len(shop.said("tie_repeated")) == 1


@each("restarts", [False, True])
def test_what_lanes_did_is_forgotten_with_the_order(
    postgres_db: str, restarts: bool, shops: Callable[..., Shop]
) -> None:
    """A lane has done all its rows up to one: in another order these are others."""
    make(postgres_db, 'text collate "C"', "timestamptz", WORDS, TIE)
    shop = shops(postgres_db, {"batch_size": 5, "concurrency": 2, "max_batches_per_tick": 0})
    bad = sorted(WORDS)[4]

    def fails(batch: Batch) -> None:
        if bad in [row["id"] for row in batch]:
            raise RuntimeError("no")
        shop.delivered += [row["id"] for row in batch]

    assert shop.poller.tick(fails).outcome == "handler_failed"
    assert json.loads(shop._found.body)["delivery"]["lanes"]
    assert shop.delivered
    execute(postgres_db, 'alter table orders alter id type text collate "en-x-icu"')
    if restarts:
        shop.restart()
    shop.poller.resume(by="me")
    shop.drain()
    assert {*shop.delivered} == {*WORDS}


@each("restarts", [False, True])
@each("kind", ["view", "query"])
def test_so_does_one_of_a_view_or_query(
    postgres_db: str, kind: str, restarts: bool, shops: Callable[..., Shop]
) -> None:
    make(postgres_db, 'text collate "C"', "timestamptz", WORDS, TIE)
    view = "create view seen as select * from orders"
    execute(postgres_db, view)
    change = ["drop view seen", 'alter table orders alter id type text collate "en-x-icu"', view]
    if kind == "view":  # made anew, it is another object: its rows show that it is the same
        shop = shops(postgres_db, table="seen")
    else:
        shop = shops(postgres_db, query="select id, updated_at from orders")
    lost(shop, lambda: execute(postgres_db, *change), WORDS, restarts=restarts)


@each("restarts", [False, True])
@each("kind", ["table", "query"])
@each("places", ["numeric(10,2)", "numeric"])
def test_a_number_that_holds_fewer_places_begins_again_with_it(
    postgres_db: str, kind: str, places: str, restarts: bool, shops: Callable[..., Shop]
) -> None:
    ids = [*range(1, MANY + 1)]
    execute(
        postgres_db,
        f"create table orders (id integer primary key, n {places} not null)",
        f"insert into orders select {MANY + 1} - g, 1 + g / 100.0 from generate_series(1, {MANY}) g",
    )
    keys = {} if kind == "table" else {"query": "select id, n from orders"}
    shop = shops(postgres_db, cursor_column="n", cursor_kind="integer+pk", **keys)
    lost(shop, lambda: execute(postgres_db, "alter table orders alter n type numeric(9,0)"), ids, restarts=restarts)
    assert len(shop.said("tie_repeated")) == 1


@each("restarts", [False, True])
@each("kind", ["table", "query"])
def test_so_does_one_of_mariadb(mariadb_db: str, kind: str, restarts: bool, shops: Callable[..., Shop]) -> None:
    ids = [*range(1, MANY + 1)]
    execute(
        mariadb_db,
        "create table orders (id integer primary key, n decimal(10,2) not null)",
        f"insert into orders select {MANY + 1} - seq, 1 + seq / 100.0 from seq_1_to_{MANY}",
    )
    keys = {} if kind == "table" else {"query": "select id, n from orders"}
    shop = shops(mariadb_db, cursor_column="n", cursor_kind="integer+pk", **keys)
    wider = "alter table orders modify n decimal(12,3) not null"
    narrower = "alter table orders modify n decimal(10,0) not null"
    shop.restart(options={"batch_size": 10})
    shop.tick()
    execute(mariadb_db, wider)
    shop.tick()
    assert not shop.said("tie_repeated")
    execute(mariadb_db, narrower)
    if restarts:
        shop.restart()
    shop.drain()
    assert {*shop.delivered} == {*ids}
    assert len(shop.said("tie_repeated")) == 1


@each("restarts", [False, True])
@each(("change", "repeats"), [("numeric(9,0)", True), ("numeric(12,3)", False), ("numeric", False)])
def test_so_does_one_of_a_key(
    postgres_db: str, change: str, repeats: bool, restarts: bool, shops: Callable[..., Shop]
) -> None:
    ids = [*range(1, MANY + 1)]
    execute(
        postgres_db,
        "create table orders (k numeric(10,2), id integer, updated_at timestamptz not null, primary key (k, id))",
        f"insert into orders select 1 + g / 100.0, {MANY + 1} - g, '{TIE}Z' from generate_series(1, {MANY}) g",
    )
    shop = shops(postgres_db, pk_columns=["k", "id"])
    lost(shop, lambda: execute(postgres_db, f"alter table orders alter k type {change}"), ids, restarts=restarts)
    assert bool(shop.said("tie_repeated")) == repeats


@each("change", ["fewer digits", "another table"])
def test_large_pages_of_arrow_show_a_change_between_them(
    postgres_db: str, change: str, shops: Callable[..., Shop]
) -> None:
    pytest.importorskip("pyarrow")
    many, page = 6_000, 990
    moments = f"timestamptz '{TIE}Z' + g * interval '10 ms' from generate_series(1, {many}) g"
    for name, first in [("orders", many), ("archive", 3 * many)]:
        execute(
            postgres_db,
            f"create table {name} (id integer primary key, updated_at timestamptz not null)",
            f"insert into {name} select {first + 1} - g, {moments}",
        )
    statements = ["alter table orders alter updated_at type timestamptz(0)"] if change == "fewer digits" else SWAP
    shop = shops(postgres_db, format="arrow")
    shop.restart(options={"batch_size": page, "page_size": page, "max_batches_per_tick": 0})
    calls = iter(range(many))

    def changes(batch: Batch) -> None:
        shop.delivered.extend(row["id"] for row in batch)
        if next(calls) == 2:
            execute(postgres_db, *statements)

    if change == "fewer digits":
        shop.poller.tick(changes)
        shop.drain()
        assert {*shop.delivered} == {*range(1, many + 1)}
        return
    with pytest.raises(SourceError, match="another table has its name"):
        shop.poller.tick(changes)
    assert len(shop.delivered) == 3 * page


@each("restarts", [False, True])
@each("change", ["alter table orders alter id type bigint", "alter table orders alter updated_at type timestamptz(6)"])
def test_a_wider_type_repeats_nothing(
    postgres_db: str, change: str, restarts: bool, shops: Callable[..., Shop]
) -> None:
    ids = [*range(1, MANY + 1)]
    make(postgres_db, "integer", "timestamptz(3)", ids, TIE)
    shop = shops(postgres_db)
    assert lost(shop, lambda: execute(postgres_db, change), ids, restarts=restarts) == ids[HALF:]
    assert not shop.said("tie_repeated")


def test_other_facts_wait_for_the_write_that_moves_the_checkpoint(postgres_db: str, shops: Callable[..., Shop]) -> None:
    make(postgres_db, "integer", "timestamptz", [*range(1, MANY + 1)], TIE)
    shop = shops(postgres_db)
    shop.tick()
    execute(postgres_db, "alter table orders alter id type bigint")

    def fails(_: Batch) -> None:
        raise RuntimeError("no")

    assert shop.poller.tick(fails).outcome == "handler_failed"
    assert shop.facts["columns"]["id"]["type"] == "integer"
    shop.restart()
    shop.poller.resume(by="me")
    shop.drain()
    assert shop.facts["columns"]["id"]["type"] == "bigint"
    assert sorted(shop.delivered) == [*range(1, MANY + 1)]


# --- which table ------------------------------------------------------------------------------------------------------

SWAP = ["alter table orders rename to other", "alter table archive rename to orders"]


@each("restarts", [False, True])
def test_two_tables_swapped_by_name_stop_it(any_db: str, restarts: bool, shops: Callable[..., Shop]) -> None:
    ids = [*range(1, MANY + 1)]
    make(any_db, "integer", STAMP[family(any_db)], ids, TIE)
    around = ("2025-01-01 00:00:00.500000", "2027-01-01 00:00:00.500000")
    make(any_db, "integer", STAMP[family(any_db)], [1000 + one for one in ids], lambda n: around[n % 2], "archive")
    shop = shops(any_db)
    assert shop.tick().rows == HALF
    execute(any_db, *SWAP)
    if restarts:
        shop.restart()
    with pytest.raises(SourceError, match="another table has its name") as stopped:
        shop.tick()
    assert "poller rebind" in stopped.value.next_step
    execute(any_db, "alter table orders rename to archive", "alter table other rename to orders")
    shop.drain()
    assert {*shop.delivered} == {*ids}


@each("restarts", [False, True])
def test_a_table_made_anew_with_the_row_at_the_checkpoint_goes_on(
    any_db: str, restarts: bool, shops: Callable[..., Shop]
) -> None:
    ids = [*range(1, MANY + 1)]
    make(any_db, "integer", STAMP[family(any_db)], ids, TIE)
    make(any_db, "integer", STAMP[family(any_db)], ids, TIE, "copy")
    shop = shops(any_db)
    change = ["drop table orders", "alter table copy rename to orders"]
    lost(shop, lambda: execute(any_db, *change), ids, restarts=restarts)
    assert len(shop.said("table_replaced")) == 1


@each("restarts", [False, True])
@each("rebuild", ["optimize table orders", "alter table orders engine = innodb"])
def test_a_rebuild_by_mariadb_stops_no_poller_of_numbers(
    mariadb_db: str, rebuild: str, restarts: bool, shops: Callable[..., Shop]
) -> None:
    """By all that MariaDB says, the table is another one."""
    ids = [*range(1, MANY + 1)]
    rows = ", ".join(["('x')"] * MANY)
    table = "create table orders (id bigint auto_increment primary key, note varchar(5))"
    execute(mariadb_db, table, f"insert into orders (note) values {rows}")
    shop = shops(mariadb_db, bound="auto", cursor_column="id", cursor_kind="integer+pk")
    made = "select create_time from information_schema.tables where table_schema = database() and table_name = 'orders'"

    def rebuilt() -> None:
        def is_another() -> bool:  # its time has whole seconds
            execute(mariadb_db, rebuild)
            return bool(value(mariadb_db, made) != before)

        before = value(mariadb_db, made)
        wait_until(is_another, "another time at which it was created")

    assert lost(shop, rebuilt, ids, restarts=restarts) == ids[HALF - 1 :], "the last row once more"


@each("restarts", [False, True])
def test_a_vacuum_stops_no_poller_of_numbers(sqlite_url: str, restarts: bool, shops: Callable[..., Shop]) -> None:
    ids = [*range(1, MANY + 1)]
    rows = ", ".join(["('x')"] * MANY)
    table = "create table orders (id integer primary key autoincrement, note text)"
    execute(sqlite_url, "create table first (x integer)", table, f"insert into orders (note) values {rows}")
    shop = shops(sqlite_url, bound="auto", cursor_column="id", cursor_kind="integer+pk")
    place = "select rootpage from sqlite_master where name = 'orders'"

    def vacuumed() -> None:
        before = value(sqlite_url, place)
        execute(sqlite_url, "drop table first", "vacuum")
        assert value(sqlite_url, place) != before

    assert lost(shop, vacuumed, ids, restarts=restarts) == ids[HALF - 1 :], "the last row once more"


@each("restarts", [False, True])
def test_a_table_that_began_again_is_another_whatever_its_numbers(
    postgres_db: str, restarts: bool, shops: Callable[..., Shop]
) -> None:
    make = "create table orders (id bigint generated always as identity primary key, note integer)"
    execute(postgres_db, make, f"insert into orders (note) select n from generate_series(1, {MANY}) n")
    shop = shops(postgres_db, bound="auto", cursor_column="id", cursor_kind="integer+pk")
    assert shop.tick().rows == HALF
    execute(
        postgres_db, "drop table orders", make, f"insert into orders (note) select n from generate_series(1, {MANY}) n"
    )
    if restarts:
        shop.restart()
    with pytest.raises(SourceError, match="another table has its name"):
        shop.tick()
    assert Changes(shop.poller).make(Rebind()).changed
    assert shop.drain() == [*range(HALF + 1, MANY + 1)], "a person said that the first ones were delivered"


def test_a_document_of_an_older_version_takes_the_facts_of_now(any_db: str, shops: Callable[..., Shop]) -> None:
    ids = [*range(1, MANY + 1)]
    make(any_db, "integer", STAMP[family(any_db)], ids, TIE)
    shop = shops(any_db)
    shop.tick()
    known = shop.facts
    assert not shop.said("facts_taken")
    shop.edit(facts=None, columns=known["columns"], source_seen={"made": "oid 1"})
    shop.restart()
    assert shop.drain() == ids[HALF:]
    assert len(shop.said("facts_taken")) == 1
    assert shop.facts == known
    assert not {"columns", "source_seen"} & {*json.loads(shop._found.body)}


@each("facts", [{}, {"columns": "x"}, {"columns": {"id": 5}, "server": 7}])
def test_facts_that_make_no_sense_are_taken_anew(sqlite_url: str, facts: Any, shops: Callable[..., Shop]) -> None:
    ids = [*range(1, MANY + 1)]
    make(sqlite_url, "integer", "text", ids, TIE)
    shop = shops(sqlite_url)
    shop.tick()
    known = shop.facts
    shop.edit(facts=facts)
    shop.restart()
    assert shop.drain() == ids[HALF:]
    assert shop.facts == known


@each("kind", ["a number", "a time"])
def test_another_server_holds_numbers_until_a_person_says_go_on(
    postgres_db: str, kind: str, shops: Callable[..., Shop]
) -> None:
    execute(
        postgres_db,
        "create table orders (id bigint generated always as identity primary key, updated_at timestamptz)",
        "insert into orders (updated_at) select timestamptz '2026-01-01Z' + n * interval '1 s'"
        f" from generate_series(1, {MANY}) n",
    )
    keys: dict[str, Any] = {"cursor_column": "id", "cursor_kind": "integer+pk"} if kind == "a number" else {}
    shop = shops(postgres_db, bound="auto", **keys)
    assert shop.tick().rows == HALF
    server = shop.facts["server"]
    assert server.endswith("/1")
    shop.edit(facts={**shop.facts, "server": f"{server[:-1]}7"})
    shop.restart()
    if kind == "a number":
        for _ in range(2):
            with pytest.raises(SourceUnavailable, match="another server answers") as waits:
                shop.tick()
            assert "poller rebind --after-failover" in waits.value.next_step
        assert not Changes(shop.poller).make(Rebind()).changed
        assert Changes(shop.poller).make(Rebind(after_failover=True)).changed
    assert shop.drain() == [*range(HALF + 1, MANY + 1)]
    assert shop.facts["server"] == server


# --- what the server guarantees ---------------------------------------------------------------------------------------


def test_a_lost_privilege_waits_and_goes_on_by_itself(mariadb_db: str, shops: Callable[..., Shop]) -> None:
    make(mariadb_db, "integer", STAMP["mysql"], [*range(1, MANY + 1)], TIE)
    name = f"r{abs(hash(mariadb_db)) % 10**8}"
    url = sa.make_url(mariadb_db)
    execute(mariadb_db, f"create user {name}@'%' identified by 'x'", f"grant select on {url.database}.* to {name}@'%'")
    execute(mariadb_db, f"grant process on *.* to {name}@'%'")
    mine = url.set(username=name, password="x").render_as_string(hide_password=False)
    shop = shops(mine, bound="auto")
    assert shop.tick().rows == HALF
    assert shop.facts["guarantee"] == "observed"
    execute(mariadb_db, f"revoke process on *.* from {name}@'%'")
    shop.restart()
    for _ in range(2):
        with pytest.raises(SourceUnavailable, match=r"observed.*GRANT PROCESS"):
            shop.tick()
    execute(mariadb_db, f"grant process on *.* to {name}@'%'")
    assert sorted([*shop.delivered[:HALF], *shop.drain()]) == [*range(1, MANY + 1)]
    execute(mariadb_db, f"revoke process on *.* from {name}@'%'")
    execute(mariadb_db, "insert into orders values (1000, '2026-01-02')")
    shop.restart(bound="delay")
    assert shop.drain() == [1000], "a person accepted it"
    execute(mariadb_db, f"drop user {name}@'%'")


@each("restarts", [False, True])
def test_a_sequence_with_a_cache_waits(postgres_db: str, restarts: bool, shops: Callable[..., Shop]) -> None:
    execute(
        postgres_db,
        "create table orders (id bigint generated always as identity primary key, note integer)",
        f"insert into orders (note) select n from generate_series(1, {MANY}) n",
    )
    shop = shops(postgres_db, bound="auto", cursor_column="id", cursor_kind="integer+pk")
    assert shop.tick().rows == HALF
    execute(postgres_db, "alter sequence orders_id_seq cache 50")
    if restarts:
        shop.restart()
    with pytest.raises(SourceUnavailable, match="CACHE 50"):
        shop.tick()
    execute(postgres_db, "alter sequence orders_id_seq cache 1")
    assert shop.drain() == [*range(HALF + 1, MANY + 1)]


def test_a_table_of_another_engine_waits(mariadb_db: str, shops: Callable[..., Shop]) -> None:
    make(mariadb_db, "integer", STAMP["mysql"], [*range(1, MANY + 1)], TIE)
    shop = shops(mariadb_db, bound="auto")
    assert shop.tick().rows == HALF
    execute(mariadb_db, "alter table orders engine = MyISAM")
    with pytest.raises(SourceUnavailable, match="MyISAM"):
        shop.tick()


@each("restarts", [False, True])
def test_row_level_security_is_refused_by_the_server(
    postgres_db: str, restarts: bool, shops: Callable[..., Shop]
) -> None:
    ids = [*range(1, MANY + 1)]
    make(postgres_db, "integer", "timestamptz", ids, TIE)
    url = sa.make_url(postgres_db)
    role = f"r_{url.database}"
    execute(postgres_db, f"create role {role} login", f"grant select on orders to {role}")
    shop = shops(url.set(username=role, password=None).render_as_string(hide_password=False))
    assert shop.tick().rows == HALF
    execute(
        postgres_db,
        "create policy odd_ones on orders using (id % 2 = 1)",
        "alter table orders enable row level security",
    )
    if restarts:
        shop.restart()
    with pytest.raises(SourceError, match="row-level security") as stopped:
        shop.tick()
    for word in ("odd_ones", "orders", role):
        assert word in stopped.value.message
    assert "BYPASSRLS" in stopped.value.next_step
    execute(postgres_db, "alter table orders disable row level security")
    assert shop.drain() == ids[HALF:]
    shop.poller.close()
    execute(postgres_db, f"drop owned by {role}", f"drop role {role}")
