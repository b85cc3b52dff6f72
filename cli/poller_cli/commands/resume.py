"""`poller resume`: a paused or halted poller works again."""

from __future__ import annotations

from poller_cli.commands.options import Recorded
from poller_cli.commands.pause import stop_or_resume
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
    return stop_or_resume(session, name, consent, "resume")
