"""What a change shows and asks before it is made: a person at a terminal, or a program that agreed by its call."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Protocol

from poller.admin.change_result import ChangeOutput


class Conversation(Protocol):
    """With whoever asks for a change."""

    @property
    def configuration(self) -> str:
        """Where the poller is configured, for people."""
        ...

    def option(self, name: str) -> str:
        """How one gives `reason`, `allow_skip`, `break_lease`, `overwrite` or `rebind`: `--allow-skip`."""
        ...

    def command(self, *words: str) -> str:
        """A command line to copy."""
        ...

    def preview(self, output: ChangeOutput, lines: list[tuple[str, str]]) -> None:
        """What the change would do, before it is refused or agreed to; again after `meanwhile` said so."""
        ...

    def meanwhile(self, line: str, *, again: bool) -> None:
        """What another did since the preview; `again`: so much that a new preview follows."""
        ...

    def confirm(self, kind: str, *, strict: bool, typed: bool) -> None:
        """Return when the change is agreed to, by the poller's name where it is to be `typed`; `strict` ones are in
        production whatever was allowed beforehand. Raises: Refused."""
        ...


@dataclass(frozen=True, slots=True)
class AgreedByCall:
    """The conversation with a program: its call is the agreement.

    Attributes:
        file: the configuration file; empty for a poller made in Python.
    """

    file: str = ""

    @property
    def configuration(self) -> str:
        """See `Conversation`."""
        return self.file or "the poller's configuration"

    def option(self, name: str) -> str:
        """See `Conversation`."""
        return name if name == "reason" else f"{name}=True"

    def command(self, *words: str) -> str:
        """See `Conversation`."""
        file = ["-c", self.file] if self.file not in ("", "poller.toml") else []
        return shlex.join(["poller", *file, *words])

    def preview(self, output: ChangeOutput, lines: list[tuple[str, str]]) -> None:
        """See `Conversation`: a dry run returns it."""

    def meanwhile(self, line: str, *, again: bool) -> None:
        """See `Conversation`: the result says it."""

    def confirm(self, kind: str, *, strict: bool, typed: bool) -> None:
        """See `Conversation`."""
