"""Cursors that are no time: transaction ids, sequences, counters, and keys of tables that are only appended to."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from poller.errors import ConfigError, SourceError
from poller.model.cursor import Cursor
from tests.integration.bounds.tables import INTEGER, XID8, add, ids, make, make_counted, make_xid8, session, source
from tests.integration.sources.tables import drain, execute
from tests.support.cases import each

KEY = {"cursor_column": "id", "cursor_kind": "integer+pk"}


def test_transaction_ids_are_read_below_the_oldest_that_is_open(postgres_db: str) -> None:
    make_xid8(postgres_db)
    add(postgres_db, 1)
    with source(postgres_db, **XID8) as reader:
        page = reader.page(None, 10)
        assert page.bound.kind == "exact"
        last = page.cursors[-1]
        with session(postgres_db, "begin", "insert into stamped (id) values (2)") as writer:
            add(postgres_db, 3)
            assert ids(reader, last) == []
            writer.exec_driver_sql("commit")
        page = reader.page(last, 10)
        assert [row["id"] for row in page.rows] == [2, 3]
        execute(postgres_db, "update stamped set n = 1 where id = 1")
        assert ids(reader, page.cursors[-1]) == [1]


def test_transaction_ids_come_in_pages_and_their_cursors_are_text(postgres_db: str) -> None:
    make_xid8(postgres_db)
    execute(postgres_db, "insert into stamped (id) select generate_series(1, 25)")
    add(postgres_db, *range(26, 31))
    with source(postgres_db, **XID8, start_from="now") as reader:
        assert [row["id"] for row in drain(reader, 4)] == list(range(1, 31))
        first = reader.page(None, 1).cursors[0]
        assert first.value.isdigit()
        assert first.tiebreaker == {"id": 1}
        assert reader.lag(first, cap=100).pending == 29
        assert reader.lag(first, cap=100).seconds is None
        start = reader.start()
        assert start is not None
        assert ids(reader, start) == []
        add(postgres_db, 31)
        assert ids(reader, start) == [31]


def test_a_prepared_transaction_holds_transaction_ids_too(postgres_db: str) -> None:
    make_xid8(postgres_db)
    with session(postgres_db, "begin", "insert into stamped (id) values (1)", "prepare transaction 'p'"):
        pass
    add(postgres_db, 2)
    with source(postgres_db, **XID8) as reader:
        assert ids(reader) == []
        with session(postgres_db, "commit prepared 'p'"):
            pass
        assert ids(reader) == [1, 2]


def test_a_column_of_another_type_holds_no_transaction_ids(postgres_db: str) -> None:
    make(postgres_db, "id bigint primary key, xid bigint")
    with source(postgres_db, **XID8) as reader, pytest.raises(SourceError, match="xid8"):
        reader.page(None, 1)


@pytest.mark.parametrize("kind", ["xid8+pk", "rowversion+pk"])
def test_a_kind_that_another_database_has_is_refused(kind: str, sqlite_url: str) -> None:
    with pytest.raises(ConfigError) as error, source(sqlite_url, cursor_kind=kind):
        pass
    assert error.value.key == "cursor_kind"


def test_what_the_counter_knew_goes_on_in_another_process(postgres_db: str) -> None:
    make_counted(postgres_db)
    with source(postgres_db, **INTEGER) as first:
        execute(postgres_db, "insert into stamped (v) values (1)")
        assert ids(first) == [1]
        memory = first.remember()
    assert memory is not None
    with (
        session(postgres_db, "begin", "insert into stamped (v) values (2)"),
        source(postgres_db, **INTEGER) as cold,
        source(postgres_db, **INTEGER) as warm,
    ):
        assert ids(cold) == []
        warm.recall(memory)
        assert ids(warm) == [1]


@each(("cache", "finding"), [(50, "CACHE 50"), (None, "no sequence")])
def test_numbers_that_no_sequence_orders_are_left_to_the_heuristic(
    postgres_db: str, cache: int | None, finding: str
) -> None:
    if cache is None:
        make(postgres_db, "id bigint primary key")
    else:
        make_counted(postgres_db, cache=cache)
    add(postgres_db, 1, 2)
    with source(postgres_db, **INTEGER, settle="1h") as reader:
        bound = reader.bound()
        assert bound.kind == "heuristic"
        assert finding in str(bound.reason)
        assert ids(reader) == []  # nothing has been there for an hour yet
    with source(postgres_db, **INTEGER, settle="0s") as reader:
        assert ids(reader) == [1, 2]
    with source(postgres_db, **INTEGER, bound="exact") as reader, pytest.raises(ConfigError) as error:
        reader.page(None, 1)
    assert error.value.key == "bound"


def test_numbers_that_are_handed_out_in_blocks_are_a_guess(postgres_db: str) -> None:
    """INCREMENT BY 50, as Hibernate has it: an application writes 51 to 99 long after 101 was taken by another."""
    make_counted(postgres_db)
    execute(postgres_db, "alter sequence stamped_id_seq increment by 50")
    with session(postgres_db) as slow:
        block = slow.exec_driver_sql("select nextval('stamped_id_seq')").scalar_one()
        execute(postgres_db, "insert into stamped (v) values (1)")
        with source(postgres_db, **INTEGER, settle="1h") as reader:
            assert ids(reader) == []
            bound = reader.bound()
            slow.exec_driver_sql(f"insert into stamped (id) values ({block + 1})")
            assert ids(reader) == []
    assert bound.kind == "heuristic"
    assert "stamped_id_seq has INCREMENT BY 50" in str(bound.reason)
    with source(postgres_db, **INTEGER, bound="exact") as reader, pytest.raises(ConfigError, match="INCREMENT BY 50"):
        reader.page(None, 1)


@each("made", ["nextval('other')", "nextval('stamped_id_seq') * 2", None])
def test_numbers_not_from_the_columns_own_sequence_are_a_guess(postgres_db: str, made: str | None) -> None:
    """A sequence belongs to a column for ever, also where the column's DEFAULT was changed: its count says nothing."""
    make(postgres_db, "id bigserial primary key, v integer")
    execute(postgres_db, "create sequence other", "select setval('stamped_id_seq', 1000)")
    execute(postgres_db, "alter table stamped alter id " + (f"set default {made}" if made else "drop default"))
    with session(postgres_db, "begin", "insert into stamped (id) values (1)") as slow:
        execute(postgres_db, "insert into stamped (id) values (2)")
        with source(postgres_db, **INTEGER, settle="1h") as reader:
            assert ids(reader) == []
            bound = reader.bound()
        slow.exec_driver_sql("commit")
    assert bound.kind == "heuristic"
    assert "DEFAULT of id is not the next value of the sequence public.stamped_id_seq" in str(bound.reason)


@each("quoted", ['"Odd ""name\'"', "plain"])
def test_a_sequence_of_any_name_fills_its_column(postgres_db: str, quoted: str) -> None:
    execute(
        postgres_db,
        "create schema away",
        f'create table away.{quoted} ("Id" serial primary key)',
        f"insert into away.{quoted} default values",
    )
    table = quoted.strip('"').replace('""', '"')
    keys = {"schema": "away", "table": table, "pk_columns": ["Id"], "cursor_column": "Id"}
    with source(postgres_db, **(INTEGER | keys)) as reader:
        assert reader.page(None, 5).bound.kind == "exact"


def test_check_names_rows_that_stand_above_the_counter(postgres_db: str) -> None:
    """Loaded with their numbers, or numbered by an application: none is read, and nothing else would show it."""
    make_counted(postgres_db)
    add(postgres_db, 100, 101)
    with source(postgres_db, **INTEGER) as reader:
        assert ids(reader) == []
        (finding,) = (f for f in reader.checkup(None, lambda: datetime.now(UTC)).findings if f.check == "bound")
    assert finding.severity == "error"
    assert "id = 101" in finding.message
    assert "bound" in finding.fix
    with source(postgres_db, **INTEGER, bound="delay", settle="0s") as reader:
        assert ids(reader) == [100, 101]
    execute(postgres_db, "select setval('stamped_id_seq', 102, false)")
    with source(postgres_db, **INTEGER) as reader:
        assert ids(reader) == [100, 101]
        found = reader.checkup(None, lambda: datetime.now(UTC)).findings
    assert [f.severity for f in found if f.check == "bound"] == ["ok"]


def test_a_counter_with_a_step_is_a_guess_too(mariadb_db: str) -> None:
    make_counted(mariadb_db)
    with source(mariadb_db, **INTEGER) as reader:
        assert reader.bound().kind == "observed"
    with session(mariadb_db, "set global auto_increment_increment = 2") as administrator:
        try:
            with source(mariadb_db, **INTEGER, settle="1h") as reader:
                execute(mariadb_db, "insert into stamped (v) values (1)")
                bound = reader.bound()
        finally:
            administrator.exec_driver_sql("set global auto_increment_increment = 1")
    assert bound.kind == "heuristic"
    assert "auto_increment_increment is 2" in str(bound.reason)


def test_the_heuristic_of_numbers_is_carried_on_by_memory(postgres_db: str) -> None:
    make(postgres_db, "id bigint primary key")
    add(postgres_db, 1, 2)
    with source(postgres_db, **INTEGER, settle="1h") as first:
        first.bound()
        memory = first.remember()
    assert memory is not None
    memory["samples"]["seen"] = [["2020-01-01T00:00:00+00:00", "1"], *memory["samples"]["seen"]]
    with source(postgres_db, **INTEGER, settle="1h") as reader:
        reader.recall(memory)
        assert ids(reader) == [1]


def test_sqlites_numbers_are_exact(sqlite_url: str) -> None:
    make_counted(sqlite_url)
    add(sqlite_url, 1, 2)
    with source(sqlite_url, **INTEGER) as reader:
        assert ids(reader) == [1, 2]
        assert reader.bound().kind == "exact"
        with session(sqlite_url, "begin immediate", "insert into stamped (v) values (1)"):
            assert ids(reader) == [1, 2]


def test_a_table_that_is_only_appended_to_is_followed_by_its_key(any_db: str) -> None:
    make(any_db, "id integer primary key, v integer")
    values = list(range(1, 26))
    execute(any_db, "insert into stamped (id) values (:id)", rows=[{"id": value} for value in values])
    with source(any_db, **KEY, settle="0s") as reader:
        assert [row["id"] for row in drain(reader, 7)] == values
        page = reader.page(None, 3)
        assert page.cursors[-1] == Cursor(kind="integer+pk", value="3", tiebreaker={"id": 3})
        assert reader.lag(page.cursors[-1], cap=100).pending == 22


def test_a_key_of_several_columns_is_read_by_its_first(postgres_db: str) -> None:
    make(postgres_db, "id integer, part integer, primary key (id, part)")
    execute(postgres_db, "insert into stamped select (i * 7) % 20, 1 from generate_series(1, 20) i")
    execute(postgres_db, "insert into stamped select id, 2 from stamped")
    expected = [(number, part) for number in range(20) for part in (1, 2)]
    with source(postgres_db, **KEY | {"pk_columns": ["id", "part"]}, settle="0s") as reader:
        assert [(row["id"], row["part"]) for row in drain(reader, 3)] == expected
