"""`poller resume`: a paused or halted poller works again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller_cli.guards import ConfirmOption, Consent, DryRunOption, NameArgument, ReasonOption, YesOption
from poller_cli.session import Session

if TYPE_CHECKING:
    from poller.model.document import State


def resume(
    session: Session,
    name: NameArgument,
    reason: ReasonOption = None,
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Take back a pause, a halt, or both; the pending batch is tried afresh.

    Example: poller resume orders --reason "the customer exists now"
    """
    from poller.model.changes import to_resume
    from poller_cli.changes import Desk, Plan

    def nothing(state: State) -> str | None:
        return None if state.control.paused or state.control.halted else f"{name} is neither paused nor halted."

    consent = Consent(yes=yes, confirm=confirm, dry_run=dry_run, reason=reason)
    with session.app() as app:
        desk = Desk(session, app, app.poller(name), consent)
        return desk.carry_out(
            Plan(kind="resume", transition=to_resume, nothing=nothing, fenced=False, strict=False, notes=_ends)
        )


def _ends(state: State) -> list[str]:
    """Which of the two it takes back."""
    control = state.control
    which = " and the ".join(word for word, on in (("pause", control.paused), ("halt", control.halted)) if on)
    at = f" since {control.at:%Y-%m-%d %H:%M:%S}Z" if control.at else ""
    return [f"It ends the {which}{at}, by {control.by or 'unknown'}: {control.reason or 'no reason given'}."]
