"""A key is believed to be unique and never NULL only where the database enforces it over every row that is read."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from poller.errors import SourceError
from poller.sources import SqlSource
from tests.integration.bounds.tables import session
from tests.integration.sources.tables import closing, drain, execute, orders
from tests.support.cases import each

COLUMNS = "(id integer not null, updated_at timestamptz not null)"
ONE, TWO = "'2026-01-01'", "'2026-01-02'"


def found(url: str, check: str) -> list[str]:
    """What `poller check` says of one thing: severity, message and fix."""
    with closing(orders(url)) as source:
        findings = source.checkup(None, lambda: datetime.now(UTC)).findings
    return [f"{f.severity}: {f.message} {f.fix}" for f in findings if f.check == check]


def test_an_index_that_could_not_be_built_proves_nothing(postgres_db: str) -> None:
    execute(postgres_db, f"create table orders {COLUMNS}", f"insert into orders values (2, {ONE}), (2, {ONE})")
    with session(postgres_db) as connection, contextlib.suppress(sa.exc.IntegrityError):
        connection.exec_driver_sql("create unique index concurrently broken on orders (id)")
    with session(postgres_db) as connection, contextlib.suppress(sa.exc.IntegrityError):
        connection.exec_driver_sql("create unique index concurrently order_of on orders (updated_at, id)")
    with closing(orders(postgres_db)) as source, pytest.raises(SourceError, match="no unique index") as error:
        source.page(None, 1)
    assert "id" not in error.value.next_step.split()
    assert "No unique index covers id" in found(postgres_db, "key")[0]
    execute(postgres_db, "delete from orders", "alter table orders add primary key (id)")
    assert found(postgres_db, "key") == ["ok: id: unique and never NULL "]
    assert "No index begins with (updated_at, id)" in found(postgres_db, "index")[0]


def test_a_key_may_be_checked_at_commit(postgres_db: str) -> None:
    """Others see only what was committed, and that is unique."""
    execute(
        postgres_db,
        f"create table orders {COLUMNS}",
        "alter table orders add unique (id) deferrable initially deferred",
        f"insert into orders values (1, {ONE}), (2, {ONE})",
    )
    with closing(orders(postgres_db)) as source:
        assert len(drain(source, 1)) == 2


@each("when", ["before the first look", "under way"])
def test_a_parents_key_says_nothing_of_its_childrens_rows(postgres_db: str, when: str) -> None:
    execute(
        postgres_db,
        "create table orders (id integer primary key, updated_at timestamptz not null)",
        "create table kid () inherits (orders)",
        f"insert into orders values (1, {ONE}), (2, {TWO})",
    )
    with closing(orders(postgres_db)) as source:
        if when == "under way":
            assert [row["id"] for row in drain(source, 2)] == [1, 2]
        execute(postgres_db, f"insert into kid values (2, {TWO}), (3, {TWO})")
        with pytest.raises(SourceError, match="the same in several rows"):
            source.page(None, 3)
    assert "warn: Other tables inherit from orders" in found(postgres_db, "key")[0]
    execute(postgres_db, "delete from kid where id = 2")
    with closing(orders(postgres_db)) as source:
        assert [row["id"] for row in drain(source, 2)] == [1, 2, 3]


def test_a_child_may_lack_what_its_parent_forbids(postgres_db: str) -> None:
    execute(
        postgres_db,
        "create table orders (id integer primary key, updated_at timestamptz not null)",
        "create table kid () inherits (orders)",
        "alter table kid alter id drop not null, alter updated_at drop not null",
        f"insert into kid values (null, {ONE})",
    )
    with closing(orders(postgres_db)) as source, pytest.raises(SourceError, match="NULL in some rows"):
        source.page(None, 2)
    execute(postgres_db, "update kid set id = 1, updated_at = null")
    with closing(orders(postgres_db)) as source, pytest.raises(SourceError, match="no updated_at"):
        source.page(None, 2)


def test_a_partitioned_tables_key_spans_its_partitions(postgres_db: str) -> None:
    execute(
        postgres_db,
        f"create table orders {COLUMNS} partition by range (id)",
        "create table low partition of orders for values from (0) to (10)",
        "create unique index on only orders (id)",
    )
    with closing(orders(postgres_db)) as source, pytest.raises(SourceError, match="no unique index"):
        source.page(None, 1)  # made on the parent alone, it is enforced nowhere
    execute(postgres_db, "alter table orders add primary key (id)")
    assert found(postgres_db, "key") == ["ok: id: unique and never NULL "]


@each("kind", ["citext", "text collate folding"])
def test_an_index_finer_than_its_column_proves_nothing(postgres_db: str, kind: str) -> None:
    """The page's order calls two values equal that the index distinguishes: one of them would be skipped."""
    finer = "text_ops" if kind == "citext" else 'collate "C"'
    execute(
        postgres_db,
        "create extension citext"
        if kind == "citext"
        else "create collation folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        f"create table orders (id {kind} not null, updated_at timestamptz not null)",
        f"create unique index finer on orders (id {finer})",
        f"insert into orders values ('a', {ONE}), ('A', {ONE})",
    )
    with closing(orders(postgres_db)) as source, pytest.raises(SourceError, match="no unique index"):
        source.page(None, 1)
    execute(postgres_db, "delete from orders where ctid = '(0,2)'")
    execute(postgres_db, "create unique index as_fine on orders (id)")
    with closing(orders(postgres_db)) as source:
        assert len(drain(source, 1)) == 1


def test_an_index_coarser_than_its_column_proves_more(postgres_db: str) -> None:
    execute(
        postgres_db,
        "create table orders (id text not null, other varchar(9) not null, updated_at timestamptz not null)",
        'create unique index on orders (id collate "C" text_pattern_ops)',
        "create unique index on orders (other varchar_pattern_ops)",
        f"insert into orders values ('a', 'a', {ONE}), ('A', 'b', {ONE})",
    )
    for key in ("id", "other"):
        with closing(orders(postgres_db, pk_columns=[key])) as source:
            assert len(drain(source, 1)) == 2


@each(
    ("column", "index", "proves"),
    [
        ("text collate nocase not null", "id collate binary", False),
        ("text collate nocase not null", "id collate rtrim", False),
        ("text collate nocase not null", "id", True),
        ("text collate nocase not null", "id collate NoCase", True),
        ("text not null", "id collate nocase", True),
        ("integer not null", "id", True),
    ],
)
def test_an_index_finer_than_its_column_proves_nothing_on_sqlite(
    sqlite_url: str, column: str, index: str, *, proves: bool
) -> None:
    execute(
        sqlite_url,
        f"create table orders (id {column}, updated_at text not null)",
        f"create unique index one on orders ({index})",
        "insert into orders values ('7', '2026-01-01 00\\:00\\:00')",
    )
    with closing(orders(sqlite_url)) as source:
        if proves:
            assert len(drain(source, 1)) == 1
        else:
            with pytest.raises(SourceError, match="no unique index"):
                source.page(None, 1)


@each(
    ("key", "proves"),
    [("primary key (id collate binary)", False), ("primary key (id)", True), ("unique (id), primary key (n)", True)],
)
@each("suffix", ["", " without rowid"])
def test_a_primary_key_of_sqlite_may_be_finer_too(sqlite_url: str, key: str, suffix: str, *, proves: bool) -> None:
    execute(
        sqlite_url,
        "create table orders (id text collate nocase not null, n integer not null, updated_at text not null,"
        f" {key}){suffix}",
        "insert into orders values ('a', 1, '2026-01-01 00\\:00\\:00')",
    )
    with closing(orders(sqlite_url)) as source:
        if proves:
            assert len(drain(source, 1)) == 1
        else:
            with pytest.raises(SourceError, match="no unique index"):
                source.page(None, 1)


@pytest.mark.parametrize("name", ["orders", "ORDERS"])
@pytest.mark.parametrize("schema", [None, "be:side"])
def test_an_attached_file_is_read_only_by_its_name(
    sqlite_url: str, tmp_path: Path, name: str, schema: str | None
) -> None:
    """Without it the key and what fills the cursor would be looked up in the main file."""
    engine = sa.create_engine(sqlite_url)
    attach = f"attach '{tmp_path / 'beside.db'}' as \"be:side\""
    sa.event.listen(engine, "connect", lambda file, _: file.execute(attach))
    with engine.begin() as connection:
        connection.exec_driver_sql('create table "be:side".orders (id integer not null, updated_at text not null)')
    with closing(SqlSource(engine, table=name, schema=schema, cursor_column="updated_at", pk_columns=["id"])) as source:
        with pytest.raises(SourceError, match="no unique index" if schema else "There is no table") as error:
            source.page(None, 1)
        assert error.value.table == (f"be:side.{name}" if schema else name)
        findings = source.checkup(None, lambda: datetime.now(UTC)).findings
        assert {f.severity for f in findings if f.check in {"key", "columns"}} >= {"error"}
    engine.dispose()


def test_a_temporary_table_of_sqlite_hides_a_files_table(sqlite_url: str) -> None:
    execute(sqlite_url, "create table orders (id integer primary key, updated_at text not null)")
    engine = sa.create_engine(sqlite_url)
    made = "create temp table orders (id integer not null, updated_at text not null)"
    sa.event.listen(engine, "connect", lambda file, _: file.execute(made))
    with closing(orders(engine)) as source, pytest.raises(SourceError, match="no unique index"):
        source.page(None, 1)
    engine.dispose()


def test_a_domain_rounds_as_what_it_is_made_of_does(postgres_db: str) -> None:
    """The bound is compared as the column's own type, one unit less: a row of 12.4 s stands at 12."""
    execute(
        postgres_db,
        "create domain seconds as timestamptz(0) check (value > '2000-01-01')",
        "create domain seconds_again as seconds not null",
    )
    for number, kind in enumerate(("timestamptz(0)", "seconds", "seconds_again", "timestamp(3)")):
        name = f"orders_{number}"
        execute(
            postgres_db,
            f"create table {name} (id integer primary key, updated_at {kind} not null)",
            f"insert into {name} values (1, {ONE})",
        )
        for keys in ({"table": name}, {"query": f"select id, updated_at from {name}"}):
            with closing(orders(postgres_db, bound="exact", settle="0s", **keys)) as source:
                page = source.page(None, 2)
            assert [row["id"] for row in page.rows] == [1]
            digits = str(page.bound.value).rstrip("Z").partition(".")[2]
            assert digits[3 if kind == "timestamp(3)" else 0 :].strip("0") == ""
            assert page.bound.at is not None
            value = datetime.fromisoformat(str(page.bound.value)).replace(tzinfo=UTC)
            assert (page.bound.at - value).total_seconds() >= (0.001 if kind == "timestamp(3)" else 1.0)
