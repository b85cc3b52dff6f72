"""`poller recheck`: rows that appeared under the cursor, and were never delivered."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from poller_cli import exits
from poller_cli.commands.options import Delivered, NameArgument, duration
from poller_cli.session import Session

if TYPE_CHECKING:
    from poller.poller import Poller
    from poller.tick.recheck import Recheck


def recheck(
    session: Session,
    name: NameArgument,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DURATION", help="How far to look back. [default: the audit_window]"),
    ] = None,
    redeliver: Annotated[
        bool, typer.Option("--redeliver", help="Hand the late rows to the handler; the checkpoint stays.")
    ] = False,
    *,
    consent: Delivered,
) -> int:
    """Compare the table with what was delivered, and show the rows under the cursor that never were.

    Needs `audit_window` in the poller's configuration. Without --redeliver it changes nothing.

    Example: poller recheck orders --since 2h --redeliver

    It knows what was delivered since `audit_window` was set. Such rows come from restores, from bulk loads that keep
    old times, and from clocks that are wrong.
    """
    from poller.admin.request import checked_reason
    from poller_cli.output import recheck_report
    from poller_cli.terminal.confirmation import confirm, will_ask
    from poller_cli.terminal.layout import fitted
    from poller_cli.terminal.printing import claim_stdout, complain, print_json

    window = duration(since, "--since")
    why = checked_reason(consent.reason, "--reason")
    again = session.command("recheck", name, *([] if since is None else ["--since", since]), "--redeliver")
    out = claim_stdout() if session.json else sys.stdout
    failure: str | None = None
    with session.app(observers=()) as app:
        poller = app.poller(name)
        found = poller.recheck(window)
        output = recheck_report.output(name, poller.app_name, found)
        shown_rows = output.late_rows
        if not session.json or (redeliver and found.rows and will_ask(consent)):
            shown = sys.stderr if session.json else out
            print(fitted(recheck_report.findings(output), shown), file=shown, flush=True)
        if found.rows and redeliver and not consent.dry_run:
            confirm(consent, name, "redelivering")  # as a backfill: the checkpoint stays
            failure = _redeliver(poller, found, why)
            output = recheck_report.output(name, poller.app_name, found)
    if session.json:
        print_json(output, out)
    elif result := recheck_report.result(output, again, shown_rows, dry_run=redeliver and consent.dry_run):
        print(fitted(result, sys.stdout))
    if failure is None:
        return exits.DONE
    complain(f"{name}: the handler failed on a batch of late rows: {failure.rstrip('.')}. Fix it, then run: {again}")
    return exits.FAILED


def _redeliver(poller: Poller, found: Recheck, reason: str | None) -> str | None:
    """Deliver the late rows; how the handler failed, if it did: its error's type, and its first line where `error_text`
    allows that."""
    from poller.admin.request import identity
    from poller.errors import PollerError
    from poller.handler.call import HandlerFailure
    from poller.model.redact import error_line

    try:
        poller.redeliver(found, by=identity(), reason=reason)
    except (PollerError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the handler raises
        kind = error.kind if isinstance(error, HandlerFailure) else type(error).__name__
        line = error_line(error) if poller.options.error_text else ""
        return f"{kind}: {line}" if line else kind
    return None
