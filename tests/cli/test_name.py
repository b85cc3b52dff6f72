"""NAME may be left out where the configuration file has one poller."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from poller_cli.main import build
from tests.cli.console import Console, exported, ran
from tests.cli.project import Project
from tests.cli.terminal import Terminal
from tests.support.cases import each

RANGE = ("--from", "2026-01-01 00:00:00", "--to", "2026-01-01 00:00:01")
ROW = ("--value", "2026-01-01 00:00:00", "--pk", "id=1")
LOOKS = (("peek",), ("history",), ("checkpoint", "export"), ("quarantine", "list"), ("recheck",))
CHANGES = (
    ("pause",),
    ("resume",),
    ("cancel",),
    ("reset-to-beginning",),
    ("reset-to-cursor", *ROW),
    ("rebind",),
    ("quarantine", "discard", "--all"),
    ("quarantine", "replay", "--all"),
    ("backfill", *RANGE),
)
WATCHED = 'audit_window = "2h"'


@pytest.fixture
def console(project: Project) -> Console:
    project.configure("orders", poller=WATCHED)
    project.insert(5)
    console = Console(project)
    assert console.run("run", "--once").code == 0
    return console


@pytest.fixture
def several(project: Project) -> Console:
    project.configure("orders", "invoices", poller=WATCHED)
    return Console(project)


def typed(command: tuple[str, ...]) -> tuple[str, ...]:
    """What names the command."""
    return command[: 2 if command[0] in ("quarantine", "checkpoint") else 1]


def named(console: Console, command: tuple[str, ...]) -> tuple[str, ...]:
    """The command with the name of the poller behind it."""
    words = len(typed(command))
    return (*command[:words], "orders", *command[words:])


@each("command", [*LOOKS, *((*one, "--dry-run") for one in CHANGES)])
def test_without_a_name_the_only_poller_is_meant(console: Console, command: tuple[str, ...]) -> None:
    def answer(*words: str) -> tuple[int, Any, str]:
        ended = console.run(*words, "--json")
        output = json.loads(ended.out) if ended.out else {}
        for moment in ("exported_at", "bound"):
            output.pop(moment, None)
        return ended.code, output, ended.err

    assert answer(*command) == answer(*named(console, command))


def test_every_command_with_a_name_takes_none(console: Console) -> None:
    def required(group: Any) -> list[str]:
        found = []
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                found += required(command)
            elif any(one.metavar == "NAME" and one.required for one in command.params):
                found.append(name)
        return found

    assert required(build()) == []


@each("command", [*LOOKS, *CHANGES])
def test_of_several_pollers_one_must_be_named(several: Console, command: tuple[str, ...]) -> None:
    error = several.refused(2, *command, says="NAME is missing, and ")
    words = " ".join(typed(command))
    assert error.endswith(f" has 2 pollers: orders, invoices. Add one of them, such as: poller {words} orders")


def test_of_many_pollers_some_are_named(project: Project) -> None:
    project.configure(*(f"t{n}" for n in range(12)))
    assert " has 12 pollers: t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 2 more. " in Console(project).run("peek").error


@each("command", CHANGES)
def test_with_yes_a_change_needs_the_name(console: Console, command: tuple[str, ...]) -> None:
    says = "NAME is missing; with --yes it must be given, so that nothing else is changed by mistake. Add it: poller "
    assert console.refused(2, *command, "--yes", says=says).endswith(" orders --yes")
    console.refused(2, *command, "-y", says=says)


def test_the_confirmed_name_is_a_name(console: Console) -> None:
    assert console.done("pause", "--confirm", "orders")["changed"] is True
    console.refused(3, "resume", "--confirm", "invoices", says="--confirm names another poller than 'orders'")


def test_a_terminal_asks_for_the_name_that_was_left_out(console: Console) -> None:
    terminal = Terminal(console.project, "reset-to-beginning")
    assert "-> the beginning" in terminal.answer("orders\n")
    assert terminal.end()[0] == 0


def test_a_file_follows_the_name_or_stands_alone(console: Console) -> None:
    path = exported(console)
    for words in ((path,), ("orders", path)):
        assert console.run("reset-to-checkpoint", *words, "--dry-run", "--json").json["name"] == "orders"
    assert "Missing argument 'FILE'" in console.refused(2, "reset-to-checkpoint")


def test_an_export_takes_a_word_for_a_file_if_no_poller_has_it(console: Console) -> None:
    file = console.project.folder / "kept.json"
    assert console.run("checkpoint", "export", str(file)).out.startswith("orders: the checkpoint at ")
    assert json.loads(file.read_text())["cursor"] == console.run("checkpoint", "export", "-").json["cursor"]
    console.refused(2, "checkpoint", "export", "ordres", says='did you mean "orders"?')


def test_a_copy_of_the_only_poller_needs_one_name(console: Console) -> None:
    assert console.run("checkpoint", "clone", "orders-v2", "--dry-run", "--json").json["name"] == "orders-v2"
    console.refused(2, "checkpoint", "clone", says="Missing argument 'NEW_NAME'")
    error = console.refused(2, "checkpoint", "clone", "orders-v2", "--yes", says="with --yes it must be given")
    assert error.endswith("Add it: poller checkpoint clone orders NEW_NAME --yes")


def test_an_import_goes_to_the_only_poller(console: Console, tmp_path: Path) -> None:
    foreign = tmp_path / "no-such-file.json"
    words = ("checkpoint", "import", "azure-functions-db", str(foreign))
    assert f"{foreign}" in console.refused(2, *words)
    console.project.configure("orders", "invoices")
    error = console.refused(2, *words, says="has 2 pollers: orders, invoices.")
    assert error.endswith("poller checkpoint import azure-functions-db --name orders URL|FILE")


def test_a_file_that_is_missing_or_wrong_says_so(project: Project) -> None:
    assert "There is no configuration file" in project.run("peek").error
    project.write("app_name = 'shop'\n[pollers]\n")
    assert project.run("peek").code == 2
    ran(project)
    assert project.run("peek").code == 0
