"""`poller status`: what it shows of each poller, and the one word for the whole."""

from __future__ import annotations

import io
import re
from unittest.mock import patch

import pytest
from rich.console import Console as Screen

from poller.backfill.watch import Watcher
from poller_cli.output.sparkline import History
from poller_cli.output.watch_loop import screen as look_of
from poller_cli.session import Session
from tests.cli.console import Console, again, ran
from tests.cli.project import Project
from tests.support.cases import each
from tests.support.schemas import validator

UNKNOWN = {"exists": None, "cursor": None, "paused": None, "halted": None, "attempts": None}


@each("body", ["not JSON", '{"version": 2, "poller_name": "orders"}'])
def test_of_a_document_that_cannot_be_read_nothing_is_claimed(project: Project, body: str) -> None:
    console = again(project)
    console.put(body)
    ended = console.run("status", "--json")
    validator("status").validate(ended.json)
    (status,) = ended.json["pollers"]
    assert ended.code == 1
    assert {name: status[name] for name in UNKNOWN} == UNKNOWN
    assert (status["lease"]["live"], status["lease"]["fencing_token"]) == (None, None)
    screen = console.run("status", "--verbose").out
    assert "cursor    not known" in screen
    assert "lease     not known" in screen
    assert "beginning" not in screen
    assert "free" not in screen
    with Session(config=project.folder / "poller.toml").app() as app:
        output = Watcher([app.poller("orders")], app.backfills).sample().output
    file = io.StringIO()
    terminal = Screen(width=200, file=file)
    terminal.print(look_of(output, {"orders": History()}, chosen="orders", console=terminal, keys=False))
    assert "lease   not known" in file.getvalue()
    assert "cursor  not known" in file.getvalue()


@each("command", ["status", "peek", "check", "run"])
def test_a_document_that_was_deleted_is_no_poller_that_never_ran(project: Project, command: str) -> None:
    console = again(project)
    console.done("pause", "orders", "--yes")
    project.execute("DELETE FROM poller_documents WHERE name LIKE 'state/%'", database="state.db")
    ended = project.run(command, "orders", *["--once"] * (command == "run"))
    assert ended.code == 1
    said = " ".join((ended.out + ended.err).split())
    assert "it was deleted" in said
    assert "poller reset-to-checkpoint orders" in said
    assert "never ran" not in ended.out
    if command == "status":
        (status,) = console.run("status", "--json").json["pollers"]
        assert (status["exists"], status["lease"]["fencing_token"]) == (False, None)


def test_rows_without_a_cursor_are_counted(project: Project) -> None:
    console = Console(project)
    project.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT)")
    project.configure("orders", source='on_null_cursor = "skip"')
    project.insert(3)
    (status,) = console.run("status", "--json").json["pollers"]
    assert (status["null_cursors"], status["null_cursors_capped"]) == (0, False)
    assert "without a value" not in console.run("status").out
    project.execute("INSERT INTO orders VALUES (?, ?)", (7, None), (8, None))
    (status,) = console.run("status", "--json").json["pollers"]
    assert (status["null_cursors"], status["pending"]) == (2, 3)
    assert "2 rows without a value in the cursor column" in console.run("status").out
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('on_null_cursor = "skip"', 'on_null_cursor = "fail"'))
    ended = console.run("status", "--json")
    (status,) = ended.json["pollers"]
    assert ended.code == 1
    assert (status["null_cursors"], status["pending"]) == (2, 3), "what could be counted is shown beside the error"


def test_where_a_poller_that_never_ran_will_start(project: Project) -> None:
    project.configure("orders", source='start_from = "now"')
    project.insert(1)
    console = Console(project)
    (status,) = console.run("status", "--json").json["pollers"]
    assert status["exists"] is False
    assert status["cursor"]["value"] > "2026-01-01 00:00:00"
    assert status["pending"] == 0
    project.configure("orders")
    (project.folder / "shop.db").write_text("no database " * 100)
    assert "beginning" not in console.run("status").out


@pytest.mark.parametrize("command", ["status", "peek"])
def test_of_an_empty_table_the_kind_of_the_bound_is_shown(project: Project, command: str) -> None:
    project.configure("orders")
    found = Console(project).run(command, "orders", "--json").json
    bound = found["pollers"][0]["bound"] if command == "status" else found["bound"]
    assert (bound["kind"], bound["reason"]) == ("exact", "no rows yet")


def test_a_narrow_terminal_breaks_lines_between_words(project: Project) -> None:
    project.configure("orders")
    project.insert(3)
    project.environ |= {"NO_COLOR": "1", "COLUMNS": "40"}
    console = Console(project)
    for command in ("status", "check"):
        wide = console.run(command, "-v").out
        with patch("poller_cli.terminal.layout.is_terminal", return_value=True):
            lines = console.run(command, "-v").out.splitlines()
        words = set(wide.split())
        assert len(lines) > len(wide.splitlines())
        for line in lines:
            assert len(line) <= 40 or len(line.split()) == 1 or "->" in line, line
            cut = [word for word in line.split() if word not in words and not re.search(r"\d", word)]
            assert cut == [], line


@pytest.mark.parametrize("how", ["created", "reset", "put back"])
def test_no_commit_is_claimed_that_there_was_not(project: Project, how: str) -> None:
    """The document is younger than a minute, and nothing was delivered since it was made, reset or put back."""
    if how == "created":
        project.configure("orders")
        console = Console(project)
        assert project.run("run", "--once").code == 0
    else:
        console = ran(project)
        assert "last commit 0 s ago" in console.run("status").out
        assert console.run("export-checkpoint", "orders", str(project.folder / "file")).code == 0
        file = [] if how == "reset" else [str(project.folder / "file")]
        console.done("reset-to-checkpoint" if file else "reset-to-beginning", "orders", *file, "--yes")
    (status,) = console.run("status", "--json").json["pollers"]
    assert status["committed_at"] is None
    assert (status["moved_at"] is None) == (how == "created")
    screen = console.run("status").out
    assert "last commit" not in screen
    assert "nothing committed " in screen
