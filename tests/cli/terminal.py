"""The command `poller` on a pseudo-terminal, as a person uses it."""

from __future__ import annotations

import os
import shlex
from typing import Any

import pexpect

from tests.cli.project import COMMAND, Project

ASKED = "Type orders to go on: "


def _plain_environment() -> dict[str, str]:
    """As in a terminal: its width is asked of it, not of what the tests' own runner put into the environment."""
    return {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | {"TERM": "xterm"}


class Terminal:
    """`poller` on a pseudo-terminal; with `file` its stdout goes there, as with `> file`."""

    def __init__(self, project: Project, *arguments: str, columns: int = 100, file: str = "") -> None:
        options: dict[str, Any] = {"env": _plain_environment(), "timeout": 60, "dimensions": (40, columns)}
        if not file:
            self.child = project.on_terminal(*arguments, **options)
            return
        command = f"{shlex.join([*COMMAND, *arguments])} > {file}"
        options |= {"cwd": str(project.folder), "encoding": "utf-8", "use_poll": True}
        self.child = pexpect.spawn("/bin/sh", ["-c", f"exec {command}"], **options)

    def answer(self, text: str) -> str:
        """What was shown before the question."""
        self.child.expect_exact(ASKED)
        shown = self.child.before or ""
        self.child.send(text)
        return shown

    def end(self) -> tuple[int, str]:
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus, self.child.before or ""
