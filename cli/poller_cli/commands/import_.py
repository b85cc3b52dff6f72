"""`poller checkpoint import`: go on where another library stands."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from poller_cli.commands.options import Moved
from poller_cli.session import OnlyPoller, Session, poller_names


def azure_functions_db(
    session: Session,
    where: Annotated[
        str,
        typer.Argument(
            metavar="URL|FILE",
            help="The address of its blob state/POLLER.json, or a copy of it as a file.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Which poller goes on. [default: the only one]",
            autocompletion=poller_names,
        ),
        OnlyPoller("--name "),
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also if NAME has a checkpoint. Its token stays, and grows.")
    ] = False,
    *,
    consent: Moved,
) -> int:
    """Go on where a poller of the library azure-functions-db stands, without a row twice or none.

    Stop its function app first.

    Example: poller checkpoint import azure-functions-db state-of-orders.json --name orders

    An address is read with the SAS token in it, else with the configured storage connection if it is of that account,
    else by identity. If its cursor names no key, or a key whose order is not known, rows of the last value may come
    again; it says so before anything is changed.
    """
    from poller.admin.import_azure_functions_db import Import, read_foreign
    from poller_cli.output.change_report import ChangeReport

    with session.app() as app:
        poller = app.poller(name)
        foreign = read_foreign(
            where, connection=app.config.state.connection, environ=os.environ, now=app.runtime.utcnow()
        )
        change = Import(foreign, app.config.pollers[name].source, overwrite)
        return ChangeReport(session, app, consent, name).carry_out(poller, change)
