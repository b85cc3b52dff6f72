"""`poller rebind`: accept a changed source, keeping the cursor."""

from __future__ import annotations

from poller_cli.guards import (
    BreakLeaseOption,
    ConfirmOption,
    Consent,
    DryRunOption,
    NameArgument,
    ReasonOption,
    YesOption,
)
from poller_cli.session import Session


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
    from poller.model.changes import to_rebind
    from poller.model.document import State
    from poller.model.fingerprint import differences
    from poller_cli.changes import Desk, Plan
    from poller_cli.effects import rows_up_to
    from poller_cli.resets import refuse_foreign

    consent = Consent(yes, confirm, dry_run, break_lease, reason=reason)
    with session.app() as app:
        poller = app.poller(name)
        source = poller.source.describe()

        def nothing(state: State) -> str | None:
            if state.source_fingerprint == source.fingerprint():
                return f"{name} belongs to the configured source already."
            return None

        def notes(state: State) -> list[str]:
            refuse_foreign(poller, state.checkpoint.cursor)
            told = rows_up_to(poller.source, state.checkpoint.cursor)
            return [f"Of the configured source, {told} up to the cursor count as delivered."]

        plan = Plan(
            kind="rebind",
            transition=to_rebind(source),
            nothing=nothing,
            differences=lambda state: differences(state.source, source),
            notes=notes,
        )
        return Desk(session, app, poller, consent).carry_out(plan)
