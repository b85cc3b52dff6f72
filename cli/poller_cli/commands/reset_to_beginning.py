"""`poller reset-to-beginning`: every row is delivered again."""

from __future__ import annotations

from poller_cli.commands.options import (
    AllowSkipOption,
    BreakLeaseOption,
    ConfirmOption,
    DryRunOption,
    NameArgument,
    ReasonOption,
    YesOption,
)
from poller_cli.session import Session
from poller_cli.terminal.confirmation import Consent


def reset_to_beginning(
    session: Session,
    name: NameArgument,
    reason: ReasonOption = None,
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
    break_lease: BreakLeaseOption = False,
    allow_skip: AllowSkipOption = False,
) -> int:
    """Deliver every row again. Shows before and after with the number of rows, asks, and keeps a backup.

    Example: poller reset-to-beginning orders --reason "the handler dropped the discount"
    """
    from poller.admin.changes import StateEditor
    from poller.admin.plans import reset_plan
    from poller_cli.output.change_report import Report

    consent = Consent(
        yes=yes, confirm=confirm, dry_run=dry_run, break_lease=break_lease, allow_skip=allow_skip, reason=reason
    )
    with session.app() as app:
        poller = app.poller(name)
        report = Report(session, app, consent, name)
        plan = reset_plan(poller, "reset-to-beginning", None)
        return report.report(StateEditor(poller, consent, report).carry_out(plan))
