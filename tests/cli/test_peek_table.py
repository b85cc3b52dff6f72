"""The table that `poller peek` prints for people: in a pipe, on a narrow terminal, with wide characters and NULLs."""

from __future__ import annotations

from rich.cells import cell_len

from tests.cli.console import Console
from tests.cli.project import Project
from tests.cli.terminal import Terminal


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


def test_no_value_and_an_empty_text_are_told_apart(project: Project) -> None:
    lines = filled(project, None, "").run("peek", "orders").out.splitlines()
    assert lines[3].startswith("NULL ")
    assert lines[4].startswith("  ")


def test_columns_stand_below_each_other_whatever_the_characters_are_as_wide_as(project: Project) -> None:
    lines = filled(project, "注文の備考", "abc").run("peek", "orders").out.splitlines()[1:]
    assert len({cell_len(line[: line.index("2026")]) for line in lines[2:]}) == 1


def test_on_a_narrow_terminal_cursor_and_key_come_first(project: Project) -> None:
    filled(project, "a note that is long enough to fill it")
    _, shown = Terminal(project, "peek", "orders", columns=40).end()
    lines = shown.splitlines()
    assert lines[1].split()[:2] == ["updated_at", "id"]
    assert lines[3].startswith("2026-01-01 00:00:00  1")
