"""Commands as processes of their own, with state in Azurite and rows in PostgreSQL: each once done and once refused, a
day of an operator, and work that is killed."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from azure.storage.blob import ContainerClient
from sqlalchemy import make_url

from poller_cli.main import build
from tests.cli.azure_functions_db import fixture
from tests.cli.databases import done
from tests.cli.forge import Forge
from tests.cli.project import Ended, Project, end
from tests.support.azurite import KEY, Azurite
from tests.support.schemas import validator
from tests.support.services import wait_until

DAY = ("--from", "2026-01-01", "--to", "2026-01-02")
THEIRS = ("azure-functions-db", str(fixture("zoned")), "--name", "orders")
FOURTH = ("--value", "2026-01-01T00:04Z", "--pk", "id=4")
DATABASE = ("--url", "%ORDERS_DB_URL%", "--table", "orders", "--app", "shop", "--state", "blob")
NOTES = ("out", "err", "steps")
"""What the forge writes beside them."""
BY_LINE = {"run": "run-event", "watch": "watch"}
"""Commands whose output is a line per event."""


@dataclass(frozen=True)
class Row:
    """A command as it is done, and as it is refused.

    Attributes:
        done: its arguments, None where another test does it. schema: what its JSON holds to.
        refused: the arguments that are, by a poller that is paused. code: the exit code then. says: in its one line.
    """

    command: str
    done: tuple[str, ...] | None
    schema: str
    refused: tuple[str, ...]
    code: int
    says: str


TABLE = (
    Row("run", ("orders", "--once"), "run-event", ("nosuch", "--once"), 2, "nosuch"),
    Row("status", (), "status", ("nosuch",), 2, "nosuch"),
    Row("health", (), "health", ("nosuch",), 2, "nosuch"),
    Row("check", ("orders",), "check", ("nosuch",), 2, "nosuch"),
    Row("peek", ("orders",), "peek", ("orders", "--limit", "0"), 2, "--limit"),
    Row("recheck", ("orders", "--since", "1h"), "recheck", ("orders", "--since", "soon"), 2, "--since"),
    Row("prune", None, "prune", ("orders", "--yes"), 3, "followed by a number"),
    Row("capture", ("orders", "--install", "--yes"), "capture", ("orders", "--install"), 3, "--yes"),
    Row("export-checkpoint", ("orders", "kept.json"), "checkpoint", ("orders", "poller.toml"), 3, "--overwrite"),
    Row("checkpoint", ("export", "orders"), "checkpoint", ("import", *THEIRS, "--yes"), 3, "has a checkpoint"),
    Row(
        "checkpoint",
        ("clone", "orders", "copies", "--yes"),
        "change",
        ("clone", "orders", "orders", "--yes"),
        2,
        "NEW_NAME",
    ),
    Row("pause", ("orders", "--yes"), "change", ("invoices",), 1, "never ran"),
    Row("resume", ("orders", "--yes"), "change", ("orders",), 3, "--yes"),
    Row("reset-to-cursor", ("orders", *FOURTH, "--yes"), "change", ("orders", *FOURTH), 3, "--yes"),
    Row(
        "reset", ("orders", "--to", "here", "--yes"), "change", ("orders", "--to", "nosuch.json", "--yes"), 2, "nosuch"
    ),
    Row("undo", ("orders", "--yes"), "change", ("orders", "--change", "nosuch", "--yes"), 2, "--list"),
    Row("reset-to-beginning", ("orders", "--yes"), "change", ("orders",), 3, "--yes"),
    Row(
        "reset-to-checkpoint",
        ("orders", "kept.json", "--yes", "--allow-skip"),
        "change",
        ("orders", "nosuch.json", "--yes"),
        2,
        "nosuch.json",
    ),
    Row("clone-checkpoint", ("orders", "invoices", "--yes"), "change", ("orders", "invoices"), 3, "--yes"),
    Row("cancel", ("invoices", "--yes"), "change", ("invoices",), 1, "never ran"),
    Row("quarantine", ("list", "orders"), "quarantine-list", ("show", "orders", "--id", "nosuch"), 2, "nosuch"),
    Row("rebind", ("orders", "--yes", "-c", "moved.toml"), "change", ("orders", "-c", "moved.toml"), 3, "--yes"),
    Row(
        "import", (*THEIRS, "--overwrite", "--allow-skip", "--yes"), "change", (*THEIRS, "--yes"), 3, "has a checkpoint"
    ),
    Row("history", ("orders",), "history", ("nosuch",), 2, "nosuch"),
    Row("watch", ("--count", "2", "--interval", "100ms"), "watch", ("--interval", "soon"), 2, "--interval"),
    Row("backfill", ("orders", *DAY, "--yes"), "backfill", ("orders", *DAY), 3, "--yes"),
    Row(
        "init", (*DATABASE, "--yes", "-c", "new/poller.toml"), "init", (*DATABASE, "--yes"), 3, "has a poller 'orders'"
    ),
    Row("schema", ("export",), "schema-export", ("export", "--check", "--directory", "none"), 1, "Not up to date"),
    Row("sink", ("ddl", "mariadb://"), "sink-ddl", ("ddl", "oracle://"), 2, "cannot be fenced"),
    Row("dashboard", None, "dashboard", ("--port", "65536"), 2, "--port"),
    Row("dispatch", None, "dispatch", ("--once",), 2, "functions.mode"),
    Row("demo", None, "demo", ("--fast",), 2, "--fast"),
)


@pytest.fixture
def shop(project: Project, servers: psycopg.Connection) -> Project:
    """Two pollers of one table, and a second configuration with another source."""
    text = (project.folder / "poller.toml").read_text().replace('handler = "', 'audit_window = "2h"\nhandler = "')
    begins = text.index("[pollers.orders]")
    text += text[begins:].replace("pollers.orders", "pollers.invoices")
    project.write(text)
    (project.folder / "moved.toml").write_text(
        text.replace('pk_columns = ["id"]', 'pk_columns = ["id"]\nfilter = "id > 0"')
    )
    (project.folder / "new").mkdir()
    return project


@pytest.fixture
def blobs(shop: Project, azurite: Azurite, container: str) -> Iterator[ContainerClient]:
    with ContainerClient.from_connection_string(azurite.connection_string, container) as client:
        yield client


def ended(forge: Forge, *arguments: str) -> Ended:
    result = Ended(forge.run(*arguments), forge.out, forge.err)
    assert KEY not in result.out + result.err
    assert "Traceback" not in result.err
    return result


def test_the_table_has_every_command() -> None:
    group = build()
    assert [row.command for row in TABLE if row.command not in group.commands] == []
    assert set(group.commands) - {"help"} == {row.command for row in TABLE}


def test_every_command_once_done(shop: Project, forge: Forge) -> None:
    forge.folder, forge.environ = shop.folder, shop.environ
    for row in TABLE:
        if row.done is None:
            continue
        result = ended(forge, row.command, *row.done, "--json")
        assert result.code == 0, (row.command, result.out, result.err)
        lines = result.out.splitlines() if row.command in BY_LINE else [result.out]
        assert lines, row.command
        for line in lines:
            validator(row.schema).validate(json.loads(line))
        if row.schema == "change":
            assert result.json["changed"] is True, row.command


def test_every_command_once_refused_and_nothing_changed(shop: Project, forge: Forge, blobs: ContainerClient) -> None:
    forge.folder, forge.environ = shop.folder, shop.environ

    def everything() -> dict[str, bytes]:
        found = {blob.name: blobs.download_blob(blob.name).readall() for blob in blobs.list_blobs()}
        files = (path for path in shop.folder.rglob("*") if path.is_file() and path.name not in NOTES)
        return found | {str(path): path.read_bytes() for path in files}

    assert ended(forge, "run", "orders", "--once").code == 0
    assert ended(forge, "pause", "orders", "--yes").code == 0
    before = everything()
    for row in TABLE:
        result = ended(forge, row.command, *row.refused, "--json")
        assert (result.code, result.out if row.code != 1 else "") == (row.code, ""), (row.command, result.err)
        assert row.says in result.err.splitlines()[-1], row.command
        assert everything() == before, row.command
    paused = ended(forge, "run", "orders", "--once")
    moved = ended(forge, "run", "orders", "--once", "-c", "moved.toml")
    assert (paused.code, moved.code) == (3, 4), (paused.err, moved.err)
    assert everything() == before


def test_what_the_server_says_of_a_name_is_kept(project: Project, servers: psycopg.Connection) -> None:
    """Also by a reset while the database refuses us; a table that was made anew under its name is warned of."""
    assert project.run("run", "--once").code == 0
    assert done(project, "checkpoint", "export", "orders", schema="checkpoint").json["source"]["schema"] == "public"
    servers.execute("ALTER TABLE orders RENAME TO former")
    servers.execute("CREATE TABLE orders (LIKE former INCLUDING ALL)")
    checked = done(project, "check", "orders", schema="check").json["pollers"][0]
    (table,) = [one for one in checked["findings"] if one["check"] == "table"]
    assert table["severity"] == "warn"
    assert "made again" in table["message"]
    url = make_url(project.environ["ORDERS_DB_URL"]).set(username="nobody")
    project.environ["ORDERS_DB_URL"] = url.render_as_string(hide_password=False)
    done(project, "reset-to-beginning", "orders", "--yes")
    assert done(project, "checkpoint", "export", "orders", schema="checkpoint").json["source"]["schema"] == "public"


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
    assert done(project, "checkpoint", "export", "orders", schema="checkpoint").json["source"]["schema"] == "other"


MINUTES = ("backfill", "orders", "--from", "2026-01-01T01:00+01:00", "--to", "2026-01-02", "--yes")


def fill(db: psycopg.Connection) -> None:
    db.execute("TRUNCATE orders")
    db.execute(
        "INSERT INTO orders SELECT n, timestamptz '2026-01-01Z' + n * interval '1 min' FROM generate_series(0, 2879) n"
    )


def test_killed_parts_go_on_and_the_whole_day_is_delivered(project: Project, servers: psycopg.Connection) -> None:
    fill(servers)
    text = (project.folder / "poller.toml").read_text()
    text = text.replace('lease_ttl = "60s"', 'lease_ttl = "3s"')  # what was killed is waited for
    project.write(text.replace('handler = "', 'batch_size = 50\nhandler = "'))
    handlers = (project.folder / "handlers.py").read_text()
    (project.folder / "handlers.py").write_text(handlers.replace("while (HERE", "time.sleep(0.05)\n    while (HERE"))
    first = project.start(*MINUTES, "--parallel", "3")
    wait_until(lambda: len(project.lines("seen")) >= 300)
    first.send_signal(signal.SIGKILL)
    end(first)

    output = done(project, *MINUTES, "--parallel", "3", schema="backfill").json

    assert output["finished"] is True
    assert 0 < output["rows"] < 1440, "what was committed before the kill does not come again"
    seen = Counter(int(line.split()[1]) for line in project.lines("seen"))
    assert set(seen) == set(range(1440)), "the whole day and nothing else"
    assert sum(seen.values()) - 1440 <= 3 * 50, "twice only what the killed process had in hand"
    assert [part["begins"] for part in output["parts"]] == [
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T08:00:00.000000Z",
        "2026-01-01T16:00:00.000000Z",
    ]
    assert done(project, *MINUTES, schema="backfill").json["already_done"] is True
