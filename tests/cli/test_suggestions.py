"""A word that is no command: what was probably meant. And the command alone."""

from __future__ import annotations

import shutil

from poller_cli.main import build
from poller_cli.terminal.suggestions import instead
from tests.cli.console import Console, ran
from tests.cli.project import Project
from tests.support.cases import each

COMMANDS = list(build().commands)


@each(
    ("word", "meant"),
    [
        ("rewind", "poller reset"),
        ("rollback", "poller undo"),
        ("skip", "poller quarantine add"),
        ("stop", "poller pause"),
        ("continue", "poller resume"),
        ("logs", "poller history"),
        ("staus", "poller status"),
        ("quaran", "poller quarantine"),
        ("checkpint", "poller checkpoint"),
        ("export", "poller checkpoint export"),
        ("export-chekpoint", "poller checkpoint export"),
        ("copy", "poller checkpoint clone"),
        ("imp", "poller checkpoint import"),
        ("version", "poller --version"),
    ],
)
def test_a_word_that_is_no_command_leads_to_one(project: Project, word: str, meant: str) -> None:
    ended = Console(project).run(word, "orders")
    assert ended.code == 2
    assert ended.error == f"poller: no command {word!r}. Did you mean: {meant}? See: poller --help"


@each(
    ("word", "never"),
    [("start", "pause"), ("unpause", "pause"), ("stop", "resume"), ("rest", "resume"), ("begin", "reset-to-beginning")],
)
def test_no_word_leads_to_its_opposite(word: str, never: str) -> None:
    assert never not in instead(word, COMMANDS)


def test_whatever_is_suggested_is_a_command() -> None:
    from poller_cli.terminal.suggestions import _MEANT

    found = {one.partition(" ")[0] for meant in _MEANT.values() for one in meant}
    assert found <= {*COMMANDS, "--version"}
    assert not {word for words in _MEANT for word in words} & set(COMMANDS)


def test_a_word_names_no_file_of_an_earlier_command(project: Project) -> None:
    console = ran(project)
    other = project.folder / "other.toml"
    shutil.copy(project.folder / "poller.toml", other)
    assert console.run("-c", str(other), "status").code == 0
    assert console.run("stauts").error == "poller: no command 'stauts'. Did you mean: poller status? See: poller --help"
