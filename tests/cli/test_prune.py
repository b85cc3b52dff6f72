"""`poller prune` in a terminal and in scripts: what it prints, asks, refuses and leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pexpect
import pytest

from tests.cli.project import Ended, Project
from tests.cli.terminal import Terminal
from tests.repo.docs.blocks import blocks
from tests.support.schemas import validator

CAPTURED = """app_name = "shop"
[state]
store = "sql"
[pollers.orders]
handler = "handlers:handle"
[pollers.orders.source]
url = "sqlite:///shop.db"
table = "orders"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
[pollers.changes]
handler = "handlers:handle"
[pollers.changes.source]
url = "sqlite:///shop.db"
table = "poller_orders_changes"
cursor_column = "id"
cursor_kind = "integer+pk"
pk_columns = ["id"]
"""


@pytest.fixture
def captured(project: Project) -> Project:
    """Three changes, delivered, of eight days ago."""
    project.configure("orders")
    project.write(CAPTURED, "def handle(batch): pass\n")
    assert project.run("capture", "orders", "--install", "--yes").code == 0
    project.insert(3)
    assert project.run("run", "changes", "--once").code == 0
    project.execute("UPDATE poller_orders_changes SET at = strftime('%Y-%m-%dT%H:%M:%fZ', at, '-8 days')")
    return project


def done(project: Project, *arguments: str, code: int = 0) -> Ended:
    ended = project.run("prune", *arguments)
    assert ended.code == code, ended.err
    if "--json" in arguments:
        validator("prune").validate(json.loads(ended.out))
    return ended


def left(project: Project, table: str = "poller_orders_changes") -> int:
    return int(project.execute(f"SELECT count(*) FROM {table}")[0][0])


def test_old_changes_are_previewed_and_deleted(captured: Project) -> None:
    preview = done(captured, "changes", "--dry-run").out
    assert "3 rows of poller_orders_changes can be deleted" in preview
    assert "shop/changes is done with 3: the limit" in preview
    assert done(captured, "changes", "--older-than", "9d", "--yes", "--json").json["rows"] == 0
    assert left(captured) == 3
    assert "Add --yes" in done(captured, "changes", code=3).error
    output = done(captured, "changes", "--yes", "--json").json
    assert (output["changed"], output["rows"], output["pruned_through"]) == (True, 3, 3)
    assert left(captured) == 0
    assert "nothing to delete" in done(captured, "changes", "--yes").out


HASTY = """
import sys
from poller.runtime import SystemRuntime
from poller_cli.main import execute

class Hasty(SystemRuntime):
    def jitter(self, low, high):
        return 0.0  # the first prune is due at once

sys.exit(execute(["run", "changes", "--json"], runtime=Hasty()))
"""


def test_poller_run_prunes_as_the_file_says(captured: Project) -> None:
    config = captured.folder / "poller.toml"
    config.write_text(config.read_text() + '[pollers.changes.prune]\nolder_than = "7d"\n')
    process = subprocess.Popen(
        [sys.executable, "-c", HASTY], cwd=captured.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        pruned = next(event for event in map(json.loads, process.stdout) if event["event"] == "pruned")
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, left(captured)) == (0, 0), err
    validator("run-event").validate(pruned)
    assert (pruned["poller"], pruned["rows"], pruned["through"]) == ("changes", 3, 3)


def test_on_a_terminal_it_asks_before_it_deletes(captured: Project) -> None:
    child = Terminal(captured, "prune", "changes").child
    child.expect("3 rows of poller_orders_changes can be deleted")
    child.expect_exact("[y/N]")
    child.send("n\n")
    child.expect("nothing was changed")
    child.expect(pexpect.EOF)
    assert left(captured) == 3


def test_what_is_refused_deletes_nothing(captured: Project) -> None:
    for arguments, code, says in (
        (("changes", "--older-than", "soon"), 2, "--older-than"),
        (("changes", "--url-env", "NONE_SUCH"), 2, "NONE_SUCH, which is not set"),
        (("orders", "--outbox", "--yes"), 3, "only tables that are followed by a number"),
        (("nosuch", "--yes"), 2, "nosuch"),
    ):
        assert says in done(captured, *arguments, code=code).error
    assert (left(captured), left(captured, "orders")) == (3, 3)


def test_the_pages_outbox_empties_itself_as_shown(project: Project) -> None:
    (config,), (session,) = (blocks("docs/recipes/prune.md", language) for language in ("toml", "console"))
    project.write(config.text)
    project.execute("CREATE TABLE events (id INTEGER PRIMARY KEY NOT NULL, name TEXT NOT NULL)")
    project.execute("INSERT INTO events (name) VALUES ('order 7 was paid'), ('order 8 was paid')")
    commands = session.text.split("$ poller ")[1:]
    assert len(commands) == 3
    for shown in commands:
        line, _, printed = shown.partition("\n")
        assert project.run(*line.split()).out.strip() == printed.strip()
    assert left(project, "events") == 0
