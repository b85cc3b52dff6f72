"""`poller rebind`: accept a changed source, keeping the cursor."""

from __future__ import annotations

from typing import Annotated

import typer

from poller_cli.commands.options import Fenced, NameArgument
from poller_cli.session import Session


def rebind(
    session: Session,
    name: NameArgument,
    consent: Fenced,
    *,
    after_failover: Annotated[
        bool, typer.Option("--after-failover", help="Another server answers, and has all commits.")
    ] = False,
) -> int:
    """Accept that the source was changed, and go on from the same cursor. Shows what differs, field by field.

    Rows of the changed source up to the cursor count as delivered. Also if the configuration is the same and the table
    was changed so that the poller refuses to go on.

    Example: poller rebind orders --reason "the database moved to db2"
    """
    from poller.admin.rebind import Rebind
    from poller_cli.output.change_report import ChangeReport

    with session.app() as app:
        return ChangeReport(session, app, consent, name).carry_out(app.poller(name), Rebind(after_failover))
