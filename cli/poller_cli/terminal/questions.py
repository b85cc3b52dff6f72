"""What `poller init` asks at a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from poller.project.choices import Choices, first_of
from poller_cli.terminal.printing import printable

if TYPE_CHECKING:
    from poller.sources.proposal import Proposal
    from poller.sources.stamping import Stamp


_CAPTURE = "capture"
"""The answer for a table that has no column to follow."""


class Questions(Choices):
    """Asks for each, and proposes what was found."""

    def url(self) -> str:
        """Not shown: it may hold a password."""
        return str(typer.prompt("Database URL (not shown)", hide_input=True)).strip()

    def identity(self) -> str | None:
        """Nothing is proposed."""
        answer = _ask("Sign in with a Microsoft Entra identity (true, the prefix of its settings, or false)", "false")
        return None if answer.strip().lower() == "false" else answer.strip()

    def table(self, names: Sequence[str]) -> str:
        """From a list."""
        print(printable(f"Tables: {first_of(names)}"))
        return _ask("Table", names[0] if len(names) == 1 else None)

    def cursor(self, proposal: Proposal) -> str | None:
        """The best is proposed; if there is none, that triggers record the changes."""
        question = "Column that grows with every change"
        if proposal.cursors or not proposal.capture or _CAPTURE in proposal.columns:
            return _ask(question, proposal.cursors[0].column if proposal.cursors else None)
        answer = _ask(f"{question}, or {_CAPTURE}: triggers record its changes", _CAPTURE)
        return None if answer.strip() == _CAPTURE else answer

    def zone(self, column: str, stamp: Stamp) -> str:
        """That of the database is proposed."""
        stamped = printable(f"{column}, which the database stamps in {stamp} ({stamp.source})")
        return _ask(f"Time zone of {stamped}", stamp.iana)

    def key(self, proposal: Proposal) -> Sequence[str]:
        """Columns with commas between them."""
        answer = _ask("Key columns (unique together, never NULL)", ",".join(proposal.key) or None)
        return [part.strip() for part in answer.split(",") if part.strip()]

    def app(self, proposed: str) -> str:
        """The folder's name is proposed."""
        return _ask("Application", proposed).strip()

    def name(self, proposed: str) -> str:
        """The table's name is proposed."""
        return _ask("Poller", proposed).strip()

    def state(self, proposed: str) -> str:
        """One of two."""
        return _ask("Checkpoints in (sql, blob, table)", proposed).strip()


def _ask(question: str, default: str | None) -> str:
    """The answer. What is proposed is a name of the database's: it must not steer the terminal."""
    shown = question if default is None else f"{question} [{printable(default)}]"
    return str(typer.prompt(shown, default=default, show_default=False))
