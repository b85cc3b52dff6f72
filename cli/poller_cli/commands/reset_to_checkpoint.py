"""`poller reset-to-checkpoint`: go back to an export, a backup or a whole state document; also the undo of a reset."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from poller_cli.commands.options import Moved, NameArgument
from poller_cli.session import Session


def reset_to_checkpoint(
    session: Session,
    name: NameArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A local file, a backup's name in the store, or -: stdin.", show_default=False
        ),
    ],
    rebind: Annotated[
        bool, typer.Option("--rebind", help="Also a checkpoint of another source, which then belongs to this one.")
    ] = False,
    token_at_least: Annotated[
        int,
        typer.Option(
            "--token-at-least", metavar="N", min=0, max=2**52, help="Raise the fencing token to N, after a restore."
        ),
    ] = 0,
    *,
    consent: Moved,
) -> int:
    """Go back to a checkpoint from export-checkpoint, a backup, or a whole state document.

    Undoes a reset: what it changed is put back. Also puts back a document that was deleted or cannot be read.

    Example: poller reset-to-checkpoint orders backups/shop/orders/20260407T012346_020000Z.json

    If the document was deleted or cannot be read, the lease is kept for its full time, since a worker may still trust
    the old one.
    """
    from poller.admin.restore import Restore, find_checkpoint, read_checkpoint
    from poller_cli.output.change_report import Report

    with session.app() as app:
        poller = app.poller(name)
        if file == "-":
            kept = read_checkpoint(poller, _stdin(), location="text of stdin")
        else:
            kept = find_checkpoint(poller, file)
        return Report(session, app, consent, name).carry_out(poller, Restore(kept, rebind, token_at_least))


def _stdin() -> bytes:
    """All of it. The operator would answer there, too: what is read from it is confirmed by an option.

    Raises: WrongArgument.
    """
    from poller.admin.refusals import WrongArgument
    from poller.model.limits import LARGEST_BODY
    from poller_cli.terminal.layout import is_terminal

    if sys.stdin is None or is_terminal(sys.stdin):
        raise WrongArgument("FILE is -, and nothing is piped into stdin.", next_step="Give the name of a file.")
    return sys.stdin.buffer.read(LARGEST_BODY + 1)
