"""What is asked for beside a change itself: by whom, why, and what is allowed for it."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import Literal, TypeAlias

from poller.admin.refusals import WrongArgument, clean, shown
from poller.model.escape import escape, is_visible
from poller.model.limits import LONGEST_NAME, LONGEST_REASON

Allow: TypeAlias = Literal["allow_skip", "break_lease"]
"""What an operator may allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """How a change is to be made.

    Attributes:
        dry_run: only look. break_lease: take the lease from a worker. allow_skip: leave rows undelivered.
        by: who asks; default: `POLLER_OPERATOR`, else user and host. reason: for the record.
        file: the configuration file, for the commands in results and errors; empty for a poller made in Python.
    """

    dry_run: bool = False
    break_lease: bool = False
    allow_skip: bool = False
    by: str | None = None
    reason: str | None = None
    file: str = ""

    @property
    def allowed(self) -> dict[Allow, bool]:
        """What lets a refused change pass."""
        return {"allow_skip": self.allow_skip, "break_lease": self.break_lease}

    @property
    def configuration(self) -> str:
        """Where the poller is configured, for people."""
        return self.file or "the poller's configuration"

    def option(self, name: str) -> str:
        """How one gives `reason`, `allow_skip`, `break_lease`, `overwrite`, `rebind`: in the console `--allow-skip`."""
        return name if name == "reason" else f"{name}=True"

    def command(self, *words: str) -> str:
        """A command line to copy."""
        return command_line(self.file, *words)


def command_line(file: str, *words: str) -> str:
    """A command line to copy; `file`: the configuration file, empty for a poller made in Python."""
    return shlex.join(["poller", *(["-c", file] if file not in ("", "poller.toml") else []), *words])


def checked_reason(reason: str | None, name: str) -> str | None:
    """What is kept of a reason; `name`: of the argument. Raises: WrongArgument, if it is not text, or too long."""
    if reason is None:
        return None
    reason = clean(reason, name).strip()
    if len(reason) > LONGEST_REASON:
        raise WrongArgument(
            f"{name} has {len(reason):,} characters, and at most {LONGEST_REASON:,} are kept.",
            next_step="Shorten it; nothing was changed.",
        )
    return reason if is_visible(reason) else None


def identity(by: str | None = None) -> str:
    """Who changes something, in one line: `by`, else `POLLER_OPERATOR`, else user and host.

    Raises: WrongArgument, where `by` is not text.
    """
    if by is not None and not isinstance(by, str):
        raise WrongArgument(f"by: {shown(by)} is not text.")
    who = next((one for one in (by or "", os.environ.get("POLLER_OPERATOR", "")) if is_visible(one)), "").strip()
    if not who:
        import getpass
        import socket

        try:
            user = getpass.getuser()
        except (OSError, KeyError, ImportError):
            user = "unknown"
        who = f"{user}@{socket.gethostname()}"
    flat = " ".join(part.strip() for part in who.splitlines() if part.strip())
    return escape(flat).encode("utf-8", "replace").decode()[:LONGEST_NAME]
