"""`poller reset-to-beginning`: every row is delivered again."""

from __future__ import annotations

from poller_cli.commands.options import Moved, NameArgument
from poller_cli.session import Session


def reset_to_beginning(
    session: Session,
    name: NameArgument,
    consent: Moved,
) -> int:
    """Deliver every row again. Shows before and after with the number of rows, asks, and keeps a backup.

    Example: poller reset-to-beginning orders --reason "the handler dropped the discount"
    """
    from poller.admin.changes import StateEditor
    from poller.admin.plans import reset_plan
    from poller_cli.output.change_report import Report

    with session.app() as app:
        poller = app.poller(name)
        report = Report(session, app, consent, name)
        plan = reset_plan(poller, "reset-to-beginning", None)
        return report.report(StateEditor(poller, consent, report).carry_out(plan))
