"""`poller status`: what it shows of each poller, and the one word for the whole."""

from __future__ import annotations

import io
import re
from unittest.mock import patch

import pytest
from rich.console import Console as Screen

from poller.backfill.watch import Watcher
from poller_cli.output.sparkline import History
from poller_cli.output.watch_screen import screen as look_of
from poller_cli.session import Session
from tests.cli.console import Console, at_work, ran, word
from tests.cli.project import NOTING, Project, end
from tests.support.schemas import validator
from tests.support.services import free_port, wait_until

FIELDS = frozenset(
    [
        "name",
        "app_name",
        "paused",
        "halted",
        "cursor",
        "checkpoint_updated_at",
        "lease",
        "lag_seconds",
        "pending",
        "bound",
        "attempts",
        "last_error",
    ]
)


def test_a_poller_that_never_ran(project: Project) -> None:
    project.configure("orders")
    project.insert(3)
    ended = project.run("status", "--json")
    assert ended.code == 0
    (status,) = ended.json["pollers"]
    assert status.keys() >= FIELDS
    assert (status["exists"], status["cursor"], status["pending"]) == (False, None, 3)
    assert status["lease"]["fencing_token"] == 0
    assert project.execute("SELECT count(*) FROM orders") == [(3,)]
    again = project.run("status", "--json").json["pollers"][0]
    assert again["exists"] is False, "looking must not create the document"


def test_a_poller_that_delivered_everything(project: Project) -> None:
    project.configure("orders")
    project.insert(5)
    assert project.run("run", "--once").code == 0
    (status,) = project.run("status", "--json").json["pollers"]
    assert status["cursor"] == {"kind": "timestamp+pk", "value": "2026-01-01 00:00:00", "tiebreaker": {"id": 5}}
    assert (status["pending"], status["attempts"], status["last_error"]) == (0, 0, None)
    assert (status["lease"]["owner_id"], status["lease"]["fencing_token"], status["lease"]["live"]) == (None, 1, False)
    assert status["checkpoint_updated_at"].endswith("Z")
    project.insert(2)
    (status,) = project.run("status", "--json").json["pollers"]
    assert status["pending"] == 2
    assert status["lag_seconds"] > 0


def test_who_holds_the_lease_and_for_how_long(project: Project) -> None:
    project.configure("orders", handlers=NOTING)
    project.insert(2)
    (project.folder / "wait").touch()
    worker = project.start("run", "--once")
    wait_until(lambda: project.lines("started"))
    lease = project.run("status", "--json").json["pollers"][0]["lease"]
    screen = project.run("status").out
    (project.folder / "wait").unlink()
    assert end(worker).code == 0
    assert lease["live"] is True
    assert lease["owner_id"].startswith("shop/")
    assert 0 < lease["expires_in_seconds"] <= 65
    assert "working" in screen
    assert lease["owner_id"] in screen


def test_why_a_batch_fails(project: Project) -> None:
    refuses = "def handle(batch): raise ValueError('no such customer')"
    project.configure("orders", handlers=refuses, poller="retry_backoff = '1ms'")
    project.insert(2)
    assert project.run("run", "--once").code == 1
    assert project.run("run", "--once").code == 1
    ended = project.run("status", "--json")
    (status,) = ended.json["pollers"]
    assert ended.code == 0
    assert status["attempts"] == 2
    assert (status["last_error"]["type"], status["last_error"]["message"]) == ("ValueError", "no such customer")
    assert "no such customer" in project.run("status").out


def test_a_halted_poller_says_so_and_runs_no_more(project: Project) -> None:
    project.configure(
        "orders", handlers="def handle(batch): raise ValueError('no')", poller="max_attempts = 1\non_poison = 'halt'"
    )
    project.insert(1)
    assert project.run("run", "--once").code == 1
    assert project.run("run", "--once").code == 1
    ended = project.run("status", "--json")
    assert ended.code == 0
    assert ended.json["pollers"][0]["halted"] is True
    screen = project.run("status").out
    assert "halted" in screen
    assert "row orders/id=1/2026-01-01_00:00:00 failed once: ValueError" in screen


def test_the_document_is_shown_when_the_database_is_away(project: Project) -> None:
    project.configure("orders")
    project.insert(4)
    assert project.run("run", "--once").code == 0
    (project.folder / "shop.db").unlink()
    ended = project.run("status", "--json")
    (status,) = ended.json["pollers"]
    assert ended.code == 1
    assert status["cursor"]["tiebreaker"] == {"id": 4}
    assert status["pending"] is None
    assert "shop.db" in status["error"]
    assert "shop.db" in ended.error
    screen = project.run("status", "-v")
    assert "id=4" in screen.out
    assert re.search(r"^orders  source away +unhealthy$", screen.out, re.MULTILINE)
    assert screen.code == 1


def test_an_unreachable_store_is_reported_for_each_poller(project: Project) -> None:
    project.configure("orders", "invoices")
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('store = "sql"', 'store = "blob"'))
    endpoint = f"http://127.0.0.1:{free_port()}/devstoreaccount1"
    project.environ["AzureWebJobsStorage"] = (
        f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=aGVsbG8=;BlobEndpoint={endpoint};"
    )
    ended = project.run("status", "--json")
    assert ended.code == 1
    assert [bool(status["error"]) for status in ended.json["pollers"]] == [True, True]
    assert "aGVsbG8=" not in ended.out + ended.err


def test_only_the_named_pollers_are_shown(project: Project) -> None:
    project.configure("orders", "invoices")
    names = [status["name"] for status in project.run("status", "invoices", "--json").json["pollers"]]
    assert names == ["invoices"]
    assert project.run("status", "orders", "orders", "--json").json["pollers"][0]["name"] == "orders"


def test_what_a_row_holds_cannot_steer_the_terminal(project: Project) -> None:
    project.configure("orders", handlers="def handle(batch): raise ValueError('\\x1b[2Jgone\\x07')")
    project.insert(1)
    ended = project.run("run", "--once")
    assert "\x1b" not in ended.err.partition("Traceback")[0].splitlines()[-1]
    assert "\x1b" not in project.run("status").out


UNKNOWN = {"exists": None, "cursor": None, "paused": None, "halted": None, "attempts": None}


@pytest.mark.parametrize("body", ["not JSON", '{"version": 2, "poller_name": "orders"}'])
def test_of_a_document_that_cannot_be_read_nothing_is_claimed(project: Project, body: str) -> None:
    console = ran(project)
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


@pytest.mark.parametrize("command", ["status", "peek", "check", "run"])
def test_a_document_that_was_deleted_is_no_poller_that_never_ran(project: Project, command: str) -> None:
    console = ran(project)
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


def test_a_lease_that_an_operator_keeps_is_nobodys_work(project: Project) -> None:
    console = ran(project)
    at_work(console)
    assert word(console) == "working"
    project.environ["POLLER_OPERATOR"] = "ada@desk"
    console.done("reset-to-beginning", "orders", "--yes", "--break-lease")
    assert word(console) == "reserved"
    screen = console.run("status").out
    assert "Reserved for ada@desk for up to " in screen
    assert "operator/" not in screen
    console.edit(lease=console.state()["lease"] | {"ttl_seconds": 1e300})
    assert "Reserved for ada@desk for up to more than 1,000 years" in console.run("status").out


@pytest.mark.parametrize(("kept", "expected"), [(False, "pausing"), (True, "paused")])
def test_a_paused_poller_is_pausing_while_its_batch_is_in_hand(project: Project, kept: bool, expected: str) -> None:
    console = ran(project)
    console.done("pause", "orders", "--yes")
    assert word(console) == "paused"
    at_work(console, "operator/ada@desk/1234abcd", kept=kept)
    assert word(console) == expected


def test_a_pause_under_a_real_batch(project: Project) -> None:
    project.configure("orders", handlers=NOTING)
    project.insert(3)
    (project.folder / "wait").touch()
    worker = project.start("run", "--once")
    wait_until((project.folder / "started").exists)
    console = Console(project)
    console.done("pause", "orders", "--yes")
    assert word(console) == "pausing"
    (project.folder / "wait").unlink()
    assert end(worker).code == 0
    assert word(console) == "paused"


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
