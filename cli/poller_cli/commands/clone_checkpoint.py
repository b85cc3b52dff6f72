"""`poller clone-checkpoint`: another poller begins where this one stands."""

from __future__ import annotations

from typing import Annotated

import typer

from poller_cli.commands.options import Moved, NameArgument
from poller_cli.session import Session


def clone_checkpoint(
    session: Session,
    name: NameArgument,
    new_name: Annotated[
        str, typer.Argument(metavar="NEW_NAME", help="The other poller; need not be configured.", show_default=False)
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also if NEW_NAME has a checkpoint. Its token stays, and grows.")
    ] = False,
    *,
    consent: Moved,
) -> int:
    """Copy a poller's checkpoint, with the source it belongs to, to another poller of the same app.

    NEW_NAME's document is what is changed, so that is the name to type or to confirm.

    Example: poller clone-checkpoint orders orders-v2
    """
    from poller.admin.clone import clone_of, with_configuration
    from poller.admin.refusals import Refused
    from poller_cli.output.change_report import Report

    with session.app() as app:
        new = app.poller(new_name) if new_name in app.config.pollers else None
        if new is None and app.backfills.named(new_name):
            raise Refused(f"{new_name} is a backfill's name; nothing was changed.", next_step="Name another.")
        report = Report(session, app, consent, new_name)
        on, clone = clone_of(app.poller(name), new_name, report.request, new=new, file=app.path, overwrite=overwrite)
        return report.report(with_configuration(report.made(on, clone), clone))
