"""Change tables in MariaDB: each write is one change, and what its triggers cannot see is refused or named."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection, CursorResult
from sqlalchemy.exc import DBAPIError

from poller.databases import CaptureRefusal
from poller.databases.capture import run
from poller.errors import CaptureGap
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import source
from tests.support.mariadb import MariaDbServer

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, note varchar(40), total decimal(10,2)) ENGINE = InnoDB"


@pytest.fixture
def orders(mariadb_db: str) -> Iterator[Captured]:
    made = Captured(mariadb_db)
    made.run(ORDERS)
    yield made
    made.close()


def everything(made: Captured) -> list[object]:
    return [made.run("SHOW TABLES"), made.run("SELECT trigger_name FROM information_schema.triggers ORDER BY 1")]


def test_each_write_is_one_change_and_the_chain_holds(orders: Captured) -> None:
    orders.run("INSERT INTO orders VALUES (9, 'before', 1)")
    orders.install()
    orders.run(
        "INSERT INTO orders VALUES (1, 'a', 1.50), (2, 'b', NULL)",
        "UPDATE orders SET note = 'c' WHERE id = 1",
        "UPDATE orders SET id = 3 WHERE id = 2",
        "DELETE FROM orders WHERE id = 1",
        "UPDATE orders SET note = 'seen now' WHERE id = 9",
        "INSERT INTO orders VALUES (3, 'upsert', 1) ON DUPLICATE KEY UPDATE note = VALUES(note)",
        "BEGIN",
        "INSERT INTO orders VALUES (4, 'a', 1)",
        "SAVEPOINT s",
        "DELETE FROM orders",
        "ROLLBACK TO s",
        "COMMIT",
        "BEGIN",
        "INSERT INTO orders VALUES (5, 'a', 1)",
        "ROLLBACK",
    )
    assert orders.ops() == "IIUDIDUUI"
    assert orders.changes()[0][2] == {"id": 1, "note": "a", "total": "1.50"}
    assert (orders.holds().compared, orders.holds().rows) == (3, 3)
    orders.run("REPLACE INTO orders VALUES (3, 'replaced', 1)", "DELETE FROM orders")
    orders.holds()


def test_values_are_whole(mariadb_db: str) -> None:
    made = Captured(mariadb_db)
    made.run(
        "CREATE TABLE orders (id int PRIMARY KEY, f float, d double, b varbinary(9), t timestamp(6) NULL, j json, "
        "l varchar(9) CHARACTER SET latin1, k bit(9), s time(3), p point)"
    )
    made.install()
    made.run(
        "SET time_zone = '+05:00'",
        "INSERT INTO orders VALUES (1, 1.2345678, 0.1 + 2e-17, x'00ff', FROM_UNIXTIME(1767225600.5), '{\"a\": [1]}', "
        "'ä', b'100000001', '-01:02:03.004', ST_GeomFromText('POINT(1 2)'))",
        "UPDATE orders SET k = 1",
    )
    _, _, row = made.changes()[0]
    assert abs(float(row["f"]) - 1.2345678) < 1e-7
    assert float(row["d"]) == 0.1 + 2e-17
    assert (row["b"], row["t"], row["l"], row["k"], row["s"]) == (
        "AP8=",
        "1767225600.500000",
        "ä",
        257,
        "-01:02:03.004",
    )
    assert row["p"].startswith("0101000000")
    made.holds()
    made.close()


def test_a_key_that_differs_only_by_case_is_another_key(mariadb_db: str) -> None:
    made = Captured(mariadb_db)
    made.run("CREATE TABLE orders (id varchar(9) PRIMARY KEY)")
    made.install()
    made.run("INSERT INTO orders VALUES ('a')", "UPDATE orders SET id = 'A'")
    assert made.ops() == "IDI"
    made.holds()
    made.close()


def test_a_dropped_column_is_a_gap_and_no_writer_fails(orders: Captured) -> None:
    orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a', 1)", "ALTER TABLE orders DROP note", "UPDATE orders SET total = 2")
    orders.run("INSERT INTO orders VALUES (2, 1)", "DELETE FROM orders WHERE id = 1")
    assert orders.ops() == "IXXX"
    assert "note was dropped" in str(orders.capture().plan().gap)
    orders.install()
    orders.run("UPDATE orders SET total = 3")
    assert orders.ops() == "IXXXXU"
    orders.holds()


def test_a_row_too_long_for_json_is_a_gap(orders: Captured) -> None:
    orders.run("ALTER TABLE orders ADD big longblob")
    orders.install()
    longest = orders.run("SELECT @@max_allowed_packet")[0][0]
    orders.run(f"INSERT INTO orders (id, big) VALUES (1, REPEAT('x', {longest - 100}))")
    assert orders.ops() == "X"


def test_installing_again_after_altering_leaves_no_hole(orders: Captured) -> None:
    orders.install()
    stop, errors = threading.Event(), []

    def write() -> None:
        with orders.engine.connect() as other:
            number = 0
            while not stop.is_set():
                number += 1
                try:
                    other.exec_driver_sql(f"INSERT INTO orders (id, note) VALUES ({number}, 'a')")
                    other.exec_driver_sql(f"UPDATE orders SET note = 'b' WHERE id = {number}")
                except DBAPIError as error:
                    errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    for name in ("one", "two", "three"):
        orders.run(f"ALTER TABLE orders ADD {name} int DEFAULT 1")
        orders.install()
    stop.set()
    writer.join()
    assert errors == []
    assert "X" not in orders.ops()
    assert orders.holds().compared == orders.run("SELECT count(*) FROM orders")[0][0] > 0


def test_installing_twice_changes_nothing(orders: Captured) -> None:
    orders.install()
    before = everything(orders), orders.run("SELECT * FROM poller_captures")
    plan = orders.capture().install()
    assert (plan.standing, plan.gap) == ("installed", None)
    assert (everything(orders), orders.run("SELECT * FROM poller_captures")) == before


@pytest.mark.parametrize("statement", ["CREATE TABLE", "LOCK", "CREATE TRIGGER", "INSERT", "UNLOCK"])
def test_an_installation_that_is_killed_is_gone_on_with(
    orders: Captured, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = False

    def killed(connection: Connection, text: str) -> CursorResult[Any]:
        nonlocal dead
        if dead:
            raise KeyboardInterrupt
        done = run(connection, text)
        if text.startswith(statement):
            dead = True
            connection.invalidate()
            raise KeyboardInterrupt
        return done

    with monkeypatch.context() as patched:
        patched.setattr("poller.databases.mysql.capture.run", killed)
        with pytest.raises(KeyboardInterrupt):
            orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a', 1)", "DELETE FROM orders", "INSERT INTO orders VALUES (1, 'b', 1)")
    orders.install()
    orders.run("UPDATE orders SET note = 'c'")
    assert orders.capture().plan().standing == "installed"
    assert orders.holds().compared == 1


@pytest.mark.parametrize(
    "harm",
    [
        ("DROP TRIGGER poller_capture_orders_d",),
        ("RENAME TABLE orders TO former", ORDERS),
        ("DROP TABLE orders", ORDERS),
        ("DROP TABLE poller_orders_changes",),
    ],
)
def test_a_damage_is_mended_and_leaves_a_gap(orders: Captured, harm: tuple[str, ...]) -> None:
    orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a', 1)", *harm)
    assert orders.capture().plan().standing == "damaged"
    orders.install()
    orders.run("INSERT INTO orders VALUES (2, 'a', 1)")
    assert orders.ops().endswith("XI")
    assert orders.capture().plan().standing == "installed"
    orders.holds()


@pytest.mark.parametrize("changes", [False, True])
def test_a_removal_that_is_killed_hides_no_change_from_readers(
    orders: Captured, mariadb_server: MariaDbServer, changes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a reader sees no triggers: while one is gone, what it sees must say so."""
    name = f"reads_{int(changes)}"
    orders.run(f"CREATE USER {name}@'%'", f"GRANT SELECT ON {sa.make_url(orders.url).database}.* TO {name}@'%'")
    try:
        for last in range(20):
            orders.install()
            met = 0

            def killed(connection: Connection, text: str, last: int = last) -> CursorResult[Any]:
                nonlocal met
                met += 1
                if met > last:
                    connection.invalidate()
                    raise KeyboardInterrupt
                return run(connection, text)

            with monkeypatch.context() as patched:
                patched.setattr("poller.databases.mysql.capture.run", killed)
                try:
                    orders.capture().remove(changes=changes)
                    return
                except KeyboardInterrupt:
                    pass
            triggers = orders.run("SHOW TRIGGERS LIKE 'orders'")
            reader = Captured(sa.make_url(orders.url).set(username=name).render_as_string(hide_password=False))
            of = source(reader)
            try:
                of.page(None, 1)
            except CaptureGap:
                pass
            else:
                assert len(triggers) == 3, f"it reads on after {last} statements"
            of.close()
            reader.close()
    finally:
        orders.run(f"DROP USER {name}@'%'")


def test_removing_leaves_a_gap_or_nothing(orders: Captured) -> None:
    before = everything(orders)
    orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a', 1)")
    assert orders.capture().remove(changes=False).triggers
    orders.run("INSERT INTO orders VALUES (2, 'a', 1)")
    assert orders.ops() == "IX"
    with pytest.raises(CaptureRefusal, match="not captured"):
        orders.chain()
    orders.install()
    orders.run("INSERT INTO orders VALUES (3, 'a', 1)")
    assert orders.ops() == "IXI"
    orders.capture().remove(changes=True)
    assert everything(orders) == before


def test_cascades_are_refused_until_accepted(orders: Captured) -> None:
    orders.run(
        "CREATE TABLE parents (id int PRIMARY KEY)",
        "INSERT INTO parents VALUES (1)",
        "ALTER TABLE orders ADD parent int, ADD CONSTRAINT of_parent FOREIGN KEY (parent) REFERENCES parents (id) "
        "ON DELETE SET NULL",
    )
    with pytest.raises(CaptureRefusal, match=r"the foreign key of_parent \(SET NULL\), which fires no trigger"):
        orders.install()
    assert "poller_captures" not in str(everything(orders))
    orders.install(accepted=("cascades",))
    orders.run("INSERT INTO orders VALUES (1, 'a', 1, 1)", "DELETE FROM parents")
    assert orders.ops() == "I"
    assert [one.what for one in orders.chain().breaks] == ["the table's row differs from what it left in parent"]


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        (("CREATE VIEW orders AS SELECT 1 AS id",), "a view"),
        (("CREATE TABLE orders (id int)",), "no primary key"),
        (("CREATE TABLE orders (id int PRIMARY KEY, _op text)",), "column _op"),
        (("CREATE TABLE orders (id int PRIMARY KEY) ENGINE = MyISAM",), "not InnoDB"),
        (("CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE poller_orders_changes (id int)"), "did not make"),
        ((), "no such table"),
    ],
)
def test_refused_and_nothing_installed(mariadb_db: str, ddl: tuple[str, ...], says: str) -> None:
    made = Captured(mariadb_db)
    made.run(*ddl)
    before = everything(made)
    with pytest.raises(CaptureRefusal, match=says) as refused:
        made.install()
    assert "orders: " in refused.value.message
    assert refused.value.next_step
    assert everything(made) == before
    made.close()


def test_a_user_without_rights_is_refused_and_nothing_stays(orders: Captured, mariadb_server: MariaDbServer) -> None:
    before, database = everything(orders), sa.make_url(orders.url).database
    url = sa.make_url(orders.url).set(username="capturer").render_as_string(hide_password=False)
    mariadb_server.execute("CREATE USER capturer@'%'")
    try:
        for rights in ("SELECT", "SELECT, CREATE, INSERT", "SELECT, CREATE, DROP, INSERT, LOCK TABLES"):
            mariadb_server.execute(f"GRANT {rights} ON {database}.* TO capturer@'%'")
            made = Captured(url)
            with pytest.raises(CaptureRefusal, match="may not create triggers"):
                made.install()
            made.close()
        assert everything(orders) == before
        mariadb_server.execute(f"GRANT TRIGGER, UPDATE, DELETE ON {database}.* TO capturer@'%'")
        made = Captured(url)
        made.install()
        orders.run("INSERT INTO orders VALUES (1, 'a', 1)")
        made.holds()
        made.close()
    finally:
        mariadb_server.execute("DROP USER capturer@'%'")


def test_another_user_installs_again_where_the_first_is_gone(orders: Captured, mariadb_server: MariaDbServer) -> None:
    url = sa.make_url(orders.url).set(username="leaver").render_as_string(hide_password=False)
    mariadb_server.execute("CREATE USER leaver@'%'")
    mariadb_server.execute("GRANT ALL ON *.* TO leaver@'%'")
    made = Captured(url)
    made.install()
    made.close()
    mariadb_server.execute("DROP USER leaver@'%'")
    with pytest.raises(DBAPIError, match="1449"):
        orders.run("INSERT INTO orders VALUES (1, 'a', 1)")
    warnings = orders.capture().plan().warnings
    assert [one for one in warnings if "the user leaver@%, who installed it, is gone" in one]
    orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a', 1)")
    assert orders.ops() == "I"


def test_names_are_quoted_everywhere(mariadb_db: str) -> None:
    name = "o'r`d\\e%s:r"
    quoted = "`" + name.replace("`", "``") + "`"
    made = Captured(mariadb_db, table=name)
    made.run(f'CREATE TABLE {quoted} ({quoted} int PRIMARY KEY, "x y" text)'.replace('"', "`"))
    made.install(excluded=("x y",), old=False)
    made.run(f"INSERT INTO {quoted} VALUES (1, 2), (2, 3)", f"UPDATE {quoted} SET {quoted} = 9 WHERE {quoted} = 1")
    assert made.holds().changes == 4
    made.capture().remove(changes=True)
    made.close()


def test_installing_waits_a_short_time_for_writers(orders: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poller.databases.capture.TRIES", 2)
    monkeypatch.setattr("poller.databases.capture.LOCK_SECONDS", 1)
    monkeypatch.setattr("poller.databases.capture.PAUSE_SECONDS", 0.01)
    before = everything(orders)
    orders.run("BEGIN", "INSERT INTO orders VALUES (1, 'a', 1)")
    with pytest.raises(CaptureRefusal, match="open held the table, 2 times"):
        orders.install()
    orders.run("COMMIT")
    assert everything(orders) == before
    orders.install()


def test_columns_of_any_character_sets_are_captured(mariadb_db: str) -> None:
    made = Captured(mariadb_db)
    made.run(
        "CREATE TABLE orders (id int PRIMARY KEY, a varchar(9) CHARACTER SET latin1, "
        "b varchar(9) CHARACTER SET latin2, s varchar(9) CHARACTER SET sjis, u varchar(9) CHARACTER SET utf32, "
        "`ключ` text COLLATE utf8mb4_swedish_ci, j json)"
    )
    made.install()
    made.run(
        "INSERT INTO orders VALUES (1, 'ä', 'ł', 'ソ表', '😀', '\"ж', '[1]')",
        "UPDATE orders SET a = 'a'",
        "ALTER TABLE orders MODIFY a varchar(9) CHARACTER SET greek",
        "UPDATE orders SET b = 'ś'",
    )
    assert made.changes()[0][2] == {"id": 1, "a": "ä", "b": "ł", "s": "ソ表", "u": "😀", "ключ": '"ж', "j": [1]}
    assert made.ops() == "IUU"
    made.holds()
    made.close()


def test_an_invisible_column_and_odd_types_are_captured(mariadb_db: str) -> None:
    made = Captured(mariadb_db)
    made.run(
        "CREATE TABLE orders (id bigint unsigned PRIMARY KEY, i int INVISIBLE DEFAULT 3, u uuid, n inet6, b bit(64), "
        "y year, s set('a', 'b'), c text COMPRESSED, g int AS (y + 1) VIRTUAL)"
    )
    made.install()
    made.run(
        "INSERT INTO orders (id, u, n, b, y, s, c) VALUES (18446744073709551615, "
        "'123e4567-e89b-12d3-a456-426655440000', '::1', 18446744073709551615, 2026, 'a,b', 'c')",
        "UPDATE orders SET i = 4",
    )
    _, _, row = made.changes()[1]
    assert (row["id"], row["i"], row["g"]) == (18446744073709551615, 4, 2027)
    assert (row["u"], row["n"], row["b"]) == ("123e4567-e89b-12d3-a456-426655440000", "::1", 18446744073709551615)
    made.holds()
    made.close()


def test_a_float_key_is_compared_by_all_its_digits(mariadb_db: str) -> None:
    made = Captured(mariadb_db)
    made.run("CREATE TABLE orders (id float PRIMARY KEY)")
    made.install()
    made.run("INSERT INTO orders VALUES (1.2345677)", "UPDATE orders SET id = 1.2345681")
    assert made.ops() == "IDI"
    made.holds()
    made.close()


@pytest.mark.parametrize("mode", ["ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ORACLE"])
def test_the_mode_of_the_server_changes_nothing(orders: Captured, mariadb_server: MariaDbServer, mode: str) -> None:
    mariadb_server.execute(f"SET GLOBAL sql_mode = '{mode}'")
    try:
        orders.install(excluded=("total",))
        orders.run(f"SET sql_mode = '{mode}'", "INSERT INTO orders VALUES (1, 'a\\\\', 1)")
        orders.install()
        orders.holds()
        orders.capture().remove(changes=True)
    finally:
        mariadb_server.execute("SET GLOBAL sql_mode = DEFAULT")


def test_mending_that_is_killed_after_its_triggers_leaves_a_gap(
    orders: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a', 1)", "DROP TRIGGER poller_capture_orders_d", "DELETE FROM orders")
    triggers = 0

    def killed(connection: Connection, text: str) -> CursorResult[Any]:
        nonlocal triggers
        if triggers == 3:
            connection.invalidate()
            raise KeyboardInterrupt
        done = run(connection, text)
        triggers += " TRIGGER " in text
        return done

    with monkeypatch.context() as patched:
        patched.setattr("poller.databases.mysql.capture.run", killed)
        with pytest.raises(KeyboardInterrupt):
            orders.install()
    orders.install()
    assert orders.ops() == "IX"


def test_installing_after_a_removal_is_whole_or_nothing(orders: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.install()
    orders.capture().remove(changes=False)
    before = everything(orders)

    def failing(connection: Connection, text: str) -> CursorResult[Any]:
        if " TRIGGER " in text and "capture_orders_i" in text and not text.startswith("DROP"):
            raise RuntimeError
        return run(connection, text)

    with monkeypatch.context() as patched:
        patched.setattr("poller.databases.mysql.capture.run", failing)
        with pytest.raises(RuntimeError):
            orders.install()
    assert everything(orders) == before
    assert orders.capture().plan().standing == "removed"


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        ("timestamp NULL", "bigint", "99999999999"),
        ("bit(4)", "varchar(9)", "'abc'"),
        ("float", "uuid", "uuid()"),
        ("point", "text", "'abc'"),
        ("datetime", "blob", "x'00ff'"),
        ("text", "blob", "x'00ff'"),
        ("int", "point", "ST_GeomFromText('POINT(1 2)')"),
    ],
)
def test_another_type_is_a_gap_and_no_writer_fails(orders: Captured, before: str, after: str, value: str) -> None:
    orders.run(f"ALTER TABLE orders ADD v {before}")
    orders.install()
    orders.run("ALTER TABLE orders DROP v", f"ALTER TABLE orders ADD v {after}")
    orders.run(f"INSERT INTO orders (id, v) VALUES (1, {value})", "UPDATE orders SET total = 1", "DELETE FROM orders")
    assert orders.ops() == "XXX"
    orders.install()
    orders.run(f"INSERT INTO orders (id, v) VALUES (1, {value})")
    assert orders.ops() == "XXXI"
    orders.holds()
