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
    from poller_cli.output.change_report import stop_or_resume

    return stop_or_resume(session, name, consent, "pause")
