"""Each command of the table once done and once refused, as a process, with state in Azurite and rows in PostgreSQL:
its exit code, JSON that holds to its schema, and no byte changed by a refusal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
import typer.main
from azure.storage.blob import ContainerClient

from poller_cli.main import build
from tests.cli.azure_functions_db import fixture
from tests.cli.forge import Forge
from tests.cli.project import Ended, Project
from tests.support.azurite import KEY, Azurite
from tests.support.schemas import validator

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
    Row("check", ("orders",), "check", ("nosuch",), 2, "nosuch"),
    Row("peek", ("orders",), "peek", ("orders", "--limit", "0"), 2, "--limit"),
    Row("recheck", ("orders", "--since", "1h"), "recheck", ("orders", "--since", "soon"), 2, "--since"),
    Row("export-checkpoint", ("orders", "kept.json"), "checkpoint", ("orders", "poller.toml"), 3, "--overwrite"),
    Row("pause", ("orders", "--yes"), "change", ("invoices",), 1, "never ran"),
    Row("resume", ("orders", "--yes"), "change", ("orders",), 3, "--yes"),
    Row("reset-to-cursor", ("orders", *FOURTH, "--yes"), "change", ("orders", *FOURTH), 3, "--yes"),
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
    told = Ended(forge.run(*arguments), forge.out, forge.err)
    assert KEY not in told.out + told.err
    assert "Traceback" not in told.err
    return told


def test_the_table_has_every_command() -> None:
    group = typer.main.get_command(build())
    assert [row.command for row in TABLE if row.command not in group.commands] == []  # type: ignore[attr-defined]
    assert set(group.commands) == {row.command for row in TABLE}  # type: ignore[attr-defined]


def test_every_command_once_done(shop: Project, forge: Forge) -> None:
    forge.folder, forge.environ = shop.folder, shop.environ
    for row in TABLE:
        if row.done is None:
            continue
        told = ended(forge, row.command, *row.done, "--json")
        assert told.code == 0, (row.command, told.out, told.err)
        lines = told.out.splitlines() if row.command in BY_LINE else [told.out]
        assert lines, row.command
        for line in lines:
            validator(row.schema).validate(json.loads(line))
        if row.schema == "change":
            assert told.json["changed"] is True, row.command


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
        told = ended(forge, row.command, *row.refused, "--json")
        assert (told.code, told.out if row.code != 1 else "") == (row.code, ""), (row.command, told.err)
        assert row.says in told.err.splitlines()[-1], row.command
        assert everything() == before, row.command
    paused = ended(forge, "run", "orders", "--once")
    moved = ended(forge, "run", "orders", "--once", "-c", "moved.toml")
    assert (paused.code, moved.code) == (3, 4), (paused.err, moved.err)
    assert everything() == before
