"""Shell completion through the protocol of each shell: commands, options, pollers of the configuration."""

from __future__ import annotations

import os
import subprocess
from unittest.mock import patch

import pytest

from tests.cli.project import COMMAND, Project
from tests.support.cases import each


def complete(project: Project, shell: str, line: str, **environ: str) -> list[str]:
    """What the shell would offer for the last word of the line."""
    words = line.split(" ")
    protocol = (
        {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)} if shell == "bash" else {"_TYPER_COMPLETE_ARGS": line}
    )
    with patch.dict(project.environ, {"_POLLER_COMPLETE": f"complete_{shell}", **protocol, **environ}):
        done = project.run()
    assert done.err == ""
    if shell == "bash":
        return done.out.split()
    offered = done.out.strip()
    if offered == "_files":  # nothing of ours: zsh offers files then
        return []
    parts = offered.removeprefix("_arguments '*: :((").removesuffix("))'").splitlines()
    return [part.strip('"').split('":"')[0] for part in parts]


@pytest.fixture
def shop(project: Project) -> Project:
    project.configure("orders", "invoices", "returns")
    text = (project.folder / "poller.toml").read_text()
    (project.folder / "shop.toml").write_text("[pollers.north]\n")
    project.write(text.replace("sqlite:///shop.db", "%SET_NOWHERE_ON_THIS_LAPTOP%"))
    return project


COMMANDS = ("health", "peek", "history", "cancel", "resume", "reset-to-beginning", "reset-to-checkpoint", "rebind")
"""Some of those that take a name; others stand below."""


@each(
    ("line", "offered"),
    [
        *((f"poller {command} i", ["invoices"]) for command in COMMANDS),
        ("poller status o", ["orders"]),
        ("poller watch orders in", ["invoices"]),
        ("poller run re", ["returns"]),
        ("poller pause ", ["invoices", "orders", "returns"]),
        ("poller reset-to-cursor in", ["invoices"]),
        ("poller backfill or", ["orders"]),
        ("poller import azure-functions-db FILE --name or", ["orders"]),
        ("poller reset-to-beginning orders --confirm or", ["orders"]),
        ("poller status nobody", []),
        ("poller checkpoint ", ["export", "clone", "import"]),
        ("poller checkpoint import ", ["azure-functions-db"]),
        ("poller checkpoint import azure-functions-db FILE --name or", ["orders"]),
        ("poller checkpoint clone orders in", []),
        ("poller checkpoint export ord", ["orders"]),
        ("poller clone-checkpoint orders in", []),
        ("poller export-checkpoint ord", ["orders"]),
        ("poller he", ["health", "help"]),
        ("poller help reset-to-b", ["reset-to-beginning"]),
        ("poller help chan", ["changes"]),
        ("poller status -c shop.toml n", ["north"]),
    ],
)
def test_names_are_completed_though_settings_are_not_set(shop: Project, line: str, offered: list[str]) -> None:
    assert complete(shop, "bash", line) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_configuration_may_be_another_file(shop: Project, shell: str) -> None:
    (shop.folder / "poller.toml").rename(shop.folder / "other.toml")
    assert complete(shop, shell, "poller status o") == []
    assert complete(shop, shell, "poller status o", POLLER_CONFIG="other.toml") == ["orders"]
    assert complete(shop, shell, "poller -c other.toml status o") == ["orders"]


def test_pollers_of_included_files_are_completed(shop: Project) -> None:
    config = shop.folder / "poller.toml"
    config.write_text('include = ["pollers.d/*.toml"]\n' + config.read_text())
    (shop.folder / "pollers.d").mkdir()
    (shop.folder / "pollers.d" / "a.toml").write_text("[pollers.outlet]\n")
    assert complete(shop, "bash", "poller status o") == ["orders", "outlet"]


@each("shell", ["bash", "zsh"])
def test_commands_and_options_are_completed(shop: Project, shell: str) -> None:
    assert complete(shop, shell, "poller und") == ["undo"]
    assert complete(shop, shell, "poller pause ") == ["invoices", "orders", "returns"]
    assert complete(shop, shell, "poller status nobody") == []
    assert complete(shop, shell, "poller checkp") == ["checkpoint"]
    assert complete(shop, shell, "poller backfill orders --par") == ["--parallel"]


@each("shell", ["bash", "zsh"])
def test_what_the_shell_runs_names_the_command(shop: Project, shell: str) -> None:
    environ = {**os.environ, "_POLLER_COMPLETE": f"source_{shell}"}
    done = subprocess.run(COMMAND, cwd=shop.folder, env=environ, capture_output=True, text=True, check=True)
    assert "_POLLER_COMPLETE=complete_" + shell in done.stdout
    assert "poller" in done.stdout


def test_a_file_that_holds_no_pollers_offers_none(project: Project) -> None:
    project.write("pollers = 5\n")
    assert complete(project, "bash", "poller status o") == []


def test_a_page_breaks_its_lines_where_the_terminal_ends(project: Project) -> None:
    project.environ["COLUMNS"] = "300"
    page = project.run("watch", "--help").out.splitlines()
    assert any("Without a terminal, --json writes one object per look." in line for line in page)
