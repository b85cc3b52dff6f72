"""Findings as commands print them: on one line, and without any known shape of a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller_cli.output.check_models import FindingOutput
from poller_cli.terminal.printing import one_line

if TYPE_CHECKING:
    from poller.model.finding import Finding


def finding_output(finding: Finding) -> FindingOutput:
    """As `--json` prints it."""
    return FindingOutput(
        check=finding.check,
        severity=finding.severity,
        message=one_line(finding.message),
        fix=one_line(finding.fix) if finding.fix else None,
    )
