"""What `pause`, `cancel` and `resume` of a backfill show: all its parts before they ask, and what was done to each."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from poller.admin.change_result import ChangeOutput
from poller.admin.pausing import Kind
from poller.backfill.changes import BackfillChanges
from poller_cli import exits
from poller_cli.output.change_report import ChangeReport, surely_reported
from poller_cli.terminal.confirmation import confirm, will_ask
from poller_cli.terminal.printing import print_json, printable

if TYPE_CHECKING:
    from poller.app import App, Named
    from poller_cli.session import Session
    from poller_cli.terminal.confirmation import Consent


def change_backfill(
    session: Session, app: App, named: Named, consent: Consent, kind: Kind, *, wait: bool = True
) -> int:
    """Preview, ask, change and print. Raises: WrongArgument, and as `BackfillChanges.make`."""
    if len(named.documents) == 1:
        return _change_part(session, app, named, consent, kind, wait=wait)
    request = replace(consent, file=str(session.config))
    changes = BackfillChanges(app.backfills, named.documents, kind, request)
    reports = {one.name: ChangeReport(session, app, consent, one.name) for one in changes.parts}
    shows, out = not session.json or will_ask(consent), sys.stderr if session.json else sys.stdout
    if shows:
        print(f"{kind} {named.name}, which is in {len(reports)} parts", file=out, flush=True)
    if shows or consent.dry_run:
        for preview in changes.prepare():
            if preview.nothing is None:
                reports[preview.output.name].preview(preview)
            elif shows and not consent.dry_run:
                print(printable(preview.nothing), file=out, flush=True)
    if not consent.dry_run:
        confirm(consent, named.name, kind, typed=False)  # a pause or a resume

    def changed(output: ChangeOutput) -> None:
        """At once: the next may fail."""
        if not session.json:
            reports[output.name].report(output)

    def waiting(output: ChangeOutput, worker: str, seconds: float) -> None:
        reports[output.name].waiting(output, worker, seconds)

    output = changes.make(wait=wait, changed=changed, waiting=waiting)
    if session.json:
        with surely_reported(output):
            print_json(output)
    return exits.DONE


def _change_part(session: Session, app: App, named: Named, consent: Consent, kind: Kind, *, wait: bool) -> int:
    """Change a backfill that is not in parts, or one part."""
    report = ChangeReport(session, app, consent, named.documents[0].name)
    changes = BackfillChanges(app.backfills, named.documents, kind, report.request)
    (part,) = changes.parts
    return report.carry_out_on(part, changes.change, wait=wait)
