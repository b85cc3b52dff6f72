"""`poller pause`: no new batch starts; the one in hand is finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller_cli.commands.options import Recorded
from poller_cli.session import NamedArgument, Session

if TYPE_CHECKING:
    from poller.admin.pausing import Kind
    from poller_cli.terminal.confirmation import Consent


def pause(
    session: Session,
    name: NamedArgument,
    consent: Recorded,
) -> int:
    """Let no new batch start. A batch in hand is finished and committed; the worker needs no restart.

    A backfill is paused by its name (poller status shows it), with all its parts: its command ends then, and goes on
    when it is resumed and run again.

    Example: poller pause orders --reason "migration of the warehouse"
    """
    return stop_or_resume(session, name, consent, "pause")


def stop_or_resume(session: Session, name: str, consent: Consent, kind: Kind, *, wait: bool = True) -> int:
    """Pause, cancel or resume a poller, or a backfill by its name. `wait`: as of `ChangeReport.carry_out_on`."""
    from poller.admin.changes import Changes
    from poller.admin.pausing import CHANGES
    from poller_cli.output.change_report import ChangeReport

    with session.app() as app:
        named = app.named(name)
        if named.documents:
            from poller_cli.output.part_report import change_backfill

            return change_backfill(session, app, named, consent, kind, wait=wait)
        report = ChangeReport(session, app, consent, name)
        return report.carry_out_on(Changes(app.without_source(named), report.request), CHANGES[kind](), wait=wait)
