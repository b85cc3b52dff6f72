"""Each command as a process of its own, with state in Azurite and rows in PostgreSQL; help, and completion."""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import psycopg
import pytest
from sqlalchemy import make_url

from tests.cli.databases import done
from tests.cli.project import COMMAND, Project, end, wait_until

COMMANDS = (
    "peek",
    "history",
    "pause",
    "resume",
    "reset-to-beginning",
    "reset-to-cursor",
    "reset-to-checkpoint",
    "clone-checkpoint",
    "export-checkpoint",
    "rebind",
)


def test_what_the_server_says_of_a_name_is_kept(project: Project, servers: psycopg.Connection) -> None:
    """Also by a reset while the database refuses us; a table that was made anew under its name is warned of."""
    assert project.run("run", "--once").code == 0
    assert done(project, "export-checkpoint", "orders", schema="checkpoint").json["source"]["schema"] == "public"
    servers.execute("ALTER TABLE orders RENAME TO former")
    servers.execute("CREATE TABLE orders (LIKE former INCLUDING ALL)")
    checked = done(project, "check", "orders", schema="check").json["pollers"][0]
    (table,) = [one for one in checked["findings"] if one["check"] == "table"]
    assert table["severity"] == "warn"
    assert "made anew" in table["message"]
    url = make_url(project.environ["ORDERS_DB_URL"]).set(username="nobody")
    project.environ["ORDERS_DB_URL"] = url.render_as_string(hide_password=False)
    done(project, "reset-to-beginning", "orders", "--yes")
    assert done(project, "export-checkpoint", "orders", schema="checkpoint").json["source"]["schema"] == "public"


def test_another_search_path_is_refused_until_it_is_rebound(project: Project, servers: psycopg.Connection) -> None:
    path = project.folder / "poller.toml"
    path.write_text(path.read_text().replace('handler = "', 'audit_window = "2h"\nhandler = "'))
    assert project.run("run", "--once").code == 0
    servers.execute("CREATE SCHEMA other")
    servers.execute("CREATE TABLE other.orders (LIKE orders INCLUDING ALL)")
    url = make_url(project.environ["ORDERS_DB_URL"]).update_query_dict({"options": "-csearch_path=other"})
    project.environ["ORDERS_DB_URL"] = url.render_as_string(hide_password=False)
    for command in ("status", "peek", "recheck", "check"):
        ended = project.run(command, "orders")
        assert ended.code == 4, command
        assert "schema: public -> other" in ended.out + ended.err
    done(project, "rebind", "orders", "--yes")
    assert done(project, "export-checkpoint", "orders", schema="checkpoint").json["source"]["schema"] == "other"


def test_a_day_of_an_operator(project: Project, servers: psycopg.Connection) -> None:
    assert project.run("run", "--once").code == 0
    assert done(project, "peek", "orders", schema="peek").json["rows"] == []
    done(project, "pause", "orders", code=3)
    assert done(project, "pause", "orders", "--yes", "--reason", "deploy").json["changed"] is True
    done(project, "resume", "orders", "--yes")
    exported = done(project, "export-checkpoint", "orders", "kept.json", schema="checkpoint").json
    assert exported["cursor"]["tiebreaker"] == {"id": 9}
    replay = ("reset-to-cursor", "orders", "--value", "2026-01-01T00:04", "--pk", "id=4")
    done(project, *replay, code=3)
    reset = done(project, *replay, "--yes").json
    assert reset["effect"]["redelivered"] == 5
    assert reset["after"]["cursor"]["value"] == "2026-01-01T00:04:00.000000Z"
    rows = done(project, "peek", "orders", "--limit", "2", schema="peek").json["rows"]
    assert [row["id"] for row in rows] == [5, 6]
    done(project, "reset-to-beginning", "orders", "--yes")
    done(project, "reset-to-checkpoint", "orders", "kept.json", "--yes", code=3)
    assert "9 rows will never be delivered" in project.run("reset-to-checkpoint", "orders", "kept.json", "--yes").error
    done(project, "reset-to-checkpoint", "orders", "kept.json", "--yes", "--allow-skip")
    assert done(project, "clone-checkpoint", "orders", "orders-v2", "--yes").json["name"] == "orders-v2"
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('pk_columns = ["id"]', 'pk_columns = ["id"]\nfilter = "id > 0"'))
    assert project.run("run", "--once").code == 4
    done(project, "reset-to-checkpoint", "orders", "kept.json", "--yes", code=4)
    done(project, "rebind", "orders", "--yes")
    servers.execute("INSERT INTO orders VALUES (10, '2026-01-02Z')")
    assert project.run("run", "--once").code == 0
    records = done(project, "history", "orders", schema="history").json["records"]
    kinds = [record["kind"] for record in records]
    assert kinds == ["pause", "resume", "reset-to-cursor", "reset-to-beginning", "reset-to-checkpoint", "rebind"]
    assert done(project, "status", schema="status").json["pollers"][0]["cursor"]["tiebreaker"] == {"id": 10}


def test_a_worker_at_work_is_broken_only_when_told_and_undone_as_printed(
    project: Project, servers: psycopg.Connection
) -> None:
    (project.folder / "wait").touch()
    worker = project.start("run", "--once")
    wait_until(lambda: project.lines("started"))
    done(project, "reset-to-beginning", "orders", "--yes", code=3)
    broken = done(project, "reset-to-beginning", "orders", "--yes", "--break-lease").json
    (project.folder / "wait").unlink()
    assert end(worker).code == 1
    program, *arguments = shlex.split(broken["undo"])
    assert program == "poller"
    undone = done(project, *arguments, "--yes").json
    assert undone["after"]["fencing_token"] == broken["after"]["fencing_token"] + 1
    assert json.loads(project.run("run", "--once", "--json").out.splitlines()[-1])["outcome"] == "held_elsewhere"


def test_the_database_down_is_told_and_a_way_back_still_goes(project: Project, servers: psycopg.Connection) -> None:
    assert project.run("run", "--once").code == 0
    servers.execute("ALTER TABLE orders RENAME TO away")
    done(project, "peek", "orders", code=1)
    ended = done(project, "reset-to-beginning", "orders", "--yes")
    assert ended.json["effect"]["redelivered"] is None
    assert ended.json["effect"]["not_counted"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(project: Project, command: str) -> None:
    ended = project.run(command, "--help")
    assert ended.code == 0
    assert f"Example: poller {command} orders" in ended.out
    for option in ("--json", "--config"):
        assert option in ended.out


@pytest.mark.parametrize("command", COMMANDS)
def test_the_shell_completes_its_name(project: Project, command: str) -> None:
    project.configure("orders", "invoices")
    words = {"_POLLER_COMPLETE": "complete_bash", "COMP_WORDS": f"poller {command} i", "COMP_CWORD": "2"}
    done = subprocess.run(
        COMMAND, cwd=project.folder, env={**os.environ, **words}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["invoices"]
