"""`poller import`: go on where another library stands."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from poller_cli.commands.options import Moved
from poller_cli.session import Session, poller_names


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
            "--name", metavar="NAME", help="Which poller goes on.", show_default=False, autocompletion=poller_names
        ),
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also where NAME has a checkpoint; its token stays, and grows.")
    ] = False,
    *,
    consent: Moved,
) -> int:
    """Go on where a poller of the library azure-functions-db stands, without a row twice or none.

    Stop its function app first. An address is read with the SAS token in it, else with the configured storage
    connection where it is of that account, else by identity. Where its cursor names no key, or a key whose order is
    not known, rows of the last value may come again; that is said before anything is changed.

    Example: poller import azure-functions-db state-of-orders.json --name orders
    """
    from datetime import UTC, datetime

    from poller.admin.import_azure_functions_db import Import, read_foreign
    from poller_cli.output.change_report import Report

    with session.app() as app:
        poller = app.poller(name)
        foreign = read_foreign(where, connection=app.config.state.connection, environ=os.environ, now=datetime.now(UTC))
        change = Import(foreign, app.config.pollers[name].source, overwrite)
        return Report(session, app, consent, name).carry_out(poller, change)
