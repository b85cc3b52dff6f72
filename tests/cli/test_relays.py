"""Relays by the command: what `poller run`, `check`, `quarantine replay` and `backfill` make of one."""

from __future__ import annotations

import json

from tests.cli.console import Console
from tests.cli.project import Project
from tests.integration.relays.endpoint import Endpoint
from tests.support.services import wait_until


def relaying(project: Project, handler: str, settings: str = "", more: str = "") -> None:
    project.configure(poller=more)
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace("handlers:handle", f"poller.relays:{handler}") + f"[pollers.orders.relay]\n{settings}")


def copying(project: Project, *, most: int = 1000, more: str = "") -> None:
    """Into a table of SQLite that takes ids up to `most`."""
    table = f"CREATE TABLE copy (id INTEGER PRIMARY KEY CHECK (id <= {most}), updated_at TEXT)"
    project.execute(table, database="copy.db")
    relaying(project, "sql", 'url = "sqlite:///copy.db"\ntable = "copy"\nkey_columns = ["id"]\n', more)


def copied(project: Project) -> list[int]:
    return [row[0] for row in project.execute("SELECT id FROM copy ORDER BY id", database="copy.db")]


def test_only_rows_stand_on_stdout(project: Project) -> None:
    relaying(project, "stdout", more="batch_size = 2")
    project.insert(5)
    ended = project.run("run", "--until-idle")
    assert ended.code == 0, ended.err
    assert [json.loads(line)["id"] for line in ended.out.splitlines()] == [1, 2, 3, 4, 5]


def test_events_stand_alone_on_stdout_beside_a_relay(project: Project) -> None:
    relaying(project, "stdout", "envelope = true")
    project.insert(2)
    ended = project.run("run", "--once", "--json")
    assert all("event" in event for event in ended.events)
    rows = [json.loads(line)["row"]["id"] for line in ended.err.splitlines() if line.startswith('{"id"')]
    assert rows == [1, 2]


def test_a_wrong_relay_is_one_line_with_its_key(project: Project) -> None:
    relaying(project, "stdout", "envelop = true")
    ended = project.run("run", "--once")
    assert ended.code == 2
    assert 'pollers.orders.relay.envelop: there is no such key; did you mean "envelope"?' in ended.error


def test_a_variable_that_is_missing_stops_the_run_and_not_status(project: Project) -> None:
    relaying(project, "http", 'url_env = "SHOP_HOOK"')
    project.insert(1)
    ended = project.run("run", "--once")
    assert ended.code == 2
    assert "pollers.orders.relay.url_env" in ended.err
    assert "SHOP_HOOK" in ended.err
    assert project.run("status").code == 0


def test_check_looks_at_the_target(project: Project) -> None:
    copying(project)
    found = {(one["check"], one["severity"]) for one in project.run("check", "--json").json["pollers"][0]["findings"]}
    assert {("handler", "ok"), ("relay", "ok")} <= found
    project.execute("DROP TABLE copy", database="copy.db")
    ended = project.run("check", "--json")
    (finding,) = [one for one in ended.json["pollers"][0]["findings"] if one["check"] == "relay"]
    assert (ended.code, finding["severity"]) == (1, "error")
    assert "names no table" in finding["message"]


def test_check_compares_a_row_with_the_target(project: Project) -> None:
    """Before the first batch: a column that the target lacks, or that no row can fill."""
    table = "CREATE TABLE copy (id INTEGER PRIMARY KEY, updated_at TEXT GENERATED ALWAYS AS (id) STORED)"
    project.execute(table, database="copy.db")
    relaying(project, "sql", 'url = "sqlite:///copy.db"\ntable = "copy"\nkey_columns = ["id"]\n')
    project.insert(1)
    for words in ('"updated_at" of the table copy', "names no column of the table copy"):
        findings = project.run("check", "--json").json["pollers"][0]["findings"]
        (finding,) = [one for one in findings if one["check"] == "relay" and one["severity"] == "error"]
        assert words in finding["message"]
        project.execute("DROP TABLE copy", database="copy.db")
        project.execute("CREATE TABLE copy (id INTEGER PRIMARY KEY)", database="copy.db")


def taking_all(project: Project) -> None:
    """From now on the table takes any row; it is empty."""
    project.execute("DROP TABLE copy", database="copy.db")
    project.execute("CREATE TABLE copy (id INTEGER PRIMARY KEY, updated_at TEXT)", database="copy.db")


def test_a_refused_row_comes_by_itself_once_it_is_taken(project: Project) -> None:
    copying(project, most=4, more='on_poison = "quarantine"\nretry_backoff = "1ms"')
    project.insert(5)
    console = Console(project)
    assert console.run("run", "--once").code == 1
    assert copied(project) == [1, 2, 3, 4]

    taking_all(project)

    def arrived() -> list[int]:
        console.run("run", "--once")
        return copied(project)

    wait_until(arrived, "the row")
    assert copied(project) == [5], "and those that were applied are not applied again"


def test_a_row_that_waits_for_a_person_is_replayed(project: Project) -> None:
    with Endpoint().serving() as endpoint:
        relaying(project, "http", f'url = "{endpoint.url}"\nmax_request = 9', 'on_poison = "quarantine"')
        project.insert(1)
        assert project.run("run", "--once").code == 1
        text = (project.folder / "poller.toml").read_text()
        project.write(text.replace("max_request = 9", ""))
        ended = project.run("quarantine", "replay", "orders", "--all", "--yes")
        assert ended.code == 0, ended.err
    assert [request.rows[0]["id"] for request in endpoint.requests] == [1]


def test_a_backfill_brings_its_range_once_more(project: Project) -> None:
    copying(project)
    project.insert(30)
    assert project.run("run", "--until-idle").code == 0
    project.execute("DELETE FROM copy", database="copy.db")
    ranged = ("--from", "2026-01-01 00:00:00", "--to", "2026-01-02 00:00:00", "--parallel", "2")
    ended = project.run("backfill", "orders", *ranged, "--yes")
    assert ended.code == 0, ended.err
    assert copied(project) == list(range(1, 31))
