"""Change tables in SQLite: each write is one change, and what its triggers cannot see is refused or named."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from poller.databases import CaptureRefusal
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import rows

TOUCH = (
    "CREATE TRIGGER touch AFTER UPDATE ON orders WHEN NEW.note NOT LIKE '%!' "
    "BEGIN UPDATE orders SET note = NEW.note || '!' WHERE id = NEW.id; END"
)


ROWIDS = ("rowid", "OID", "_rowid_", '"id"')


@pytest.fixture
def orders(sqlite_url: str) -> Iterator[Captured]:
    made = Captured(sqlite_url)
    made.run("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT, total)")
    yield made
    made.close()


def test_each_write_is_one_change_and_the_chain_holds(orders: Captured) -> None:
    orders.run("INSERT INTO orders VALUES (9, 'before', 1)")
    orders.install()
    orders.run(
        "INSERT INTO orders VALUES (1, 'a', 1.5), (2, 'b', NULL)",
        "UPDATE orders SET note = 'c' WHERE id = 1",
        "UPDATE orders SET id = 3 WHERE id = 2",
        "DELETE FROM orders WHERE id = 1",
        "UPDATE orders SET note = 'seen now' WHERE id = 9",
        "INSERT INTO orders VALUES (3, 'upsert', 1) ON CONFLICT (id) DO UPDATE SET note = excluded.note",
        "REPLACE INTO orders VALUES (3, 'replaced', 1)",
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
    assert orders.ops() == "IIUDIDUUII"
    assert orders.changes()[0][2] == {"id": 1, "note": "a", "total": {"real": "1.5"}}
    assert (orders.holds().compared, orders.holds().rows) == (3, 3)
    orders.run("DELETE FROM orders")
    assert orders.ops() == "IIUDIDUUIIDDD"
    orders.holds()


def test_values_are_whole_and_never_make_a_writer_fail(orders: Captured) -> None:
    orders.install()
    orders.run(
        "INSERT INTO orders VALUES (1, x'deadbeef', 0.1 + 0.2), (2, '{\"a\": 1}', 9223372036854775807), "
        "(3, CAST(x'80ff' AS TEXT), 1e308 * 10), (4, 'a' || char(0) || 'b', NULL)"
    )
    orders.run("UPDATE orders SET total = 1")
    found = orders.run("SELECT CAST(new AS BLOB) FROM poller_orders_changes ORDER BY id LIMIT 4")
    one, two, three, four = (json.loads(new.decode("utf-8", "surrogateescape")) for (new,) in found)
    assert (one["note"], one["total"]) == ({"hex": "DEADBEEF"}, {"real": "0.30000000000000004"})
    assert (two["note"], two["total"]) == ('{"a": 1}', 9223372036854775807)
    assert three["note"] == "\udc80\udcff"
    assert four["note"] == "a\0b"
    orders.holds()


def test_a_table_of_many_columns_is_captured(sqlite_url: str) -> None:
    made = Captured(sqlite_url)
    names = [f"c{n}" for n in range(199)]
    made.run(f"CREATE TABLE orders (id INTEGER PRIMARY KEY, {', '.join(names)})")
    made.install()
    made.run(
        f"INSERT INTO orders VALUES (1, {', '.join(['1.5', 'NULL', '7'] * 66)}, '}}')", "UPDATE orders SET c3 = 'x'"
    )
    ((_, _, row), _) = made.changes()
    assert list(row) == ["id", *names]
    assert (row["c0"], row["c1"], row["c2"], row["c198"]) == ({"real": "1.5"}, None, 7, "}")
    made.holds()
    made.close()


def test_a_key_that_differs_by_collation_or_type_is_another(sqlite_url: str) -> None:
    made = Captured(sqlite_url)
    made.run("CREATE TABLE orders (id NOT NULL COLLATE NOCASE, part, PRIMARY KEY (id, part)) WITHOUT ROWID")
    with pytest.raises(CaptureRefusal, match="REPLACE puts one over the other"):
        made.install()
    made.install(accepted=("replace",))
    made.run("INSERT INTO orders VALUES ('a', 1)", "UPDATE orders SET id = 'A'", "UPDATE orders SET part = 1.0")
    assert made.ops() == "IDIDI"
    made.holds()
    made.close()


def test_a_key_that_is_set_by_another_name_is_another_key(orders: Captured) -> None:
    orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a', 1)", *(f"UPDATE orders SET {name} = id + 1" for name in ROWIDS))
    orders.run("UPDATE orders SET note = 'b', iD = iD")
    assert orders.ops() == "IDIDIDIDIU"
    orders.holds()


def test_rows_deleted_by_a_cascade_are_changes(orders: Captured) -> None:
    orders.run(
        "PRAGMA foreign_keys = ON",
        "CREATE TABLE parents (id INTEGER PRIMARY KEY)",
        "INSERT INTO parents VALUES (1)",
        "ALTER TABLE orders ADD parent INT REFERENCES parents ON DELETE CASCADE",
    )
    orders.install()
    orders.run("INSERT INTO orders (id, parent) VALUES (1, 1), (2, 1)", "DELETE FROM parents")
    assert orders.ops() == "IIDD"
    orders.holds()


def test_installing_again_after_altering_leaves_no_hole(orders: Captured) -> None:
    orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a', 1)", "ALTER TABLE orders ADD extra DEFAULT 3")
    plan = orders.capture().install()
    assert (plan.standing, plan.gap) == ("installed", None)
    assert [one for one in plan.warnings if "column extra was added" in one]
    orders.run("UPDATE orders SET extra = 4", "ALTER TABLE orders RENAME COLUMN note TO text")
    orders.install()
    orders.run("UPDATE orders SET text = 'b'")
    assert orders.ops() == "IUU"
    assert orders.changes()[-1][2] == {"id": 1, "text": "b", "total": 1, "extra": 4}
    orders.holds()


def test_installing_twice_changes_nothing(orders: Captured) -> None:
    orders.install()
    before = orders.run("SELECT rowid, * FROM sqlite_schema"), orders.run("SELECT * FROM poller_captures")
    assert orders.capture().install().standing == "installed"
    assert (orders.run("SELECT rowid, * FROM sqlite_schema"), orders.run("SELECT * FROM poller_captures")) == before


@pytest.mark.parametrize(
    "harm",
    [
        ("DROP TRIGGER poller_capture_orders_u",),
        ("CREATE TABLE n (id INTEGER PRIMARY KEY, note)", "DROP TABLE orders", "ALTER TABLE n RENAME TO orders"),
        ("ALTER TABLE orders RENAME TO former", "CREATE TABLE orders (id INTEGER PRIMARY KEY, note)"),
        (TOUCH,),
    ],
)
def test_a_damage_is_mended_and_leaves_a_gap(orders: Captured, harm: tuple[str, ...]) -> None:
    orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a', 1)", *harm)
    assert orders.capture().plan().standing == "damaged"
    orders.install()
    orders.run("INSERT INTO orders (id, note) VALUES (2, 'a')")
    assert orders.ops() == "IXI"
    assert orders.capture().plan().standing == "installed"
    if harm == (TOUCH,):
        orders.run("UPDATE orders SET note = 'b' WHERE id = 2")
        assert orders.ops() == "IXIUU"
    orders.holds()


def test_verifying_finds_a_trigger_that_runs_before_capture(orders: Captured) -> None:
    orders.install()
    orders.run(TOUCH, "INSERT INTO orders VALUES (1, 'a', 1)", "UPDATE orders SET note = 'b'")
    assert orders.chain().breaks[0].what == "its old row differs from what change 1 left in note"


def test_removing_leaves_a_gap_or_nothing(orders: Captured) -> None:
    before = orders.run("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'")
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
    assert orders.run("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'") == before


def test_rows_that_replace_removes_are_refused_until_accepted(orders: Captured) -> None:
    orders.run("CREATE UNIQUE INDEX by_note ON orders (note)")
    with pytest.raises(CaptureRefusal, match="REPLACE may remove rows by the unique index by_note"):
        orders.install()
    orders.install(accepted=("replace",))
    orders.install()  # it stays accepted
    orders.run("INSERT INTO orders VALUES (1, 'a', 1)", "REPLACE INTO orders VALUES (2, 'a', 1)")
    assert orders.ops() == "II"
    assert [one.what for one in orders.chain().breaks] == ["the row that it left is not in the table"]


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        (("CREATE VIEW orders AS SELECT 1 AS id",), "a view"),
        (("CREATE VIRTUAL TABLE orders USING fts5(id)",), "a virtual table"),
        (("CREATE TABLE orders (id int)",), "no primary key"),
        (("CREATE TABLE orders (id TEXT PRIMARY KEY)",), "may be NULL"),
        (("CREATE TABLE orders (id INTEGER PRIMARY KEY DESC)",), "may be NULL"),
        (("CREATE TABLE orders (id TEXT COLLATE NOCASE NOT NULL PRIMARY KEY)",), "may be equal and not the same"),
        (("CREATE TABLE orders (id NOT NULL PRIMARY KEY)",), "may be equal and not the same"),
        (("CREATE TABLE orders (id INTEGER PRIMARY KEY, _op)",), "column _op"),
        (("CREATE TABLE orders (id INTEGER PRIMARY KEY)", "CREATE TABLE poller_orders_changes (id)"), "did not make"),
        ((), "no such table"),
    ],
)
def test_refused_and_nothing_installed(sqlite_url: str, ddl: tuple[str, ...], says: str) -> None:
    made = Captured(sqlite_url)
    made.run(*ddl)
    before = made.run("SELECT * FROM sqlite_schema")
    with pytest.raises(CaptureRefusal, match=says) as refused:
        made.install()
    assert "orders: " in refused.value.message
    assert refused.value.next_step
    assert made.run("SELECT * FROM sqlite_schema") == before
    made.close()


def test_names_are_quoted_everywhere(sqlite_url: str) -> None:
    name = "o'r\"d\\e%s:r [x] {tag}"
    quoted = '"' + name.replace('"', '""') + '"'
    made = Captured(sqlite_url, table=name)
    made.run(f'CREATE TABLE {quoted} ({quoted} INTEGER PRIMARY KEY, "x y" text)')
    made.install(excluded=("x y",), old=False)
    made.run(f"INSERT INTO {quoted} VALUES (1, 2), (2, 3)", f"UPDATE {quoted} SET {quoted} = 9 WHERE {quoted} = 1")
    assert made.holds().changes == 4
    made.capture().remove(changes=True)
    made.close()


def test_installing_waits_a_short_time_for_writers(orders: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poller.databases.capture.LOCK_SECONDS", 0.05)
    monkeypatch.setattr("poller.databases.capture.PAUSE_SECONDS", 0.01)
    orders.run("BEGIN IMMEDIATE")
    with pytest.raises(CaptureRefusal, match="open held the table, 10 times"):
        orders.install()
    orders.run("COMMIT")
    orders.install()


def test_no_file_is_made_where_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    made = Captured(f"sqlite:///{path}")
    made.close()
    path.unlink(missing_ok=True)
    with pytest.raises(CaptureRefusal, match="no such file"):
        made.capture().plan()
    assert not path.exists()


def test_a_file_that_may_not_be_written_is_refused(orders: Captured, tmp_path: Path) -> None:
    path = tmp_path / "test.sqlite3"
    orders.close()
    made = Captured(f"sqlite:///file:{path}?mode=ro&uri=true")
    with pytest.raises(CaptureRefusal, match="may not write the database file"):
        made.install()
    made.close()
    with closing(sqlite3.connect(path)) as found:
        assert found.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall() == []


def test_keys_that_equal_only_themselves_need_no_word(sqlite_url: str) -> None:
    made = Captured(sqlite_url)
    made.run("CREATE TABLE orders (id TEXT NOT NULL, n INT NOT NULL, r REAL NOT NULL, PRIMARY KEY (id, n, r))")
    made.install()
    made.run("INSERT INTO orders VALUES ('a', 1, 1)", "REPLACE INTO orders VALUES ('a', 1.0, '1.0')")
    assert made.changes()[0] == made.changes()[1]
    made.holds()
    made.close()


def test_a_file_in_utf_16_is_verified(sqlite_url: str) -> None:
    made = Captured(sqlite_url)
    made.run("PRAGMA encoding = 'UTF-16'", "CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)")
    made.install()
    made.run(
        "INSERT INTO orders VALUES (1, 'ä😀'), (2, CAST(x'00d8' AS TEXT))", "UPDATE orders SET id = 3 WHERE id = 1"
    )
    assert made.holds().compared == 2
    made.close()


def test_json_that_a_function_made_is_the_text_that_the_table_has(orders: Captured) -> None:
    orders.run("ALTER TABLE orders ADD said")
    orders.install()
    for number, said in (1, """json('{"hex": "61"}')"""), (2, "json_array(1)"):
        orders.run(f"INSERT INTO orders (id, said) VALUES ({number}, {said})")
    assert [row["said"] for row in rows(orders)] == ['{"hex":"61"}', "[1]"]
    assert orders.holds().compared == 2


def test_a_key_of_any_type_in_a_strict_table_is_refused_at_first(sqlite_url: str) -> None:
    """1 and 1.0 are equal there, and not the same."""
    made = Captured(sqlite_url)
    made.run("CREATE TABLE orders (id ANY PRIMARY KEY NOT NULL) STRICT")
    with pytest.raises(CaptureRefusal, match="equal and not the same"):
        made.install()
    made.install(accepted=("replace",))
    made.close()
