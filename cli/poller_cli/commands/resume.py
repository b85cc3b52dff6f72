"""`poller resume`: a paused or halted poller works again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from poller_cli.guards import ConfirmOption, Consent, DryRunOption, ReasonOption, YesOption
from poller_cli.session import NamedArgument, Session

if TYPE_CHECKING:
    from poller.admin.changes import Plan
    from poller_cli.naming import ConsoleApp, Named


def resume(
    session: Session,
    name: NamedArgument,
    reason: ReasonOption = None,
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Take back a pause, a halt, or both; the pending batch is tried afresh.

    A backfill is resumed by its name, with all its parts. Nothing runs it then by itself: it says which command does.

    Example: poller resume orders --reason "the customer exists now"
    """
    from poller.admin.plans import resume_plan
    from poller_cli.part_changes import carry_out

    consent = Consent(yes=yes, confirm=confirm, dry_run=dry_run, reason=reason)
    with session.app() as app:
        named = app.named(name)
        going_on = _going_on(session, app, named)

        def plan(name: str) -> Plan:
            plan = resume_plan(name)
            return replace(plan, notes=lambda state: [*plan.notes(state), *going_on])

        return carry_out(session, app, named, consent, plan)


def _going_on(session: Session, app: ConsoleApp, named: Named) -> list[str]:
    """What works at a backfill: nothing by itself, unlike at a poller."""
    if not named.documents:
        return []
    command = app.backfills.command(named.documents[0], session.config) or "the same poller backfill command as before"
    return [f"To go on with it, run: {command}"]
