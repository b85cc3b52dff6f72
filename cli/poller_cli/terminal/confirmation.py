"""Asking an operator before something is changed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from poller.admin.refusals import Refused
from poller.admin.request import ChangeOptions
from poller.model.escape import is_visible
from poller_cli.terminal.layout import fitted, is_terminal

if TYPE_CHECKING:
    from poller_cli.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent(ChangeOptions):
    """What is asked for, and what was agreed to beforehand.

    Attributes:
        yes: not to be asked. confirm: the poller's name again, as earlier versions wanted it in production.
        verbose: whether a preview says where the state document is kept.
    """

    yes: bool = False
    confirm: str | None = None
    verbose: bool = False

    def option(self, name: str) -> str:
        """As it is typed."""
        return f"--{name.replace('_', '-')}"


def will_ask(consent: Consent) -> bool:
    """True if a person sits at a terminal and may be asked."""
    return consent.confirm is None and not consent.dry_run and sys.stdin is not None and is_terminal(sys.stdin)


def show_before(text: str, session: Session, consent: Consent) -> None:
    """Show what is to be agreed to, if there is an operator to ask: on stderr if stdout is for JSON."""
    if will_ask(consent) and not consent.yes:
        stream = sys.stderr if session.json else sys.stdout
        print(fitted(text, stream), file=stream, flush=True)


def confirm(consent: Consent, name: str, kind: str, *, production: str | None = None, typed: bool = True) -> None:
    """Return when the operator agreed to `kind` of the poller `name`.

    `production`: the configuration file that says so, if `--yes` needs a reason; else None. `typed`: whether
    the name has to be typed, as for all that moves a checkpoint or delivers rows; else a `y` is enough.
    Raises: Refused.
    """
    if consent.confirm is not None:
        if consent.confirm == name:
            return
        raise Refused(
            f"--confirm names another poller than {name!r}; nothing was changed.", next_step=f"Add --confirm {name}."
        )
    if consent.yes and (production is None or is_visible(consent.reason or "")):
        return
    if will_ask(consent):
        if typed and _answer(f"Type {name} to go on: ") == name:
            return
        if not typed and _answer(f"{kind} {name}? [y/N]: ").lower() in ("y", "yes"):
            return
        raise Refused("Not confirmed; nothing was changed.")
    if production is not None:
        raise Refused(
            f'{production} says environment = "production", so {kind} needs a reason; nothing was changed.',
            next_step="Add --reason TEXT." if consent.yes else "Add --yes --reason TEXT.",
        )
    raise Refused(
        f"{kind} was not confirmed, and there is no terminal to ask on; nothing was changed.", next_step="Add --yes."
    )


def _answer(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    try:
        line = sys.stdin.readline()
        if not line.endswith("\n"):  # Ctrl-D: what follows has a line of its own
            print(file=sys.stderr)
        return line.strip()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return ""
    except UnicodeDecodeError:
        return ""
