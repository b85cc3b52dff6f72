"""`poller cancel`: the handler that runs now is stopped, and no new batch starts."""

from __future__ import annotations

from typing import Annotated

import typer

from poller_cli.commands.options import Recorded
from poller_cli.commands.pause import stop_or_resume
from poller_cli.session import NamedArgument, Session

NoWaitOption = Annotated[bool, typer.Option("--no-wait", help="Do not wait to see whether the handler has stopped.")]


def cancel(
    session: Session,
    name: NamedArgument,
    consent: Recorded,
    no_wait: NoWaitOption = False,
) -> int:
    """Stop the handler that runs now, commit nothing of its batch, and let no new batch start.

    Its rows are delivered again after poller resume. Waits up to a heartbeat_interval and 2 s more, and says whether
    the handler has stopped. A backfill is cancelled by its name, with all its parts.

    Example: poller cancel orders --reason "it writes to the wrong warehouse"

    The worker finds it by its next heartbeat: it sets batch.lost, cancels an async handler and kills one in a child
    process. When the handler has ended the worker gives the lease back, and the attempt does not count. If a handler
    ignores batch.lost, its lease is no longer renewed, and nothing that it does is committed.
    """
    return stop_or_resume(session, name, consent, "cancel", wait=not no_wait)
