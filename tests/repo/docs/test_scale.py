"""The arithmetic of docs/containers.md: what it shows is what is computed."""

from __future__ import annotations

import shlex

import pytest

from benchmarks.capacity.__main__ import main
from tests.repo.docs.blocks import blocks
from tests.repo.docs.sessions import steps

PAGE = "docs/containers.md"
PROGRAM = "python -m benchmarks.capacity"


def test_the_arithmetic_prints_what_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [step for block in blocks(PAGE, "console") for step in steps(block.text)]
    assert len(shown) == 2
    for step in shown:
        assert step.command.startswith(PROGRAM)
        monkeypatch.setattr("sys.argv", ["capacity", *shlex.split(step.command.removeprefix(PROGRAM))])
        main()
        assert capsys.readouterr().out.splitlines() == step.shown
