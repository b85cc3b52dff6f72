"""`poller rebind`: accept a changed source, keeping the cursor."""

from __future__ import annotations

from poller_cli.commands.options import (
    BreakLeaseOption,
    ConfirmOption,
    DryRunOption,
    NameArgument,
    ReasonOption,
    YesOption,
)
from poller_cli.session import Session
from poller_cli.terminal.confirmation import Consent


def rebind(
    session: Session,
    name: NameArgument,
    reason: ReasonOption = None,
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
    break_lease: BreakLeaseOption = False,
) -> int:
    """Accept that the source was changed, and go on from the same cursor. Shows what differs, field by field.

    Rows of the changed source up to the cursor count as delivered.

    Example: poller rebind orders --reason "the database moved to db2"
    """
    from poller.admin import rebind as admin
    from poller_cli.output.change_report import Report

    consent = Consent(yes=yes, confirm=confirm, dry_run=dry_run, break_lease=break_lease, reason=reason)
    with session.app() as app:
        report = Report(session, app, consent, name)
        return report.report(admin.rebind(app.poller(name), consent, report))
