"""`poller peek`: the next rows and where they begin; nothing is changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from rich.cells import cell_len

from tests.cli.console import Console, ran
from tests.cli.project import Project
from tests.cli.terminal import Terminal
from tests.support.schemas import validator


def test_the_next_rows_and_where_they_begin(project: Project) -> None:
    console = ran(project)
    project.insert(4)
    before = console.everything()
    ended = console.run("peek", "orders", "--limit", "3", "--json")
    assert ended.code == 0
    validator("peek").validate(ended.json)
    assert [row["id"] for row in ended.json["rows"]] == [6, 7, 8]
    assert ended.json["cursor"]["tiebreaker"] == {"id": 5}
    screen = console.run("peek", "orders").out.splitlines()
    assert screen[1].split() == ["id", "updated_at"]
    assert screen[3].startswith("6 ")
    assert console.everything() == before


def test_peek_shows_the_bound_only_where_it_is_held(project: Project) -> None:
    console = ran(project)
    assert console.run("peek", "orders").out == "orders: no row after 2026-01-01 00:00:00 / id=5\n"
    project.execute("PRAGMA journal_mode = wal")
    with closing(sqlite3.connect(project.folder / "shop.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        held = console.run("peek", "orders").out
        bound = console.run("peek", "orders", "--json").json["bound"]
        writer.execute("ROLLBACK")
    assert f"(the bound is held by {bound['held_by']}" in held


def test_values_of_every_kind_are_json_and_cannot_steer_a_terminal(project: Project) -> None:
    project.configure("orders")
    project.execute("ALTER TABLE orders ADD COLUMN note")
    project.execute(
        "INSERT INTO orders VALUES (?, ?, ?)",
        (1, "2026-01-01 00:00:01", "a\x1b[2Jb"),
        (2, "2026-01-01 00:00:02", b"\x00\xff"),
        (3, "2026-01-01 00:00:03", float("inf")),
        (4, "2026-01-01 00:00:04", None),
    )
    console = Console(project)
    rows = console.run("peek", "orders", "--json").json["rows"]
    assert [row["note"] for row in rows] == ["a\x1b[2Jb", "00ff", "inf", None]
    assert "\x1b" not in console.run("peek", "orders").out


def filled(project: Project, *notes: str | None) -> Console:
    project.configure("orders")
    project.execute("ALTER TABLE orders RENAME TO former")
    project.execute("CREATE TABLE orders (note TEXT, id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    rows = [(note, n, "2026-01-01 00:00:00") for n, note in enumerate(notes, start=1)]
    project.execute("INSERT INTO orders VALUES (?, ?, ?)", *rows)
    return Console(project)


def test_in_a_pipe_a_long_cell_is_whole_and_pads_no_other_row(project: Project) -> None:
    lines = filled(project, "x" * 5000, "short").run("peek", "orders").out.splitlines()
    assert "x" * 5000 in lines[3]
    assert max(map(len, [*lines[:3], *lines[4:]])) < 100


def test_no_value_and_an_empty_text_look_different(project: Project) -> None:
    lines = filled(project, None, "").run("peek", "orders").out.splitlines()
    assert lines[3].startswith("NULL ")
    assert lines[4].startswith("  ")


def test_columns_align_whatever_the_width_of_the_characters(project: Project) -> None:
    lines = filled(project, "注文の備考", "abc").run("peek", "orders").out.splitlines()[1:]
    assert len({cell_len(line[: line.index("2026")]) for line in lines[2:]}) == 1


def test_on_a_narrow_terminal_cursor_and_key_come_first(project: Project) -> None:
    filled(project, "a note that is long enough to fill it")
    _, shown = Terminal(project, "peek", "orders", columns=40).end()
    lines = shown.splitlines()
    assert lines[1].split()[:2] == ["updated_at", "id"]
    assert lines[3].startswith("2026-01-01 00:00:00  1")


def test_the_next_rows_in_a_file(project: Project) -> None:
    parquet, ipc = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.ipc")
    console = ran(project)
    project.insert(4)
    files = project.folder / "next.parquet", project.folder / "next.arrow"
    for file in files:
        assert console.run("peek", "orders", "--arrow", str(file)).code == 0
        assert file.stat().st_mode & 0o777 == 0o600
    assert parquet.read_table(files[0]).column("id").to_pylist() == [6, 7, 8, 9]
    with ipc.open_file(str(files[1])) as found:
        assert found.read_all().column("id").to_pylist() == [6, 7, 8, 9]
    again = console.run("peek", "orders", "--arrow", str(files[0]))
    assert (again.code, "exists already" in again.err) == (2, True)
    other = console.run("peek", "orders", "--arrow", str(project.folder / "next.csv"))
    assert (other.code, ".parquet or .arrow" in other.err) == (2, True)
