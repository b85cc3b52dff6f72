"""`poller pause`: no new batch starts; the one in hand is finished."""

from __future__ import annotations

from poller_cli.commands.options import ConfirmOption, DryRunOption, ReasonOption, YesOption
from poller_cli.session import NamedArgument, Session
from poller_cli.terminal.confirmation import Consent


def pause(
    session: Session,
    name: NamedArgument,
    reason: ReasonOption = None,
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Let no new batch start. A batch in hand is finished and committed; the worker needs no restart.

    A backfill is paused by its name (poller status shows it), with all its parts: its command ends then, and goes on
    when it is resumed and run again.

    Example: poller pause orders --reason "migration of the warehouse"
    """
    from poller.admin.changes import StateEditor
    from poller.admin.plans import pause_plan
    from poller_cli.output.change_report import Report
    from poller_cli.output.part_report import change_backfill

    consent = Consent(yes=yes, confirm=confirm, dry_run=dry_run, reason=reason)
    with session.app() as app:
        named = app.named(name)
        if named.documents:
            return change_backfill(session, app, named, consent, "pause")
        report = Report(session, app, consent, name)
        return report.report(StateEditor(app.poller(name), consent, report).carry_out(pause_plan(name)))
