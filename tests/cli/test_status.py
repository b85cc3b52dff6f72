"""`poller status`: what it shows, that it changes nothing, and what it still shows when something is away."""

from __future__ import annotations

from tests.cli.conftest import NOTING, Project, end, wait_until
from tests.support.services import free_port

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
    project.configure("orders", handlers="def handle(batch): raise ValueError('no such customer')")
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
    project.configure("orders", handlers="def handle(batch): raise ValueError('no')", poller="max_attempts = 1")
    project.insert(1)
    assert project.run("run", "--once").code == 1
    assert project.run("run", "--once").code == 1
    ended = project.run("status", "--json")
    assert ended.code == 0
    assert ended.json["pollers"][0]["halted"] is True
    assert "halted" in project.run("status").out


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
    screen = project.run("status")
    assert "id=4" in screen.out
    assert screen.code == 1


def test_a_store_that_is_away_is_told_for_each_poller(project: Project) -> None:
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
