"""`poller help`: plain pages that fit a terminal of 24 lines and 80 columns."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from poller_cli.main import build, execute
from tests.console.pages import COMMANDS, PAGES, SCREENS, file_of


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command prints at 80 columns; it must end with 0 and say nothing else."""
    monkeypatch.setenv("COLUMNS", "80")

    def of(*words: str) -> str:
        code = execute(list(words))
        printed = capsys.readouterr()
        assert (code, printed.err) == (0, "")
        return printed.out

    return of


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_each_page_is_as_it_was(
    words: tuple[str, ...], shown: Callable[..., str], compare: Callable[[str, str], None]
) -> None:
    compare(file_of(words), shown("help", *words))


def test_no_page_is_kept_of_a_command_that_is_gone() -> None:
    kept = {f"help/{file.stem}" for file in (SCREENS / "help").iterdir()}
    assert kept == {file_of(words) for words in PAGES}


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_each_page_fits_a_small_terminal_and_has_no_box(words: tuple[str, ...], shown: Callable[..., str]) -> None:
    text = shown("help", *words)
    lines = text.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert text.isascii(), "no box, no ellipsis"
    assert [line for line in lines if line != line.rstrip()] == []


EARLIER = {"export-checkpoint", "clone-checkpoint", "import"}
UNLISTED = {"help", "reset-to-beginning", "reset-to-cursor", "reset-to-checkpoint", *EARLIER}
"""They are named elsewhere on the page, are parts of `reset`, or are earlier names of what `checkpoint` has."""


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_of_a_command_is_its_page(words: tuple[str, ...], option: str, shown: Callable[..., str]) -> None:
    assert shown(*words, option) == shown("help", *words)


def test_the_page_of_all_commands_has_each_once_in_groups(shown: Callable[..., str]) -> None:
    lines = shown("--help").splitlines()
    titles = [found[1] for line in lines if (found := re.match(r"([A-Z]\w+( up)?)  +\S", line))]
    assert titles == ["Look", "Change", "Work", "Set up", "Options", "More"]
    names = [name for line in lines for name in re.split(r"  +", line)[1:2] for name in name.split(", ")]
    for command in build().commands:
        assert names.count(command) == (command not in UNLISTED), command


def test_own_options_come_before_those_of_every_command(shown: Callable[..., str]) -> None:
    text = shown("reset-to-cursor", "--help")
    order = ["  NAME ", "  --value TEXT ", "  --token-at-least N ", "See poller help changes: ", "  -c, --config FILE "]
    assert sorted(order, key=text.index) == order


def test_options_of_every_change_are_explained_once(shown: Callable[..., str]) -> None:
    explained = "--break-lease  Also while a worker holds the lease"
    assert [words for words in PAGES if explained in shown("help", *words)] == [("changes",)]
    assert "\nSee poller help changes: --reason, --yes, --dry-run, --verbose\n" in shown("help", "pause")
    assert "\nSee poller help changes: --yes, --dry-run, --verbose\n" in shown("help", "backfill")


def test_square_brackets_are_shown(shown: Callable[..., str]) -> None:
    assert "`[functions]" in shown("dispatch", "--help")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("stauts",), "no command 'stauts'. Did you mean: poller status? See: poller --help"),
        (("quarantine", "lst"), "no command 'lst'. See: poller --help"),
        (("pause", "orders"), "poller pause has no command 'orders'. See: poller --help"),
    ],
)
def test_a_page_that_is_not_there_is_an_error(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["help", *words]) == 2
    assert capsys.readouterr().err == f"poller: {says}\n"
