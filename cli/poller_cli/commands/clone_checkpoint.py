"""`poller clone-checkpoint`: another poller begins where this one stands."""

from __future__ import annotations

from typing import Annotated

import typer

from poller_cli.commands.options import (
    AllowSkipOption,
    BreakLeaseOption,
    ConfirmOption,
    DryRunOption,
    NameArgument,
    ReasonOption,
    YesOption,
)
from poller_cli.session import Session
from poller_cli.terminal.confirmation import Consent


def clone_checkpoint(
    session: Session,
    name: NameArgument,
    new_name: Annotated[
        str, typer.Argument(metavar="NEW_NAME", help="The other poller; need not be configured.", show_default=False)
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also where NEW_NAME has a checkpoint; its token stays, and grows.")
    ] = False,
    reason: ReasonOption = None,
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
    break_lease: BreakLeaseOption = False,
    allow_skip: AllowSkipOption = False,
) -> int:
    """Copy a poller's checkpoint, with the source it belongs to, to another poller of the same app.

    What is changed is NEW_NAME's document, so that is the name to type or to confirm.

    Example: poller clone-checkpoint orders orders-v2
    """
    from poller.admin import clone
    from poller_cli.output.change_report import Report

    consent = Consent(
        yes=yes, confirm=confirm, dry_run=dry_run, break_lease=break_lease, allow_skip=allow_skip, reason=reason
    )
    with session.app() as app:
        app.refuse_backfill(new_name)
        new = app.poller(new_name) if new_name in app.config.pollers else None
        report = Report(session, app, consent, new_name)
        cloned = clone.clone_checkpoint(
            app.poller(name), new_name, consent, report, new=new, file=app.path, overwrite=overwrite
        )
        return report.report(cloned)
