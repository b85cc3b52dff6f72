"""Fixtures of the console's screens: what a command prints, compared with the file that has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from unittest.mock import patch

import pytest

from tests.cli.built import built
from tests.console.pages import SCREENS


@pytest.fixture(scope="session", autouse=True)
def _made_once() -> Iterator[None]:
    with patch("poller_cli.main.build", built):
        yield


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the file of a name in `screens`; `pytest --update` writes the file."""

    def compared(name: str, text: str) -> None:
        file = SCREENS / f"{name}.txt"
        if request.config.getoption("--update"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        assert file.is_file(), f"{file} is missing; write it: pytest --update {request.node.nodeid}"
        assert text == file.read_text(), "if it is meant: pytest --update"

    return compared
