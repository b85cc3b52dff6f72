"""What `poller check` finds, with what fixes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["ok", "warn", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        check: what was checked, a fixed word such as `index`.
        severity: `error`: rows could be skipped or repeated, or nothing runs; `warn`: it works, at a price or a risk.
        message: what was found, in one line, without secrets.
        fix: the statement or command that fixes it, or a sentence where there is none; empty where all is well.
    """

    check: str
    severity: Severity
    message: str
    fix: str = ""


def ok(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", message)


def warn(check: str, message: str, fix: str = "") -> Finding:
    """It works, at a price or a risk."""
    return Finding(check, "warn", message, fix)


def error(check: str, message: str, fix: str = "") -> Finding:
    """Rows could be skipped or repeated, or nothing runs."""
    return Finding(check, "error", message, fix)
