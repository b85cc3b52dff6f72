"""`poller backfill`: a range of the table through the same handler, beside the live poller."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from poller_cli.commands.options import NameArgument, Placed
from poller_cli.session import Session


def backfill(
    session: Session,
    name: NameArgument,
    begins: Annotated[
        str,
        typer.Option(
            "--from", metavar="TEXT", help="The cursor column's first value in the range.", show_default=False
        ),
    ],
    ends: Annotated[
        str, typer.Option("--to", metavar="TEXT", help="The first value behind the range.", show_default=False)
    ],
    new_name: Annotated[
        str | None,
        typer.Option("--as", metavar="NEW", help="The name of its state document. [default: NAME-backfill-HASH]"),
    ] = None,
    parallel: Annotated[
        int,
        typer.Option("--parallel", metavar="N", min=1, max=32, help="Deliver the range in N parts at once."),
    ] = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Also if it halted: a batch failed too often.")] = (False),
    *,
    consent: Placed,
) -> int:
    """Deliver the rows of a range to the handler, beside the live poller, whose checkpoint is not touched.

    Run it again to go on where it was interrupted. A range that was finished is not delivered again, except under
    another name (--as).

    Example: poller backfill orders --from 2026-04-06 --to 2026-04-07

    It has a state document of its own. With --parallel the handler is called from several threads at once; the parts
    are of the same width, or have equally many rows if most rows have one timestamp. Until it is finished, poller
    status shows it, and it is paused by its own name: poller pause orders-backfill-337cd319.
    """
    from poller.backfill.run import Backfill
    from poller_cli.output.backfill_report import BackfillReport, TypedRequest

    stop = threading.Event()
    report = BackfillReport(session, consent, stop)
    request = TypedRequest(begins, ends, name=new_name, parallel=parallel, retry=retry, dry_run=consent.dry_run)
    with session.app(observers=report.observers) as app:
        poller = app.poller(name)
        report.show_times(app.config)
        with Backfill(poller, request, taken=app.pollers) as work:
            return report.carry_out(work)
