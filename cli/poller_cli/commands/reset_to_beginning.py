"""`poller reset-to-beginning`: every row is delivered again."""

from __future__ import annotations

from poller_cli.guards import (
    AllowSkipOption,
    BreakLeaseOption,
    ConfirmOption,
    Consent,
    DryRunOption,
    NameArgument,
    ReasonOption,
    YesOption,
)
from poller_cli.session import Session


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
    from poller.admin.plans import reset_plan
    from poller_cli.changes import change

    consent = Consent(yes, confirm, dry_run, break_lease, allow_skip, reason)
    with session.app() as app:
        poller = app.poller(name)
        return change(session, app, poller, consent, reset_plan(poller, "reset-to-beginning", None))
