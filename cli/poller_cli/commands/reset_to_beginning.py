"""`poller reset-to-beginning`: every row is delivered again."""

from __future__ import annotations

from typing import Annotated

import typer

from poller_cli.commands.options import Moved, NameArgument
from poller_cli.session import Session


def reset_to_beginning(
    session: Session,
    name: NameArgument,
    token_at_least: Annotated[
        int,
        typer.Option(
            "--token-at-least", metavar="N", min=0, max=2**52, help="Raise the fencing token to N, after a restore."
        ),
    ] = 0,
    *,
    consent: Moved,
) -> int:
    """Deliver every row again. Shows before and after with the number of rows, asks, and keeps a backup.

    Example: poller reset-to-beginning orders --reason "the handler dropped the discount"

    If the state document was deleted, it makes one, and keeps the lease for its full time.
    """
    from poller.admin.resets import Reset
    from poller_cli.output.change_report import Report

    with session.app() as app:
        return Report(session, app, consent, name).carry_out(app.poller(name), Reset(None, token_at_least))
