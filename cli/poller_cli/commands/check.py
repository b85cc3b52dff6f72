"""`poller check`: the doctor. Each finding with the statement that fixes it. Reads only."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from poller_cli import exits
from poller_cli.session import NamesArgument, Session, VerboseOption


def check(
    session: Session,
    names: NamesArgument = None,
    latency: Annotated[
        bool,
        typer.Option(
            "--latency",
            help="Also watch for a minute how late rows become visible, and say which settle would do. It reads the "
            "newest rows every 50 ms.",
        ),
    ] = False,
    verbose: VerboseOption = False,
) -> int:
    """Diagnose storage, source and configuration, and suggest fixes. Changes nothing.

    Storage, state document, privileges, columns, key, index, plan, NULLs, time zone, clocks, bound, handler, schedule.
    What is well is one line; --verbose shows each finding. Exits 1 if there is an error, 4 if the checkpoint is of
    another source.

    Example: poller check orders
    """
    from poller.admin.latency import LASTS
    from poller_cli.output.findings import check_output, screens
    from poller_cli.output.models import CheckOutput
    from poller_cli.terminal.printing import claim_stdout

    out = claim_stdout() if session.json else sys.stdout  # importing a handler may print
    with session.app() as app:
        checked = app.check(names, latency=LASTS if latency else None)
        if app.config.functions.mode == "queue":
            from poller.dispatch.wiring import findings

            of_all = findings(app, os.environ)
            for one in checked:
                one.findings.extend(of_all)
        found = [check_output(one, app.app_name) for one in checked]
    codes = [exits.of_checked(one) for one in checked]
    output = CheckOutput(ok=all(code == exits.DONE for code in codes), pollers=found)
    session.show(output, lambda: "\n\n".join(screens(found, session, verbose=verbose)), out)
    return exits.worst(codes)
