"""`poller recheck`: rows that appeared under the cursor, and were never delivered."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from poller_cli import exits
from poller_cli.guards import ConfirmOption, Consent, DryRunOption, NameArgument, ReasonOption, YesOption
from poller_cli.session import Session

if TYPE_CHECKING:
    from datetime import timedelta

    from poller_cli.output.check_models import RecheckOutput

SHOWN = 10


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
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
    reason: ReasonOption = None,
) -> int:
    """Compare the table with what was delivered, and show the rows under the cursor that never were.

    Needs `audit_window` in the poller's configuration, and knows what was delivered since that was set. Such rows come
    from restores, from bulk loads that keep old times, and from clocks that are wrong. Without --redeliver it changes
    nothing.

    Example: poller recheck orders --since 2h --redeliver
    """
    from poller.admin.changes import checked_reason, identity
    from poller.errors import PollerError
    from poller_cli.output.check_models import RecheckOutput
    from poller_cli.output.models import as_json
    from poller_cli.terminal.confirmation import confirm as ask
    from poller_cli.terminal.confirmation import will_ask
    from poller_cli.terminal.printing import claim_stdout, complain, print_json

    window, consent = _duration(since), Consent(yes=yes, confirm=confirm, dry_run=dry_run, reason=reason)
    why = checked_reason(consent.reason, "--reason")
    again = session.command("recheck", name, *([] if since is None else ["--since", since]), "--redeliver")
    out = claim_stdout() if session.json else sys.stdout
    failure: str | None = None
    with session.app(observers=()) as app:
        poller = app.poller(name)
        found = poller.recheck(window)

        def output() -> RecheckOutput:
            return RecheckOutput(
                name=name,
                app_name=poller.app_name,
                compared=found.compared,
                stretches=found.stretches,
                complete=found.complete,
                late_rows=len(found.rows),
                redelivered=found.redelivered,
                late=list(found.cursors[:1_000]),
            )

        if not session.json or (redeliver and found.rows and will_ask(consent)):
            print("\n".join(_screen(output())), file=sys.stderr if session.json else out, flush=True)
        if found.rows and redeliver and not dry_run:
            ask(consent, name, "redelivering", production=None)  # as a backfill: the checkpoint stays
            try:
                poller.redeliver(found, by=identity(), reason=why)
            except (PollerError, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - whatever the handler raises
                failure = _told(error, shown=poller.options.error_text)
    if session.json:
        print_json(as_json(output()), out)
    else:
        print("".join(f"  {line}\n" for line in _ended(output(), again, dry_run=redeliver and dry_run)), end="")
    if failure is not None:
        failure = failure.rstrip(".")
        complain(f"{name}: the handler failed on a batch of late rows: {failure}. Mend it, then run: {again}")
        return exits.FAILED
    return exits.DONE


def _told(error: BaseException, *, shown: bool) -> str:
    """A handler's error as a tick tells it: by its type, and its first line where `error_text` allows that."""
    from poller.handler.call import HandlerFailure
    from poller.model.redact import error_line

    kind = error.kind if isinstance(error, HandlerFailure) else type(error).__name__
    said = error_line(error) if shown else ""
    return f"{kind}: {said}" if said else kind


def _duration(text: str | None) -> timedelta | None:
    from poller.admin.refusals import WrongArgument
    from poller.model.durations import parse_duration

    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise WrongArgument(f"--since: {error}.") from None


def _screen(found: RecheckOutput) -> list[str]:
    """What was found, before anything is done about it."""
    from poller_cli.terminal.printing import printable

    if not found.stretches:
        return [f"{found.name}: nothing was noted as delivered in that time, so nothing could be compared."]
    some = "" if found.complete else " so far (not all could be compared: look again, or with a smaller --since)"
    rows = f"{found.compared:,} row{'' if found.compared == 1 else 's'} compared"
    lines = [f"{found.name}: {rows}, {found.late_rows:,} never delivered{some}"]
    lines += [f"  {printable(str(cursor))}" for cursor in found.late[:SHOWN]]
    if found.late_rows > SHOWN:
        lines.append(f"  ... and {found.late_rows - SHOWN:,} more")
    return lines


def _ended(found: RecheckOutput, again: str, *, dry_run: bool) -> list[str]:
    """What was done about it, or is to be."""
    if dry_run:
        many = f"{found.late_rows:,} row{'' if found.late_rows == 1 else 's'}"
        return [f"A dry run: nothing was delivered. Without it {many} would go to the handler; the checkpoint stays."]
    if found.redelivered:
        return [f"{found.redelivered:,} of {found.late_rows:,} went to the handler now; the checkpoint stayed."]
    return [f"Deliver them: {again}"] if found.late_rows else []
