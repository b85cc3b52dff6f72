"""What a change shows and asks before it is made."""

from __future__ import annotations

import shlex

from poller.admin.change_result import ChangeOutput


class Conversation:
    """With whoever asks for a change. As it stands with a program: its call is the agreement, and the result says
    everything. The console's shows a preview, and asks.

    Args:
        file: the configuration file; empty for a poller made in Python.
    """

    def __init__(self, file: str = "") -> None:
        self._file = file

    @property
    def configuration(self) -> str:
        """Where the poller is configured, for people."""
        return self._file or "the poller's configuration"

    def option(self, name: str) -> str:
        """How one gives `reason`, `allow_skip`, `break_lease`, `overwrite`, `rebind`: in the console `--allow-skip`."""
        return name if name == "reason" else f"{name}=True"

    def command(self, *words: str) -> str:
        """A command line to copy."""
        file = ["-c", self._file] if self._file not in ("", "poller.toml") else []
        return shlex.join(["poller", *file, *words])

    def preview(self, output: ChangeOutput, lines: list[tuple[str, str]]) -> None:
        """What the change would do, before it is refused or agreed to; again after `meanwhile` said so."""

    def meanwhile(self, line: str, *, again: bool) -> None:
        """What another did since the preview; `again`: so much that a new preview follows."""

    @property
    def interrupt_ends_wait(self) -> bool:
        """Whether Ctrl-C only ends the wait that `waiting` began; else it is raised."""
        return False

    def waiting(self, output: ChangeOutput, worker: str, seconds: float) -> None:
        """The change was made, and for so many seconds at most it is waited for a worker to stop its handler."""

    def confirm(self, kind: str, *, strict: bool, typed: bool) -> None:
        """Return when the change is agreed to, by the poller's name where it is to be `typed`; `strict` ones are in
        production whatever was allowed beforehand. Raises: Refused."""
