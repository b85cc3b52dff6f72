"""`poller reset-to-checkpoint`: go back to an export, a backup or a whole state document; also the undo of a reset."""

from __future__ import annotations

from typing import Annotated

import typer

from poller_cli.guards import (
    AllowSkipOption,
    BreakLeaseOption,
    ConfirmOption,
    Consent,
    DryRunOption,
    NameArgument,
    ReasonOption,
    YesOption,
)
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
        bool, typer.Option("--rebind", help="Also a checkpoint of another source: it then belongs to this one.")
    ] = False,
    token_at_least: Annotated[
        int,
        typer.Option(
            "--token-at-least", metavar="N", min=0, max=2**52, help="Raise the fencing token to N, after a restore."
        ),
    ] = 0,
    reason: ReasonOption = None,
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
    break_lease: BreakLeaseOption = False,
    allow_skip: AllowSkipOption = False,
) -> int:
    """Go back to a checkpoint from export-checkpoint, a backup, or a whole state document.

    Undoes a reset: what it changed is put back. Also puts back a document that was deleted or cannot be read; then
    the lease is kept for its full time, since nobody can tell whether a worker still trusts the old one.

    Example: poller reset-to-checkpoint orders backups/shop/orders/20260407T012346_020000Z.json
    """
    from poller.admin.changes import StateEditor
    from poller_cli.changes import report_of, request_of
    from poller_cli.checkpoints import Restoring, find_origin

    consent = Consent(yes, confirm, dry_run, break_lease, allow_skip, reason)
    with session.app() as app:
        poller = app.poller(name)
        report = report_of(session, app, consent, name)
        editor = StateEditor(poller, request_of(consent), report)
        origin = find_origin(editor.operator, file, app=poller.app_name)
        restoring = Restoring(editor, poller, origin, rebind=rebind, token_at_least=token_at_least)
        return report.report(restoring.carry_out())
