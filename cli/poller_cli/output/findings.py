"""Findings as commands print them: without any known shape of a secret, and nothing that could steer a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from poller_cli.output.many import MANY, total
from poller_cli.output.models import FindingOutput, PollerCheck
from poller_cli.terminal.printing import coloured, copyable, folded, one_line

if TYPE_CHECKING:
    from poller.admin.doctor import Checked
    from poller.model.finding import Finding

_COLOURS = {"ok": "green", "warn": "yellow", "error": "red"}


def finding_output(finding: Finding) -> FindingOutput:
    """As `--json` prints it."""
    return FindingOutput(
        check=finding.check,
        severity=finding.severity,
        message=one_line(finding.message),
        fix=one_line(copyable(finding.fix)) if finding.fix else None,
    )


def check_output(checked: Checked, app_name: str) -> PollerCheck:
    """One poller's findings, as `--json` prints them."""
    findings = checked.findings
    return PollerCheck(
        name=checked.name,
        app_name=app_name,
        errors=sum(one.severity == "error" for one in findings),
        warnings=sum(one.severity == "warn" for one in findings),
        findings=[finding_output(one) for one in findings],
    )


def screens(found: Sequence[PollerCheck]) -> list[str]:
    """A block for each poller; with many, only what is wrong with those with which something is, and a line that
    counts them."""
    if len(found) <= MANY:
        return [screen(one) for one in found]
    words = {one.name: "with errors" if one.errors else "with warnings" if one.warnings else "well" for one in found}
    wrong = [screen(one, also_ok=False) for one in found if one.errors or one.warnings]
    return [*wrong, f"{total(words)}. What is well with one: poller check NAME"]


def screen(found: PollerCheck, *, also_ok: bool = True) -> str:
    """One poller's findings, for people."""
    shown = [one for one in found.findings if also_ok or one.severity != "ok"]
    width = max((len(one.check) for one in shown), default=0)
    hang = 11 + width
    lines = [found.name]
    for one in shown:
        word = coloured(f"{one.severity:<5}", _COLOURS[one.severity], sys.stdout)
        message = folded(" " * hang + one.message, hang=hang, stream=sys.stdout)
        lines.append(f"  {word}  {one.check:<{width}}  {message[hang:]}")
        if one.fix:
            lines.append(f"  {'':5}  {'':{width}}  -> {one.fix}")
    counts = [(found.errors, "error"), (found.warnings, "warning")]
    wrong = [f"{count} {word}{'s' if count != 1 else ''}" for count, word in counts if count]
    return "\n".join([*lines, f"  {', '.join(wrong) or 'all is well'}"])
