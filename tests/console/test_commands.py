"""What each command prints, byte for byte at 80 columns; `pytest --update` writes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.console.commands import CASES
from tests.console.pages import COMMANDS, SCREENS
from tests.console.world import folder
from tests.support.cases import each

NOT_HERE = {"help", "dashboard", "demo", "dispatch"}
"""Commands that have other screens, or that run until they are stopped."""


@pytest.mark.parametrize("name", CASES)
def test_each_command_prints_what_it_did(name: str, compare: Callable[[str, str], None]) -> None:
    with folder() as place:
        compare(f"commands/{name}", "\n".join(CASES[name].shown(place)))


def test_each_command_has_a_screen() -> None:
    typed = [case.words for case in CASES.values()]
    for words in COMMANDS:
        if words and words[0] not in NOT_HERE:
            assert any(one[: len(words)] == words for one in typed), words


def test_no_screen_is_kept_of_a_case_that_is_gone() -> None:
    assert {file.stem for file in (SCREENS / "commands").iterdir()} == set(CASES)


@each("name", [name for name in CASES if name != "capture-preview"])  # its statements are for copying
def test_a_printed_line_fits_the_terminal_but_for_one_word(name: str) -> None:
    for line in (SCREENS / "commands" / f"{name}.txt").read_text().splitlines():
        assert len(line) <= 80 or " " not in line.strip() or line.startswith("$ "), line
