"""`poller resume`: a paused or halted poller works again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller_cli.guards import ConfirmOption, Consent, DryRunOption, ReasonOption, YesOption
from poller_cli.session import NamedArgument, Session

if TYPE_CHECKING:
    from poller.model.document import State
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
    from poller.model.changes import to_resume
    from poller_cli.changes import Plan
    from poller_cli.part_changes import carry_out

    consent = Consent(yes=yes, confirm=confirm, dry_run=dry_run, reason=reason)
    with session.app() as app:
        named = app.named(name)
        going_on = _going_on(session, app, named)

        def plan(name: str) -> Plan:
            def nothing(state: State) -> str | None:
                return None if state.control.paused or state.control.halted else f"{name} is neither paused nor halted."

            return Plan(
                kind="resume",
                transition=to_resume,
                nothing=nothing,
                fenced=False,
                strict=False,
                notes=lambda state: [*_ends(state), *going_on],
            )

        return carry_out(session, app, named, consent, plan)


def _going_on(session: Session, app: ConsoleApp, named: Named) -> list[str]:
    """What works at a backfill: nothing by itself, unlike at a poller."""
    if not named.documents:
        return []
    command = app.backfills.command(named.documents[0], session.config) or "the same poller backfill command as before"
    return [f"To go on with it, run: {command}"]


def _ends(state: State) -> list[str]:
    """Which of the two it takes back. Where it is both, who and why are the pause's."""
    from poller.model.stamps import to_the_second

    control, error = state.control, state.delivery.last_error
    if not control.paused and not control.halted:
        return []
    at = f" since {to_the_second(control.at)}" if control.at else ""
    which = "pause" if control.paused else "halt"
    told = [f"It ends the {which}{at}, by {control.by or 'unknown'}: {control.reason or 'no reason given'}."]
    if control.paused and control.halted:
        why = f", whose cause was {error.type}{f': {error.message}' if error.message else ''}" if error else ""
        told.append(f"It ends the halt too{why.rstrip('.')}.")
    return told
