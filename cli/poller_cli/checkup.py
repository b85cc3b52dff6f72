"""The findings of each poller of a file, and what they contribute to the exit code."""

from __future__ import annotations

from dataclasses import dataclass

from poller.admin.doctor import FINGERPRINT
from poller.app import App
from poller.errors import PollerError
from poller.model.finding import Finding, error
from poller_cli import exits


@dataclass(frozen=True, slots=True)
class Examined:
    """One poller's findings, and what it contributes to the exit code."""

    name: str
    app_name: str
    findings: list[Finding]
    code: int


def examine(app: App, name: str) -> Examined:
    """Everything about one poller. Raises nothing that is a PollerError."""
    app_name = app.config.app_name
    try:
        poller = app.poller(name)
    except PollerError as refused:
        code = exits.USAGE if refused.exit_code == exits.USAGE else exits.FAILED
        return Examined(name, app_name, [error("configuration", refused.message, refused.next_step)], code)
    findings = poller.check()
    return Examined(name, app_name, findings, _code(findings))


def _code(findings: list[Finding]) -> int:
    """1 where an error stands, 4 where the checkpoint belongs to another source."""
    errors = {one.check for one in findings if one.severity == "error"}
    if FINGERPRINT in errors:
        return exits.MISMATCH
    return exits.FAILED if errors else exits.DONE
