"""The command `poller` on a pseudo-terminal, as a person uses it."""

from __future__ import annotations

import os

import pexpect

from tests.cli.project import COMMAND, Project

ASKED = "Type orders to go on: "


def _plain_environment() -> dict[str, str]:
    """As in a terminal: its width is asked of it, not of what the tests' own runner put into the environment."""
    return {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | {"TERM": "xterm"}


class Terminal:
    """`poller` on a pseudo-terminal; with `file` its stdout goes there, as with `> file`."""

    def __init__(self, project: Project, *arguments: str, columns: int = 100, file: str = "") -> None:
        command = " ".join([*COMMAND, *arguments, *([">", file] if file else [])])
        self.child: pexpect.spawn[str] = pexpect.spawn(
            "/bin/sh",
            ["-c", f"exec {command}"],
            cwd=str(project.folder),
            env=_plain_environment(),
            timeout=60,
            encoding="utf-8",
            dimensions=(40, columns),
        )

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
