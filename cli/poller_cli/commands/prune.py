"""`poller prune`: delete the rows of a change table or an outbox that every reader is done with."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from poller_cli import exits
from poller_cli.commands.options import Agreed, NameArgument, duration
from poller_cli.session import Session


def prune(
    session: Session,
    name: NameArgument,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="Only changes that are older. [default: older_than in the file, or 7d]",
        ),
    ] = None,
    outbox: Annotated[
        bool, typer.Option("--outbox", help="Of the poller's own table, which is an outbox: its rows are deleted.")
    ] = False,
    url_env: Annotated[
        str | None,
        typer.Option("--url-env", metavar="SETTING", help="It holds the URL of a user who may delete rows."),
    ] = None,
    *,
    consent: Agreed,
) -> int:
    """Delete the rows of a change table, or of an outbox, that no reader needs any more.

    Example: poller prune orders --older-than 7d --dry-run

    The limit is the lowest checkpoint of all pollers and backfills in the state store that read this table. Rows that
    wait, for another try or for a person, are left in place. If no reader is found, or one cannot be read, nothing is
    deleted. A few thousand rows are deleted in each transaction, with a pause as long as it took. With older_than or
    outbox in [pollers.NAME.prune] poller run does the same once an hour (docs/recipes/prune.md).
    """
    from poller.admin.prune import TablePrune
    from poller_cli.output import prune_report
    from poller_cli.terminal.confirmation import confirm, show_before
    from poller_cli.terminal.layout import fitted

    with session.app(observers=()) as app:
        poller = app.poller(name)
        made = TablePrune(
            app.known(name),
            app.config,
            poller.source.describe(),
            store=app.store,
            runtime=app.runtime,
            environ=os.environ,
            url_env=url_env,
            age=duration(older_than, "--older-than", "Write it like 7d or 12h."),
            outbox=outbox,
        )
        plan = made.plan()
        output = prune_report.of_plan(name, app.app_name, plan)
        if not consent.dry_run and plan.rows:
            show_before(prune_report.screen(output), session, consent)
            confirm(consent, name, "delete rows of the table of", typed=not plan.captured)
            output = prune_report.of_done(output, made.run())
    session.show(output, lambda: fitted(prune_report.screen(output), sys.stdout))
    return exits.DONE
