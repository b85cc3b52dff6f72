"""`poller pause`: no new batch starts; the one in hand is finished."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from poller_cli.guards import ConfirmOption, Consent, DryRunOption, ReasonOption, YesOption
from poller_cli.session import NamedArgument, Session

if TYPE_CHECKING:
    from poller.admin.changes import Plan
    from poller.model.document import State


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
    from poller.admin.plans import pause_plan
    from poller_cli.backfills import FINISHED
    from poller_cli.part_changes import carry_out

    consent = Consent(yes=yes, confirm=confirm, dry_run=dry_run, reason=reason)
    with session.app() as app:
        named = app.named(name)

        def plan(name: str) -> Plan:
            plan = pause_plan(name)

            def nothing(state: State) -> str | None:
                if named.documents and FINISHED in state.checkpoint.metadata:
                    return f"{name} is finished: there is nothing to pause."
                return plan.nothing(state)

            return replace(plan, nothing=nothing)

        return carry_out(session, app, named, consent, plan)
