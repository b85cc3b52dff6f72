"""`poller pause`: no new batch starts; the one in hand is finished."""

from __future__ import annotations

from poller_cli.guards import ConfirmOption, Consent, DryRunOption, NameArgument, ReasonOption, YesOption
from poller_cli.session import Session


def pause(
    session: Session,
    name: NameArgument,
    reason: ReasonOption = None,
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Let no new batch start. A batch in hand is finished and committed; the worker needs no restart.

    Example: poller pause orders --reason "migration of the warehouse"
    """
    from poller.model.changes import to_pause
    from poller.model.document import State
    from poller_cli.changes import Desk, Plan

    def nothing(state: State) -> str | None:
        if not state.control.paused:
            return None
        by = f" by {state.control.by}" if state.control.by else ""
        return f"{name} is paused already{by}: {state.control.reason or 'no reason given'}."

    consent = Consent(yes=yes, confirm=confirm, dry_run=dry_run, reason=reason)
    with session.app() as app:
        desk = Desk(session, app, app.poller(name), consent)
        return desk.carry_out(Plan(kind="pause", transition=to_pause, nothing=nothing, fenced=False, strict=False))
