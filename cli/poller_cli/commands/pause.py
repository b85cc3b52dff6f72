"""`poller pause`: no new batch starts; the one in hand is finished."""

from __future__ import annotations

from poller_cli.commands.options import Recorded
from poller_cli.session import NamedArgument, Session


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
    from poller.admin.pausing import Pause
    from poller_cli.output.change_report import ChangeReport

    with session.app() as app:
        named = app.named(name)
        if named.documents:
            from poller_cli.output.part_report import change_backfill

            return change_backfill(session, app, named, consent, "pause")
        return ChangeReport(session, app, consent, name).carry_out(app.without_source(named), Pause())
