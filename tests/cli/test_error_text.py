"""`error_text = false` in poller.toml: no command shows what the database quotes of a row."""

from __future__ import annotations

import pytest

from tests.cli.project import Project

SECRET = "Jane-Doe-4711"
COMMANDS = (
    ("run", "--once"),
    ("run", "--once", "--json"),
    ("check",),
    ("check", "--json"),
    ("status",),
    ("status", "--json"),
    ("peek", "orders"),
    ("backfill", "orders", "--from", "2025-01-01", "--to", "2025-01-02", "--yes"),
)


@pytest.mark.parametrize("hidden", [True, False])
def test_no_command_shows_what_the_database_quotes(project: Project, hidden: bool) -> None:
    project.configure(
        "orders",
        source="filter = \"json_extract('{}', who) is null\"",
        poller="error_text = false" if hidden else "",
    )
    project.insert(1)
    project.execute("ALTER TABLE orders ADD COLUMN who TEXT")
    project.execute(f"UPDATE orders SET who = '{SECRET}'")
    ended = [project.run(*command) for command in COMMANDS]
    assert any(one.code for one in ended)
    shown = [command for command, one in zip(COMMANDS, ended, strict=True) if SECRET in one.out + one.err]
    assert bool(shown) is not hidden, shown
