"""`poller resume`: a paused or halted poller works again."""

from __future__ import annotations

from poller_cli.commands.options import Recorded
from poller_cli.session import NamedArgument, Session


def resume(
    session: Session,
    name: NamedArgument,
    consent: Recorded,
) -> int:
    """Take back a pause, a halt, or both; a batch that failed is tried again at once.

    A backfill is resumed by its name, with all its parts. It says which command then goes on with it.

    Example: poller resume orders --reason "the customer exists now"
    """
    from poller.admin.pausing import Resume
    from poller_cli.output.change_report import ChangeReport

    with session.app() as app:
        named = app.named(name)
        if named.documents:
            from poller_cli.output.part_report import change_backfill

            return change_backfill(session, app, named, consent, "resume")
        return ChangeReport(session, app, consent, name).carry_out(app.without_source(named), Resume())
