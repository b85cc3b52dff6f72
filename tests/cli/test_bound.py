"""What status, peek and check say of the bound: rows that wait above it, and numbers that come again."""

from __future__ import annotations

from tests.cli.console import Console, ran, word
from tests.cli.project import Project


def numbered(project: Project) -> Console:
    """A poller over numbers, and a table that was begun anew after ten of them were delivered."""
    project.configure("orders", source='cursor_kind = "integer+pk"')
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('"updated_at"', '"id"').replace('cursor_time_zone = "UTC"', ""))
    project.execute("DROP TABLE orders")
    project.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL)")
    project.execute("INSERT INTO orders VALUES (?)", *[(n,) for n in range(1, 11)])
    console = Console(project)
    assert console.run("run", "--until-idle").code == 0
    project.execute("DELETE FROM orders")
    project.execute("UPDATE sqlite_sequence SET seq = 3")
    project.execute("INSERT INTO orders DEFAULT VALUES")
    return console


def test_a_database_that_went_back_is_the_word(project: Project) -> None:
    console = numbered(project)
    (status,) = console.run("status", "orders", "--json").json["pollers"]
    assert status["bound"]["below_checkpoint"] is True
    screen = console.run("status", "orders").out
    assert screen.startswith("orders  source behind ")
    assert "poller reset orders --to VALUE" in screen
    severity, message = _checked(console)
    assert severity == "error"
    assert "its next value was 5" in message
    ticked = console.run("run", "--once", "--json")
    assert ticked.code == 0
    assert "server_below_checkpoint" in ticked.out
    assert console.state()["checkpoint"]["cursor"]["value"] == "10"


def test_check_reports_an_empty_table_that_was_begun_anew(project: Project) -> None:
    console = numbered(project)
    project.execute("DELETE FROM orders")
    assert _checked(console)[0] == "error"


def _checked(console: Console) -> tuple[str, str]:
    (checked,) = console.run("check", "orders", "--json").json["pollers"]
    (bound,) = [one for one in checked["findings"] if one["check"] == "bound"]
    return bound["severity"], bound["message"]


def test_a_row_above_the_bound_is_shown(project: Project) -> None:
    console = ran(project)
    project.execute("INSERT INTO orders VALUES (?, ?)", (6, "2099-01-01 00:00:00"))
    assert word(console) == "settling"
    status = console.run("status", "--json").json["pollers"][0]
    assert (status["above_bound"], status["pending"]) == (True, 1)
    shown = f"1 row waits above the bound {status['bound']['value'][:10]}"
    screen = console.run("status").out
    assert shown in screen
    assert "poller check" in screen
    peeked = console.run("peek", "orders").out
    assert shown in peeked
    assert "no row" not in peeked
